"""A training run whose batches vary in length, and allocator settings to try it with on a small card."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import torch
from torch import nn

from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.protocol import GPU
from every_byte.gpu.replay import Replay
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.trace import Trace
from every_byte.units import GiB

_A100 = find_spec("a100-80gb")
GIB_GPU = replace(_A100, name="a100-1gib", total_bytes=_A100.context_bytes + GiB)
"""An A100 with only 1 GiB left after the CUDA context."""

D = 2048
"""The width of the model; its hidden layer has four times as many features."""

SETTINGS = {
    "default": "",
    "expandable_segments": "expandable_segments:True",
    "max_split_size": "max_split_size_mb:20",
    "roundup": "roundup_power2_divisions:4",
    "large_segment_size": "large_segment_size_mb:64",
    "garbage_collection": "garbage_collection_threshold:0.4,per_process_memory_fraction:0.95",
}
"""Values of PYTORCH_ALLOC_CONF, by a short name."""


def lengths_of(s: int) -> tuple[int, int, int]:
    """Tokens in each of the three batches: s, half of s, and three quarters of s.

    Raises: ValueError for an s that 4 does not divide.
    """
    if s < 4 or s % 4:
        raise ValueError(f"s must be a positive multiple of 4, the tokens of the longest batch: got {s=}.")
    return s, s // 2, 3 * s // 4


def train_on_lengths(gpu: GPU, lengths: Iterable[int]) -> None:
    """Train an MLP of width D on an open GPU: one step for each batch, of that many tokens.

    Raises: torch.OutOfMemoryError if there is no room.
    """
    w1, w2 = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)
    model = nn.Sequential(w1, nn.ReLU(), w2).to(gpu.device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for number, n_tokens in enumerate(lengths, start=1):
        with gpu.trace.in_phase(f"batch {number}"):
            x = torch.empty(n_tokens, D, device=gpu.device)
            model(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


@cache
def trace_of(s: int) -> Trace:
    """The run on a GPU with enough room: a smaller GPU, under any settings, gets the same requests."""
    with SimulatedGPU(_A100) as gpu:
        train_on_lengths(gpu, lengths_of(s))
    return gpu.trace


def replayed(s: int, settings: str) -> Replay:
    """The run's requests, replayed on a GIB_GPU whose allocator has these settings.

    Raises: ValueError or RuntimeError, PyTorch's own, for settings that it refuses.
    """
    return Replay.of(trace_of(s), GIB_GPU, settings)
