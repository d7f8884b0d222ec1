"""The explorer of a transformer block: its controls, its prediction part by part, the account on a GPU."""

from collections.abc import Iterator
from typing import Any

import torch

from every_byte.formula.formula import Formula
from every_byte.gpu.device import fresh_gpu
from every_byte.gpu.protocol import GPU
from every_byte.ledger.requests import Moment, Requests
from every_byte.ledger.saved_tensors import SavedTensor
from every_byte.widget import Account, Control, Explorer
from every_byte.widget.gpus import beside_its_simulation, gpu_and_rest, gpu_controls, origin_of
from utils.experiments.blocks import BlockForward, block_forward
from utils.experiments.step_run import requests_of
from utils.formulas.block import PARTS, block_parts
from utils.models import activations

from .activation_curves import activation_curves

THEIRS = ("GELU", "ReLU", "SiLU", "Mish", "Hardswish", "LeakyReLU", "ELU", "Softplus", "Tanh", "Softsign")
OURS = ("LeakyReLU", "ELU", "Softplus", "Softsign")
CHOICES = {name: (name, False) for name in THEIRS} | {f"{name}, ours": (name, True) for name in OURS}
"""The activations, each as its name and whether it saves its output: PyTorch's, and the book's."""

ATTENTIONS = ("efficient", "flash", "explicit")


def predicted(settings: dict[str, Any]) -> dict[str, Formula]:
    """The formulas of a setting, one for each part of the block."""
    name, from_output = settings["activation"]
    chosen = {key: settings[key] for key in ("attention", "dropout")}
    return block_parts(activation=name, from_output=from_output, **chosen)


def account(settings: dict[str, Any]) -> Account:
    """A forward pass on a fresh GPU, part by part."""
    with fresh_gpu(gpu_and_rest(settings)[0], traced=False) as gpu:
        rows = by_part(_forward(gpu, settings))
    terms = {part: formula.account(rows[part]) for part, formula in predicted(settings).items()}
    return Account(terms, **origin_of(gpu.origin, gpu.name, gpu.spec))


def requests(settings: dict[str, Any]) -> Requests:
    """What the same pass asks of a simulated GPU with room for it, and which of it the account counts."""

    def run(gpu: GPU) -> Iterator[Moment]:
        forward = _forward(gpu, settings)
        rows = by_part(forward)
        for part, formula in predicted(settings).items():
            yield forward.moment(formula, rows[part], part)

    return requests_of(gpu_and_rest(settings)[0], run)


def _forward(gpu: GPU, settings: dict[str, Any]) -> BlockForward:
    name, from_output = settings["activation"]
    activation = getattr(activations, name)() if from_output else name
    return block_forward(gpu, **(gpu_and_rest(settings)[1] | {"activation": activation}))


def by_part(forward: BlockForward) -> dict[str, list[SavedTensor]]:
    """What each part of the block keeps."""
    return {part: [row for row in forward.rows if row.module.split(".")[0] == part] for part in PARTS}


def block_explorer() -> Explorer:
    """What a block keeps for backward, and the chosen activation's derivative over its output."""
    types = {"bfloat16": torch.bfloat16, "float32": torch.float32}
    return Explorer(
        title="What a block keeps for backward",
        controls=[
            Control.range("b", "batch", 1, 64, value=2, log=True, unit="sequences"),
            Control.range("s", "sequence", 16, 8192, value=4096, log=True, unit="positions"),
            Control.range("d", "width", 64, 8192, value=1024, step=64, unit="features"),
            Control.range("a", "heads", 1, 8, value=2, log=True, unit="heads"),
            Control.choice("activation", "activation", CHOICES),
            Control.choice("attention", "attention", list(ATTENTIONS)),
            Control.choice("dropout", "dropout", {"off": 0.0, "p = 0.1": 0.1}),
            Control.choice("dtype", "element type", types, letter="e", letters={"bfloat16": 2, "float32": 4}),
            *gpu_controls(),
        ],
        formula=predicted,
        measure=beside_its_simulation(account),
        parts=True,
        curves=lambda settings: activation_curves(settings["activation"][0]),
        curves_of=("activation",),
    )
