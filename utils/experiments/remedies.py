"""What a remedy is worth: the peaks of a Llama's step before and after it, and where they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import torch
from torch import nn

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.events import Event
from every_byte.ledger.ledger import Ledger
from every_byte.units import GiB
from utils.models.llama import SIZES

from .llama_step import LlamaStep
from .remedy_step import LOSSES
from .step_run import StepRun

TOKENS = 8192
PHASES = ("forward", "backward", "optimizer")
CARD = "rtx3090-24gb"
"""A card of 24 GB."""
PLACES = ("loss", "block", "end of backward", "optimizer step")
"""Where a step may be at its highest."""
_N_KEPT = 12  # runs that are not made again: those of the last tables


@dataclass(frozen=True)
class Peaks:
    """What the second step of a run requests at most: in each of PHASES, in all, and in which part of the model.

    `held_bytes`: at the end of the last forward; `parts`: of the peak, by the ledger's categories.

    Counts: everything, parameters and optimizer state too.
    Unit:   bytes, requested.
    """

    by_phase: dict[str, int]
    held_bytes: int
    peak_bytes: int
    where: str
    parts: dict[str, int]


@lru_cache(_N_KEPT)
def run_of(step: LlamaStep) -> StepRun:
    """Its two steps, simulated once, and kept for a while: a trace of some ten thousand events."""
    return step.run()


@cache
def peaks(step: LlamaStep) -> Peaks:
    """Of one way to train, run on a simulated GPU with room for it."""
    trace, after = run_of(step).trace, run_of(step).after
    start, by_phase = trace.position(after), dict.fromkeys(PHASES, 0)
    requested, highest, at, held = trace.requested_bytes(start), 0, start, 0
    sizes = {number: event.n_bytes for number, event in trace.live_at(start).items()}
    for position, event in enumerate(trace.events[start:], start):
        if event.action == "alloc":
            sizes[event.allocation] = event.n_bytes
            requested += event.n_bytes
            if event.phase in by_phase:
                by_phase[event.phase] = max(by_phase[event.phase], requested)
            if requested > highest:
                highest, at = requested, position
        elif event.action == "free":
            requested -= sizes.pop(event.allocation, 0)
        elif event.action == "mark" and (phase := event.name.split()[-1]) in by_phase:
            by_phase[phase] = max(by_phase[phase], requested)  # a phase that allocates nothing has what was there
            held = requested if phase == "forward" else held
    parts = {name: n for name, n in Ledger.at(trace, at + 1).parts.items() if name != "slack"}
    return Peaks(by_phase, held, highest, _where(trace.events[at]), parts)


@cache
def state_of(step: LlamaStep) -> dict[str, int]:
    """The weights, gradients and optimizer state that stand when the second step's backward has ended.

    Unit: bytes, requested.
    """
    parts = Ledger.at(run_of(step).trace, "step 2 backward").parts
    return {name: parts.get(name, 0) for name in ("parameters", "gradients", "optimizer state")}


def kept_by_a_block(step: LlamaStep, number: int = 1) -> float:
    """What a block keeps for backward at the end of forward, for each token; not the first one, whose input is a leaf.

    Unit: bytes, requested.
    """
    ledger = Ledger.at(run_of(step).trace, "step 2 forward")
    inside = f"blocks.{number}."
    kept = [row.n_bytes for row in ledger.of(category="activations") if row.module.startswith(inside)]
    return sum(kept) / (step.b * step.s)


def _where(event: Event) -> str:
    """In words: the phase, and the part of the model in it."""
    if event.phase == "optimizer":
        return "optimizer"
    top = ".".join(event.module.split(".")[:2]) if event.module.startswith("blocks") else event.module
    at_loss = "loss" if not top or top == "head" else top.replace("blocks.", "block ").replace("tokens", "embedding")
    return f"{event.phase}, {at_loss}"


def highest_by_place(step: LlamaStep) -> dict[str, int]:
    """For each of PLACES the position in the trace of a step at which the most is there, after an allocation.

    Counts: of blocks their backward alone.
    """
    run = run_of(step)
    start, end = (run.trace.position(mark) for mark in (run.after, run.until))
    requested, highest = run.trace.requested_bytes(start), dict.fromkeys(PLACES, (0, start))
    sizes = {number: event.n_bytes for number, event in run.trace.live_at(start).items()}
    for position, event in enumerate(run.trace.events[start:end], start + 1):
        if event.action == "alloc":
            sizes[event.allocation] = event.n_bytes
            requested += event.n_bytes
            if (place := _place(_where(event))) and requested > highest[place][0]:
                highest[place] = requested, position
        elif event.action == "free":
            requested -= sizes.pop(event.allocation, 0)
        elif event.action == "mark" and event.name.endswith("backward"):
            highest["optimizer step"] = requested, position  # it may allocate nothing: then it has what was there
    return {place: position for place, (_, position) in highest.items()}


def _place(where: str) -> str:
    """Which of PLACES it is, of what `_where` says; empty for a block's forward."""
    if where.endswith(", loss"):
        return "loss"
    of_backward = {"backward, block": "block", "backward, embedding": "end of backward", "optimizer": "optimizer step"}
    return of_backward.get(where.rstrip(" 0123456789"), "")


def table(rows: Mapping[str, LlamaStep]) -> str:
    """The peaks of each way to train, by name, in GiB: a line each, with the highest of all and where it is."""
    width = max(map(len, rows))
    lines = [f"{'GiB':{width}}{'forward':>9}{'backward':>10}{'optimizer':>11}{'peak':>9}   where"]
    for name, step in rows.items():
        found = peaks(step)
        cells = [f"{found.by_phase[phase] / GiB:{n}.2f}" for phase, n in zip(PHASES, (9, 10, 11), strict=True)]
        lines.append(f"{name:{width}}{''.join(cells)}{found.peak_bytes / GiB:9.2f}   {found.where}")
    return "\n".join(lines)


@dataclass(frozen=True)
class OfTheLoss:
    """What a loss takes beside the last norm's output and the head: at most in forward, after it, at most in backward.

    Unit: bytes, requested.
    """

    forward_bytes: int
    held_bytes: int
    backward_bytes: int


@cache
def of_the_loss(loss: str, *, keeps_logits: bool = False) -> OfTheLoss:
    """The head and the loss of a Llama-3-8B alone, by one of LOSSES, on a simulated GPU.

    Counts: not what was there before: h[1, 8192, d] in bfloat16, the head's weight, targets, the cuBLAS workspaces.
    """
    d, V = SIZES["llama-3-8b"]["d_model"], SIZES["llama-3-8b"]["vocabulary_size"]
    with SimulatedGPU("h200-141gb") as gpu:
        factory: dict[str, Any] = {"device": gpu.device, "dtype": torch.bfloat16}
        head, h = nn.Linear(d, V, bias=False, **factory), torch.empty(1, TOKENS, d, requires_grad=True, **factory)
        targets = torch.zeros(1, TOKENS, dtype=torch.long, device=gpu.device)
        for _ in range(2):  # the first leaves the workspaces
            head.weight.grad = h.grad = value = outputs = None
            gpu.trace.mark("before")
            *outputs, value = LOSSES[loss](h, head, targets)
            if not keeps_logits:
                outputs.clear()
            gpu.trace.mark("forward")
            value.backward()
            gpu.trace.mark("backward")
    totals, marks = gpu.trace.totals()
    before, after = (marks[mark] for mark in ("before", "forward"))
    found = max(totals[before : after + 1]), totals[after], max(totals[after:])
    return OfTheLoss(*(n_bytes - totals[before] for n_bytes in found))
