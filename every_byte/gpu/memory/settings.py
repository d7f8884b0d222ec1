"""The settings of PyTorch's caching allocator, parsed from the text of PYTORCH_ALLOC_CONF as PyTorch parses it.

The simulated GPU takes them as an argument and reads no environment, so that a figure is the same on every machine.
Source: c10/core/AllocatorConfig.h, .cpp; c10/cuda/CUDAAllocatorConfig.h, .cpp; held by recordings of what the CUDA
build says to some sixty texts, right and wrong (tests/gpu/memory/test_settings.py).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from every_byte.rounding import (
    LARGE_SEGMENT_BYTES,
    LARGEST_SMALL_BYTES,
    OWN_SEGMENT_BYTES,
    ROUNDING_BYTES,
    SEGMENT_ROUNDING_BYTES,
    SMALL_SEGMENT_BYTES,
    round_size,
)
from every_byte.units import MiB

UNLIMITED = (1 << 64) - 1
"""The largest `size_t`: no limit."""

N_INTERVALS = 16
"""Powers of two, from 1 MiB to 32 GiB, each of which may have its own number of divisions to round to."""

_MAX_MB = UNLIMITED // MiB
_SILENT_BOOLS = (
    "pinned_use_background_threads",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "pinned_free_catch_all",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "graph_capture_record_stream_reuse",
)
_MOST_REGISTER_THREADS = 128


@dataclass(frozen=True)
class AllocatorSettings:
    """What PyTorch's allocator can be told, under the names of PYTORCH_ALLOC_CONF; without arguments, its defaults.

    Counts: what changes blocks and segments on the GPU. Settings of pinned memory, of locks and of captured graphs are
            checked as PyTorch checks them, and change nothing here.
    Unit:   bytes for sizes, a fraction of the GPU's memory for `per_process_memory_fraction`.
    """

    expandable_segments: bool = False
    max_split_bytes: int = UNLIMITED
    max_non_split_rounding_bytes: int = LARGE_SEGMENT_BYTES
    roundup_power2_divisions: tuple[int, ...] = (0,) * N_INTERVALS
    garbage_collection_threshold: float = 0.0
    large_segment_bytes: int = LARGE_SEGMENT_BYTES
    per_process_memory_fraction: float = 1.0
    throw_on_cudamalloc_oom: bool = False
    text: str = ""

    @classmethod
    def parse(cls, text: str) -> "AllocatorSettings":
        """What a text such as "expandable_segments:True,max_split_size_mb:128" stands for.

        Raises: ValueError or RuntimeError, as PyTorch does, with its own message and the text.
        """
        return cls().changed_by(text)

    def changed_by(self, text: str) -> "AllocatorSettings":
        """These settings after another text was set, as by `torch.cuda.memory._set_allocator_settings`.

        Three go back to their defaults unless the text names them: `max_split_size_mb`, `roundup_power2_divisions` and
        `garbage_collection_threshold`.
        """
        if not isinstance(text, str):
            raise ValueError(f"settings must be a text as of PYTORCH_ALLOC_CONF: got {text!r}.")
        try:
            return _parse(self, text)
        except (ValueError, RuntimeError) as error:
            raise type(error)(f"{error} (in the allocator's settings {text!r})") from None

    @property
    def rounds_up(self) -> bool:
        """Whether a request may be rounded to more than the next multiple of 512 bytes."""
        return any(divisions > 1 for divisions in self.roundup_power2_divisions)

    def round_size(self, requested_bytes: int) -> int:
        """The smallest block that a request may get: the next multiple of 512 bytes, or of a part of a power of two.

        With four divisions, what lies between 1,024 and 2,048 MiB is rounded to 1,280, 1,536, 1,792 or 2,048.
        """
        interval = min(max(0, requested_bytes.bit_length() - MiB.bit_length()), N_INTERVALS - 1)
        divisions = self.roundup_power2_divisions[interval]
        if divisions < 2 or requested_bytes <= ROUNDING_BYTES * divisions:
            return round_size(requested_bytes)
        step = (1 << (requested_bytes.bit_length() - 1)) >> (divisions.bit_length() - 1)
        return -(-requested_bytes // step) * step

    def segment_size(self, size_bytes: int) -> int:
        """What the allocator asks the driver for, for a block of a rounded size, unless segments are expandable."""
        if size_bytes <= LARGEST_SMALL_BYTES:
            return SMALL_SEGMENT_BYTES
        if size_bytes < OWN_SEGMENT_BYTES:
            return self.large_segment_bytes
        return -(-size_bytes // SEGMENT_ROUNDING_BYTES) * SEGMENT_ROUNDING_BYTES


class _Tokens:
    """The words of a text, and the signs between them: names, values, colons, commas and brackets."""

    def __init__(self, text: str) -> None:
        self.all = re.findall(r"[,:\[\]]|[^,:\[\]]+", "".join(text.split()))

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
        while self[place] != "]":
            place += 1
            if place == len(self.all):
                raise RuntimeError("Expected closing bracket ']' in ConfigTokenizer but reached end of config")
        return place

    def boolean(self, place: int) -> bool:
        if self[place] not in ("True", "False"):
            raise ValueError(f"Expected 'True' or 'False' at index {place} in ConfigTokenizer but got '{self[place]}'")
        return self[place] == "True"

    def size(self, place: int) -> int:
        """A number as C++ reads it: what stands before anything that is no digit; a negative one wraps around."""
        found = re.match(r"[+-]?\d+", self[place])
        if found is None:
            raise ValueError("stoull")
        number = int(found[0])
        if abs(number) > UNLIMITED:
            raise ValueError("stoull")
        return number & UNLIMITED

    def fraction(self, place: int) -> float:
        found = re.match(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", self[place], re.IGNORECASE)
        if found is None:
            raise ValueError("stod")
        return float(found[0])


def _is_power_of_2(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def _parse(settings: AllocatorSettings, text: str) -> AllocatorSettings:
    tokens = _Tokens(text)
    large = settings.large_segment_bytes
    for name, place in tokens.settings():
        if name == "large_segment_size_mb":
            large = _at_least(tokens.size(place), OWN_SEGMENT_BYTES // MiB + 1, "large_segment_size_mb must be > 10 MB")
    defaults = AllocatorSettings()
    found: dict[str, object] = {
        "max_split_bytes": defaults.max_split_bytes,
        "max_non_split_rounding_bytes": large,
        "roundup_power2_divisions": defaults.roundup_power2_divisions,
        "garbage_collection_threshold": defaults.garbage_collection_threshold,
        "large_segment_bytes": large,
        "text": text,
    }
    for name, place in tokens.settings():
        found |= _common(tokens, name, place, large // MiB)
    for name, place in tokens.settings():
        found |= _of_cuda(tokens, name, place)
    return replace(settings, **found)


def _at_least(megabytes: int, least: int, rule: str) -> int:
    if megabytes < least:
        raise ValueError(f"CachingAllocator option {rule}")
    return min(megabytes, _MAX_MB) * MiB


def _common(tokens: _Tokens, name: str, place: int, large_mb: int) -> dict[str, object]:
    """A setting that PyTorch reads for every accelerator; the others have to be known."""
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
    elif name not in _KNOWN:
        raise ValueError(f"Unrecognized key '{name}' in Accelerator allocator config.")
    return {}


def _divisions(tokens: _Tokens, place: int) -> tuple[int, ...]:
    """One number for all sizes, or a list as [64:8,256:4,>:1]: 8 up to 64 MiB, 4 at 256, 1 above; 0 is none."""
    if tokens[place] != "[":
        every = tokens.size(place)
        if not _is_power_of_2(every):
            raise ValueError("For roundups, the divisions has to be power of 2 ")
        return (every,) * N_INTERVALS
    divisions, last, place, is_first = [0] * N_INTERVALS, 0, place + 1, True
    while tokens[place] != "]":
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
    """A setting that PyTorch reads for CUDA alone."""
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
    elif name in _SILENT_BOOLS:
        tokens.boolean(place)
    return {}


_KNOWN = {
    *_SILENT_BOOLS,
    "large_segment_size_mb",
    "backend",
    "per_process_memory_fraction",
    "throw_on_cudamalloc_oom",
    "pinned_num_register_threads",
    "pinned_reserve_segment_size_mb",
}
