"""The CUDA context: what is assumed of its size, what has been published, and what a verdict may say of it.

The driver takes it before the first tensor: its own state and the code of the kernels. Since CUDA 11.7 kernels are
loaded when they are first used, so that it grows with what a program runs.
"""

from typing import NamedTuple, Protocol

from every_byte.units import MiB, number_of_bytes, short

CONTEXT_BYTES = 560 * MiB
"""What is assumed where nothing is stated: in the middle of what is published, and never part of a figure that the book
calls exact. No architecture has a figure of its own for the PyTorch that is followed, so all have this one."""


class Published(NamedTuple):
    """A context that was measured; `generation` is the major number of the compute capability, 0 if unknown."""

    n_bytes: int
    generation: int
    what: str
    source: str


PUBLISHED = (
    Published(300 * MiB, 0, "by a maintainer, kernels loaded when used", "https://github.com/pytorch/pytorch/issues/107667"),
    Published(400 * MiB, 0, "by a maintainer, kernels loaded when used", "https://github.com/pytorch/pytorch/issues/109888"),
    Published(723 * MiB, 0, "PyTorch 1.4", "https://discuss.pytorch.org/t/73021"),
    Published(400 * MiB, 7, "V100, PyTorch 1.1", "https://github.com/pytorch/pytorch/issues/20532"),
    Published(1008 * MiB, 7, "Titan V, PyTorch 1.3", "https://github.com/pytorch/pytorch/issues/28394"),
    Published(863 * MiB, 8, "A100, training nanoGPT", "https://erees.dev/transformer-memory/"),
    Published(1001 * MiB, 8, "RTX 3090, CUDA 11.1", "https://github.com/pytorch/pytorch/issues/54564"),
    Published(749 * MiB, 9, "H200, PyTorch 2.11, after training steps", "tests/reference/cards/h200.json"),
    Published(871 * MiB, 9, "H200, cuDNN, cuFFT, cuSOLVER loaded", "tests/reference/2.11.0/measured/context.h200.json"),
    Published(828 * MiB, 12, "RTX 5090, ComfyUI with no model loaded", "its log, published"),
)  # fmt: skip
"""Contexts of processes that run PyTorch, as nvidia-smi has them; of the H200, which was measured for this book, what
lies outside PyTorch's allocator, kernels loaded when they are used."""


def context_range(capability: tuple[int, int]) -> tuple[int, int]:
    """The least and the most that was published for cards of this generation, else for any.

    The least counts what was published for no card in particular. Unit: bytes.
    """
    own = [context.n_bytes for context in PUBLISHED if context.generation == capability[0]]
    any_card = [context.n_bytes for context in PUBLISHED if not context.generation]
    return min(any_card + own), max(own or [context.n_bytes for context in PUBLISHED])


def stated_context(stated: int | str, total_bytes: int) -> int:
    """The bytes of a context that the user states: a number, or a size such as "863MiB"; 0 leaves it out.

    Raises: ValueError for what is neither, for more than the GPU has, and for bytes that must have been meant as MiB.
    """
    n_bytes = 0 if stated in (0, "0") and not isinstance(stated, bool) else number_of_bytes(stated)
    if n_bytes is None:
        raise ValueError(
            f'context must be bytes or a size such as "863MiB": got {stated!r}; units are B, KiB, MiB, GiB.'
        )
    if n_bytes >= total_bytes:
        raise ValueError(
            f"context must be less than the GPU's memory: got {n_bytes:,d} bytes of {total_bytes:,d}; try 863MiB."
        )
    if 0 < n_bytes < MiB:
        raise ValueError(
            f'context must be 0 or at least 1 MiB: got {stated!r}, {n_bytes:,d} bytes; write it as "863MiB".'
        )
    return n_bytes


class Judgement(Protocol):
    """What a verdict says of a run and of the GPU it is to run on: a `Fit`, or a `Verdict` of a report."""

    @property
    def fits(self) -> bool: ...
    @property
    def total_bytes(self) -> int: ...
    @property
    def context_bytes(self) -> int: ...
    @property
    def needed_bytes(self) -> int: ...
    @property
    def context_range_bytes(self) -> tuple[int, int] | None: ...
    @property
    def hangs_on_context(self) -> bool: ...


class Doubt(NamedTuple):
    """What a verdict owes to the context that it assumes, "" where nothing: of its headline the end, and a sentence."""

    headline: str = ""
    sentence: str = ""

    @classmethod
    def of_verdict(cls, verdict: Judgement) -> "Doubt":
        """Of a `Fit`, or a `Verdict` of a report; nothing where the context is known."""
        if verdict.context_range_bytes is None:
            return cls()
        margin_bytes = verdict.total_bytes - verdict.context_bytes - verdict.needed_bytes
        about = verdict.context_bytes, verdict.context_range_bytes, verdict.hangs_on_context
        return cls.of(verdict.fits, margin_bytes, *about)

    @classmethod
    def of(cls, fits: bool, margin_bytes: int, context_bytes: int, published: tuple[int, int], hangs: bool) -> "Doubt":
        """For a run that fits with that margin, or does not fit, if the context is as assumed.

        `hangs`: another published context would turn that, the largest or the least.
        """
        least, most = map(short, published)
        if not hangs and fits and margin_bytes < published[1] - context_bytes:
            largest = f"With a CUDA context of {most}, the largest published for its generation,"
            return cls(sentence=f"{largest} it still fits, more tightly.")
        if not hangs:
            return cls()
        turned = f"It does not fit with one of {most}" if fits else f"With a CUDA context of {least} it would fit"
        advice = ": do not count on it." if fits else "."
        return cls(
            f", if the CUDA context is {short(context_bytes)}",
            f"{turned}, and published ones take {least} to {most}{advice}",
        )
