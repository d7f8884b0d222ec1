"""The settings of PyTorch's caching allocator, parsed from the text of PYTORCH_ALLOC_CONF as PyTorch parses it.

The simulated GPU takes them as an argument and reads no environment, so that a figure is the same on every machine.
Source: c10/core/AllocatorConfig.h, .cpp; round_size in c10/cuda/CUDACachingAllocator.cpp.
"""

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

from .settings_text import N_INTERVALS, UNLIMITED, hint, read

_NOT_KEPT = ("max_split_bytes", "roundup_power2_divisions", "garbage_collection_threshold")
"""What goes back to its default where a text does not name it."""


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

        Raises: ValueError, IndexError or RuntimeError, as PyTorch does, with its own message and the text.
        """
        return cls().changed_by(text, at_start=True)

    def changed_by(self, text: str, *, at_start: bool = False) -> "AllocatorSettings":
        """These settings after another text was set, as by `torch.cuda.memory._set_allocator_settings`.

        Four go back to their defaults unless the text names them: `max_split_size_mb`, `roundup_power2_divisions`,
        `garbage_collection_threshold`, and `max_non_split_rounding_mb` to the size of a large segment. After an error
        all stays as it was; PyTorch's would have followed the text up to there.
        Raises: as `parse`.
        """
        if not isinstance(text, str):
            raise ValueError(
                'settings must be a text as of PYTORCH_ALLOC_CONF, "name:value,name:value", or variables by name, as '
                f'{{"PYTORCH_ALLOC_CONF": "expandable_segments:True"}}: got {text!r}.'
            )
        try:
            named = read(text, self.large_segment_bytes, at_start)
        except (ValueError, RuntimeError, IndexError) as error:
            raise type(error)(f"{error} (in the allocator's settings {text!r}{hint(text)})") from None
        back = {name: getattr(AllocatorSettings, name) for name in _NOT_KEPT}
        return replace(self, **(back | named), text=text)

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


def checked_fraction(fraction: float) -> float:
    """A fraction of a GPU's memory, as `torch.cuda.set_per_process_memory_fraction` takes it.

    Raises: TypeError for anything but a float, ValueError for one beyond 0 and 1, with PyTorch's messages.
    """
    if not isinstance(fraction, float):
        raise TypeError(f"Invalid type for fraction argument, must be `float`: got {fraction!r}.")
    if fraction < 0 or fraction > 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    return fraction
