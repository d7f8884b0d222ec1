"""The run that opens the book, out of memory on a T4, and what each chapter's change makes of it."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import nn

from every_byte.gpu.capacity import Fit, fit
from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.ranks import ranks
from every_byte.ledger.ledger import Ledger
from every_byte.ledger.trace import Trace
from every_byte.units import GiB
from utils.models.data_parallel import replicated
from utils.models.gpt import GPT, blocks_of

from .gpt_article import gpt_steps, step_peak
from .mesh_step import without_what_is_cut
from .step_run import roomy_gpu
from .training import StepSettings

CARD, BATCH = "t4-16gb", 12


class Tried(NamedTuple):
    """What the run takes with one change: its ledger at the second step's peak, and whether it fits the card.

    Unit: bytes; the ledger counts whole blocks, the verdict segments.
    """

    change: str
    at_peak: Ledger
    verdict: Fit

    def __str__(self) -> str:
        ends = "fits" if self.verdict.fits else f"out of memory in {self.verdict.fails_in}"
        room = (self.verdict.margin_bytes + self.verdict.needed_bytes) / GiB
        needs = f"needs {self.verdict.needed_bytes / GiB:5.2f} of {room:.2f}"
        return f"{self.change:28} peak {self.at_peak.allocated_bytes / GiB:5.2f} GiB, {needs}: {ends}"


def tried(
    change: str,
    *,
    b: int = BATCH,
    micro_batches: int = 1,
    autocast: torch.dtype | None = None,
    allocator: str = "",
    wrap: Callable[[nn.Module], nn.Module] = lambda model: model,
    **model: Any,
) -> Tried:
    """The run with one change, for two steps: GPT-2 small, b sequences of 1,024 tokens, fused AdamW, on a T4.

    With `micro_batches`, a step has so many forwards and backwards, of b sequences each. `autocast` is the
    half-precision type of forward, None for float32; `allocator` has its settings, as PYTORCH_ALLOC_CONF; `wrap`
    changes the model that was made, and `model` has settings of `GPT`.

    Raises: ValueError if micro_batches is not a positive integer; as `GPT` does.
    Example: print(tried("as it is"))
    """
    settings = StepSettings(autocast=autocast, keep_outputs=False, micro_batches=micro_batches)
    with roomy_gpu(CARD) as gpu:
        gpt_steps(gpu, b=b, settings=settings, wrap=wrap, kind="sdpa", **model)
    return _judged(change, gpu.trace, 2, allocator)


def frozen(blocks: Iterable[int]) -> Callable[[nn.Module], nn.Module]:
    """A `wrap` for `tried` that freezes the blocks with these numbers, and with block 0 the embeddings too.

    GPT-2's head shares its weight with the token embedding, so it freezes with them.

    Raises: IndexError for a block that the model does not have.
    Example: print(tried("the first six blocks frozen", wrap=frozen(range(6))))
    """
    numbers = list(blocks)

    def freeze(model: nn.Module) -> nn.Module:
        assert isinstance(model, GPT)
        parts: list[nn.Module] = [blocks_of(model)[number] for number in numbers]
        if 0 in numbers:
            parts += [model.tokens, model.positions]
        for part in parts:
            part.requires_grad_(False)
        return model

    return freeze


def tried_on_ranks(
    change: str,
    n: int = 2,
    *,
    b: int | None = None,
    engine: Callable[..., nn.Module] = replicated,
    allocator: str = "",
    **settings: Any,
) -> Tried:
    """The run on n T4s that share its batch, as rank 0 of n: b sequences a rank, a share of the 12 unless given.

    `engine(model, mesh, **settings)` prepares the model for this rank: `replicated` wraps it in DDP, `fully_sharded`
    divides it with FSDP2. It takes three steps, because DDP divides its buckets anew in the second.

    Counts: a rank that makes its own share of the model alone, as scripts do on `meta` if the whole one does not fit.
    Raises: ValueError where n does not divide the 12 sequences and b is not given; as `ranks` and the engine do.
    Example: print(tried_on_ranks("two cards, DDP"))
    """
    if b is None and BATCH % n:
        raise ValueError(f"n must divide the {BATCH} sequences: got n={n}; give b, the sequences of each rank.")

    with roomy_gpu(CARD) as gpu, ranks(n) as mesh:
        gpt_steps(
            gpu,
            b=BATCH // n if b is None else b,
            settings=StepSettings(keep_outputs=False),
            wrap=lambda model: engine(model, mesh, **settings),
            kind="sdpa",
            n_steps=3,
        )
    return _judged(change, without_what_is_cut(gpu.trace), 3, allocator)


def _judged(change: str, trace: Trace, step: int, allocator: str) -> Tried:
    """What the last of the steps takes at its peak, and whether the run fits."""
    marks = {"after": f"step {step - 1} zero_grad", "until": f"step {step} zero_grad"}
    verdict = fit(trace, find_spec(CARD), settings=allocator, **marks)
    return Tried(change, step_peak(trace, step), verdict)
