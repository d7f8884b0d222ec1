"""The explorer of an MLP's forward pass: its controls, its prediction, and the account on a GPU."""

from collections.abc import Iterator
from typing import Any

import torch

from every_byte.formula.formula import Formula
from every_byte.gpu.device import fresh_gpu
from every_byte.gpu.protocol import GPU
from every_byte.ledger.requests import Moment, Requests
from every_byte.widget import Account, Control, Explorer
from every_byte.widget.gpus import beside_its_simulation, gpu_and_rest, gpu_controls, origin_of
from utils.experiments.first_programs import mlp_forward
from utils.experiments.step_run import requests_of
from utils.formulas.mlp import mlp_saved

ACTIVATIONS = ("gelu", "relu", "silu", "leaky_relu", "leaky_relu_", "tanh", "softsign")


def predicted(settings: dict[str, Any]) -> Formula:
    """The formula of a setting."""
    return mlp_saved(activation=settings["activation"], dropout=settings["dropout"])


def account(settings: dict[str, Any]) -> Account:
    """A forward pass on a fresh GPU, term by term."""
    name, choices = gpu_and_rest(settings)
    with fresh_gpu(name, traced=False) as gpu:
        rows = mlp_forward(gpu, **choices).rows
    return Account(predicted(settings).account(rows), **origin_of(gpu.origin, gpu.name, gpu.spec))


def requests(settings: dict[str, Any]) -> Requests:
    """What the same pass asks of a simulated GPU with room for it, and which of it the account counts."""
    name, choices = gpu_and_rest(settings)

    def run(gpu: GPU) -> Iterator[Moment]:
        forward = mlp_forward(gpu, **choices)
        yield forward.moment(predicted(settings), forward.rows)

    return requests_of(name, run)


def mlp_explorer() -> Explorer:
    """What an MLP keeps for backward."""
    types = {name: getattr(torch, name) for name in ("bfloat16", "float16", "float32")}
    return Explorer(
        title="What an MLP keeps for backward",
        controls=[
            Control.range("b", "batch", 1, 256, value=2, log=True, unit="sequences"),
            Control.range("s", "sequence", 128, 16384, value=4096, log=True, unit="positions"),
            Control.range("d", "width", 64, 16384, value=1024, log=True, unit="features"),
            Control.choice("activation", "activation", list(ACTIVATIONS)),
            Control.choice("dropout", "dropout", {"off": 0.0, "p = 0.1": 0.1}),
            Control.choice(
                "dtype", "element type", types, letter="e", letters={"bfloat16": 2, "float16": 2, "float32": 4}
            ),
            *gpu_controls(),
        ],
        formula=predicted,
        measure=beside_its_simulation(account),
    )
