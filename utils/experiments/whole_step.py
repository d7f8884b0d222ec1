"""The run that opens the book: its bytes in five kinds, and a second try after it has failed."""

from collections import Counter
from contextlib import suppress

import torch

from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.levels import categories_of
from every_byte.ledger.trace import Trace

from .gpt_article import gpt_steps
from .the_run import BATCH, CARD
from .training import StepSettings

KINDS = ("parameters", "optimizer state", "activations", "gradients", "everything else")


def kinds_of(trace: Trace) -> dict[int, str]:
    """Which of KINDS each allocation of a trace is, by its number."""
    return {number: name if name in KINDS else KINDS[-1] for number, name in categories_of(trace).items()}


def bytes_by_kind(trace: Trace, at: int | str) -> dict[str, int]:
    """What is allocated of each of KINDS at a mark of a trace, or just before event number `at`.

    Counts: whole blocks.
    Unit:   bytes.
    Raises: ValueError for a mark that the trace does not have.
    """
    kinds = kinds_of(trace)
    by_kind: Counter[str] = Counter()
    for number, event in trace.live_at(trace.position(at) if isinstance(at, str) else at).items():
        by_kind[kinds[number]] += event.block_bytes
    return {name: by_kind[name] for name in KINDS}


def train(gpu: GPU, b: int) -> None:
    """Two steps of GPT-2 small on an open GPU: b sequences of 1,024 tokens, float32, fused attention and AdamW."""
    gpt_steps(gpu, "gpt2", b=b, kind="sdpa", settings=StepSettings(keep_outputs=False))


def second_try(b: int, *, keeps_error: bool = False, empties_cache: bool = False, settings: str = "") -> bool:
    """Whether b sequences fit on a T4 on which 12 have just failed.

    `keeps_error`: the first try's exception keeps a name, as a notebook's last exception does. `empties_cache`:
    `empty_cache()` is called between the two tries. `settings` are the allocator's, as in PYTORCH_ALLOC_CONF.
    """
    kept = []
    with SimulatedGPU(CARD, settings=settings) as gpu:
        try:
            train(gpu, BATCH)
        except torch.OutOfMemoryError as error:
            kept = [error] if keeps_error else []
        if empties_cache:
            gpu.empty_cache()
        with suppress(torch.OutOfMemoryError):
            train(gpu, b)
            return True
    kept.clear()
    return False
