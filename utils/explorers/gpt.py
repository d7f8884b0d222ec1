"""The explorer of a GPT's training step: its controls, its prediction, and the account on a GPU."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from every_byte.gpu.memory.specs import SPECS
from every_byte.widget import Account, Control, Explorer
from every_byte.widget.gpus import (
    allocator_control,
    available_gpus,
    beside_its_simulation,
    gpu_controls,
    origin_of,
    with_gpu,
)
from utils.experiments.gpt_step import ATTENTIONS, OPTIMIZERS, PRECISIONS, GPTStep, predicted
from utils.formulas.gpt import MOMENTS

from .gpt_controls import MANY_TOKENS, judge_of, model_and_tokens, timeline_of


def controls() -> list[Control]:
    """One for each setting of `GPTStep`, and that of the verdict."""
    return [
        *model_and_tokens(),
        *gpu_controls(selects=True, workspace=True),
        Control.choice("precision", "precision", list(PRECISIONS)),
        Control.choice("attention", "attention", list(ATTENTIONS)),
        Control.choice("optimizer", "optimizer", list(OPTIMIZERS)),
        Control.choice("dropout", "dropout", {"off": 0.0, "p = 0.1": 0.1}),
        Control.toggle("accumulates", "micro-batches: gradients add up"),
        Control.toggle("keeps_logits", "keep logits until the next step", value=True),
        allocator_control(),
    ]


N_KEPT = 12  # a slider's stops, there and back; each account has its trace, of some megabytes


def account(settings: dict[str, Any]) -> Account:
    """A training step on a fresh GPU, as an explorer shows it; of a simulated one that of before, if it is kept."""
    step = GPTStep(**settings)
    return _kept(replace(step, gpu=step.spec), _switches()) if step.gpu in SPECS else _taken(step)


def _switches() -> tuple[bool, ...]:
    """Which kernels of attention a program has allowed, for the whole process."""
    allowed = torch.backends.cuda
    return allowed.flash_sdp_enabled(), allowed.mem_efficient_sdp_enabled(), allowed.cudnn_sdp_enabled()


@lru_cache(maxsize=N_KEPT)
def _kept(step: GPTStep, switches: tuple[bool, ...]) -> Account:
    return _taken(step)


def _taken(step: GPTStep) -> Account:
    run = step.run()
    judge = judge_of(run)
    return Account(
        run.account(),
        **origin_of(run.trace.origin, run.trace.gpu, run.step.spec),
        timeline=timeline_of(run),
        judge=judge,
        remark="" if judge else str(run.room),
    )


def gpt_explorer() -> Explorer:
    """Any of the four GPT-2s in training: predicted and accounted, a timeline, and whether it fits."""
    return Explorer(
        title="A GPT's training step",
        controls=controls(),
        formula=lambda settings: predicted(GPTStep(**with_gpu(settings)).held),
        measure=beside_its_simulation(account),
        capacity=("gpu", {name: spec.allocator_bytes for name, spec in available_gpus().items()}),
        limits={list(MOMENTS)[-1]: MANY_TOKENS},
    )
