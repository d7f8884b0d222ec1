"""The book's first picture: training steps of GPT-2 small on a GPU, and where their bytes are, in five kinds."""

from collections import Counter

import torch

from every_byte.gpu.protocol import GPU
from every_byte.ledger.levels import categories_of
from every_byte.ledger.readings import Readings
from every_byte.ledger.trace import Trace

from .gpt_article import gpt_steps
from .training import StepSettings

KINDS = ("parameters", "optimizer state", "activations", "gradients", "the rest")


def train_gpt2(gpu: GPU, *, autocast: torch.dtype | None = None) -> Readings:
    """Two steps of GPT-2 small on an open GPU: 12 sequences of 1,024 tokens, fused attention, AdamW.

    `autocast` is the half-precision type of forward, or None for float32.

    Unit:   bytes.
    Raises: torch.OutOfMemoryError if they do not fit.
    """
    return gpt_steps(gpu, "gpt2", b=12, kind="sdpa", settings=StepSettings(autocast=autocast, keep_outputs=False))


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
