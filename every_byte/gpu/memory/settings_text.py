"""How the text of PYTORCH_ALLOC_CONF is read: as PyTorch reads it, in its order, with its messages.

Source: c10/core/AllocatorConfig.h, .cpp; c10/cuda/CUDAAllocatorConfig.h, .cpp; held to what the CUDA build says to 164
texts, right and wrong, by tests/gpu/memory/test_settings.py.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches

from every_byte.rounding import OWN_SEGMENT_BYTES
from every_byte.units import MiB

UNLIMITED = (1 << 64) - 1
"""The largest `size_t`: no limit."""

N_INTERVALS = 16
"""Powers of two, from 1 MiB to 32 GiB, each of which may have its own number of divisions to round to."""

_MAX_MB = UNLIMITED // MiB
_PINNED_SIZES = ("pinned_max_round_threshold_mb", "pinned_max_cached_size_mb")
_ACCELERATOR = (
    "max_split_size_mb",
    "max_non_split_rounding_mb",
    "garbage_collection_threshold",
    "roundup_power2_divisions",
    "expandable_segments",
    "large_segment_size_mb",
    "pinned_use_background_threads",
    *_PINNED_SIZES,
)
"""Settings that PyTorch reads for every accelerator."""

_CUDA_BOOLS = (
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "pinned_free_catch_all",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "graph_capture_record_stream_reuse",
)
_MOST_REGISTER_THREADS = 128
_CUDA = (
    *_CUDA_BOOLS,
    "backend",
    "per_process_memory_fraction",
    "throw_on_cudamalloc_oom",
    "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb",
)
"""Settings that it reads for CUDA alone."""


def read(text: str, large_bytes: int, at_start: bool) -> dict[str, object]:
    """The fields of AllocatorSettings that a text names; `large_bytes` is the size of a large segment until then.

    A program that starts with the text reads what is CUDA's first, one that sets it later does last: of two errors,
    the one that is met first is told.
    """
    tokens = _Tokens(text)
    if not at_start:
        return _read_common(tokens, large_bytes) | _read_cuda(tokens)
    for _ in tokens.settings():  # in search of the backend, before all else
        pass
    of_cuda = _read_cuda(tokens)
    return _read_common(tokens, large_bytes) | of_cuda


class _Tokens:
    """The words of a text, and the signs between them: names, values, colons, commas and brackets."""

    def __init__(self, text: str) -> None:
        self.all: list[str] = re.findall(r"[,:\[\]]|[^,:\[\]]+", "".join(text.split()))

    def __getitem__(self, place: int) -> str:
        if place >= len(self.all):
            raise RuntimeError("Index out of bounds in ConfigTokenizer")
        return self.all[place]

    def settings(self) -> Iterator[tuple[str, int]]:
        """Each name with the place of its value."""
        place = 0
        while place < len(self.all):
            name = self[place]
            yield name, place + 2
            place = self._end(place + 2) + 2

    def _end(self, place: int) -> int:
        if self[place] != "[":
            return place
        while not self.closes(place):
            place += 1
        return place

    def closes(self, place: int) -> bool:
        """Whether a list ends there."""
        if place >= len(self.all):
            raise RuntimeError("Expected closing bracket ']' in ConfigTokenizer but reached end of config")
        return self.all[place] == "]"

    def boolean(self, place: int) -> bool:
        if self[place] not in ("True", "False"):
            raise ValueError(f"Expected 'True' or 'False' at index {place} in ConfigTokenizer but got '{self[place]}'")
        return self[place] == "True"

    def size(self, place: int) -> int:
        """A number as C++ reads it: what stands before anything that is no digit; a negative one wraps around."""
        digits = re.match(r"[+-]?\d+", self[place])
        if digits is None:
            raise ValueError("stoull")
        number = int(digits[0])
        if abs(number) > UNLIMITED:
            raise IndexError("stoull")
        return number & UNLIMITED

    def fraction(self, place: int) -> float:
        digits = re.match(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", self[place], re.IGNORECASE)
        if digits is None:
            raise ValueError("stod")
        return float(digits[0])


def _is_power_of_2(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _read_common(tokens: _Tokens, large_bytes: int) -> dict[str, object]:
    for place, name in enumerate(tokens.all):
        if name == "large_segment_size_mb":
            least_mb = OWN_SEGMENT_BYTES // MiB + 1
            large_bytes = _at_least(tokens.size(place + 2), least_mb, "large_segment_size_mb must be > 10 MB")
    fields: dict[str, object] = {"large_segment_bytes": large_bytes, "max_non_split_rounding_bytes": large_bytes}
    for name, place in tokens.settings():
        if name not in _ACCELERATOR + _CUDA:
            raise ValueError(f"Unrecognized key '{name}' in Accelerator allocator config.")
        fields |= _common(tokens, name, place, large_bytes // MiB)
    return fields


def _read_cuda(tokens: _Tokens) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, place in tokens.settings():
        if name not in _ACCELERATOR + _CUDA:
            raise ValueError(f"Unrecognized key '{name}' in CUDA allocator config.")
        fields |= _of_cuda(tokens, name, place)
    return fields


def _at_least(megabytes: int, least: int, rule: str) -> int:
    if megabytes < least:
        raise ValueError(f"CachingAllocator option {rule}")
    return min(megabytes, _MAX_MB) * MiB


def _common(tokens: _Tokens, name: str, place: int, large_mb: int) -> dict[str, object]:
    """What one of the settings for every accelerator says."""
    too_small = f"{name} too small, must be >= {large_mb}"
    if name == "max_split_size_mb":
        return {"max_split_bytes": _at_least(tokens.size(place), large_mb, too_small)}
    if name == "max_non_split_rounding_mb":
        return {"max_non_split_rounding_bytes": _at_least(tokens.size(place), large_mb, too_small)}
    if name == "garbage_collection_threshold":
        threshold = tokens.fraction(place)
        if not 0 < threshold < 1:
            raise ValueError("garbage_collect_threshold is invalid, set it in (0.0, 1.0)")
        return {"garbage_collection_threshold": threshold}
    if name == "roundup_power2_divisions":
        return {"roundup_power2_divisions": _divisions(tokens, place)}
    if name == "expandable_segments":
        return {"expandable_segments": tokens.boolean(place)}
    if name == "pinned_use_background_threads":
        tokens.boolean(place)
    elif name in _PINNED_SIZES:
        tokens.size(place)
    return {}


def _divisions(tokens: _Tokens, place: int) -> tuple[int, ...]:
    """One number for all sizes, or a list as [64:8,256:4,>:1]: 8 up to 64 MiB, 4 at 256, 1 above; 0 is none."""
    if tokens[place] != "[":
        every = tokens.size(place)
        if not _is_power_of_2(every):
            raise ValueError("For roundups, the divisions has to be power of 2 ")
        return (every,) * N_INTERVALS
    divisions, last, place, is_first = [0] * N_INTERVALS, 0, place + 1, True
    while not tokens.closes(place):
        boundary, value = tokens[place], tokens.size(place + 2)
        if value and not _is_power_of_2(value):
            raise ValueError("For roundups, the divisions has to be power of 2 or 0 to disable roundup ")
        if boundary == ">":
            divisions[last + 1 :] = [value] * (N_INTERVALS - last - 1)
        else:
            megabytes = tokens.size(place)
            if not _is_power_of_2(megabytes):
                raise ValueError("For roundups, the intervals have to be power of 2 ")
            last = min(megabytes.bit_length() - 1, N_INTERVALS - 1)
            if is_first:
                divisions[:last] = [value] * last
                is_first = False
            divisions[last] = value
        place += 3 if tokens[place + 3] == "]" else 4
    return tuple(divisions)


def _of_cuda(tokens: _Tokens, name: str, place: int) -> dict[str, object]:
    """What one of the settings for CUDA says."""
    if name == "backend":
        if tokens[place] not in ("native", "cudaMallocAsync"):
            raise ValueError("Unknown allocator backend, options are native and cudaMallocAsync")
        if tokens[place] != "native":
            raise ValueError(
                "backend:cudaMallocAsync is not modelled: the driver's own pool decides what it keeps, and how is not "
                "documented; leave it out, or measure on a GPU"
            )
    elif name == "per_process_memory_fraction":
        fraction = tokens.fraction(place)
        if not 0 <= fraction <= 1:
            raise ValueError("per_process_memory_fraction is invalid, set it in [0.0, 1.0]")
        return {"per_process_memory_fraction": fraction}
    elif name == "throw_on_cudamalloc_oom":
        return {"throw_on_cudamalloc_oom": tokens.boolean(place)}
    elif name == "pinned_num_register_threads":
        threads = tokens.size(place)
        if not _is_power_of_2(threads):
            raise ValueError(f"Number of register threads has to be power of 2, got {threads}")
        if threads > _MOST_REGISTER_THREADS:
            raise ValueError(
                f"Number of register threads should be less than or equal to {_MOST_REGISTER_THREADS}, got {threads}"
            )
    elif name == "pinned_reserve_segment_size_mb":
        if tokens.size(place) == 0:
            raise ValueError("Pinned reserve segment size has to be greater than 0")
    elif name in _CUDA_BOOLS:
        tokens.boolean(place)
    return {}


def hint(text: str) -> str:
    """Which name was meant, or how settings are written, for a text that was refused; "" for other mistakes."""
    names = re.split(r"[^a-z0-9_]", text)
    unknown = [name for name in names if "_" in name and name not in _ACCELERATOR + _CUDA]
    near = get_close_matches(unknown[0], _ACCELERATOR + _CUDA, n=1, cutoff=0.8) if unknown else []
    if near:
        return f"; did you mean {near[0]!r}?"
    return '; they are written as "name:value,name:value"' if re.search(r"[=;]|^[^:]*$|\w\s+\w", text) else ""
