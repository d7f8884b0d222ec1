"""nanoGPT's own model.py in the book's training step: the book has none of its code, so you bring the file."""

import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from every_byte.gpu.cases.programs import load_module
from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.readings import Readings
from every_byte.units import GiB
from utils.models.gpt import CONTEXT_LENGTH, GPT, VOCABULARY_SIZE
from utils.recordings import RECORDINGS

from .gpt_article import ARTICLE as SETTINGS
from .gpt_article import BATCHES
from .training import random_tokens, train_steps

COMMIT = "3adf61e154c3fe3fca428ad6bc3818b27a3b8291"
ADDRESS = f"https://raw.githubusercontent.com/karpathy/nanoGPT/{COMMIT}/model.py"
RECORDED = RECORDINGS.parent / "nanogpt_itself.json"
"""Two steps of nanoGPT's model.py under the CUDA build of PyTorch, by tests/reference/record_nanogpt.py."""
PROGRAMS = {"nanoGPT's model.py": False, "the same, after a product": True}
"""The two programs, each with whether a product of two small matrices runs before the model is made."""

_HYPERPARAMETERS = (0.1, 6e-4, (0.9, 0.95))  # train.py's weight decay, learning rate and betas


class Held(NamedTuple):
    """What a program holds: requested and allocated bytes between its first two steps, and the second step's peak."""

    program: str
    origin: str
    requested_bytes: int
    allocated_bytes: int
    peak_gib: float


ARTICLE = Held("the article's", "measured", 2_057_548_088, 2_064_403_456, 21.898)
"""What the article prints for its own run; its table's rows add up to the requested bytes, and "gaps" are the slack."""


def held(program: str, run: Readings, origin: str = "simulated") -> Held:
    """The figures of a run of two steps."""
    between = run[1, "zero_grad"]
    peak_gib = run[2, "backward"].peak_bytes / GiB
    return Held(program, origin, between.requested_bytes, between.allocated_bytes, peak_gib)


def table(rows: Iterable[Held]) -> str:
    """Programs one below the other; slack is what is allocated beyond the request."""
    head = f"{'program':27}{'':9}{'requested':>15}{'slack':>12}{'allocated':>15}{'peak':>12}"
    lines = (
        f"{row.program:27}{row.origin:9}{row.requested_bytes:>15,}{row.allocated_bytes - row.requested_bytes:>12,}"
        f"{row.allocated_bytes:>15,}{row.peak_gib:>8.3f} GiB"
        for row in rows
    )
    return "\n".join((head, *lines))


def recorded_rows() -> list[Held]:
    """What the CUDA build of PyTorch held with nanoGPT's model.py of COMMIT: one row for each of PROGRAMS."""
    rows = []
    for program, marks in json.loads(RECORDED.read_text(encoding="utf-8"))["programs"].items():
        between, peak = marks["step 1 zero_grad"], marks["step 2 backward"]["peak"]
        rows.append(Held(program, "recorded", between["requested"], between["allocated"], peak / GiB))
    return rows


def run(model_py: str | Path) -> str:
    """The table of both PROGRAMS, simulated with your copy of model.py; or that there is none here."""
    if not Path(model_py).is_file():
        return f"no {Path(model_py).name} here"
    rows = []
    for program, with_product in PROGRAMS.items():
        with SimulatedGPU("a100-80gb", cuda=True) as gpu:
            rows.append(held(program, nanogpt_steps(gpu, model_py, with_product=with_product)))
    return table(rows)


def nanogpt_steps(gpu: GPU, model_py: str | Path, *, with_product: bool = False) -> Readings:
    """Two steps of the article's run on an open CUDA device, with the model and the optimizer of nanoGPT's model.py.

    The model is made on the CPU and moved, as train.py does. nanoGPT decides by
    `hasattr(torch.nn.functional, "scaled_dot_product_attention")` which attention it uses; the function is hidden from
    it, so attention is explicit. `with_product` multiplies two 2x2 matrices first.

    Unit:   bytes.
    Raises: ValueError if there is no such file, and for a GPU that doesn't answer to "cuda".
    """
    if not Path(model_py).is_file():
        raise ValueError(f"model_py must be nanoGPT's model.py: got {model_py}, which is not a file; see {ADDRESS}.")
    if gpu.device.type != "cuda":
        raise ValueError(f'gpu must answer to "cuda": got {gpu.device}; open it as SimulatedGPU(.., cuda=True).')
    if with_product:
        _small_product(gpu.device)
    nanogpt = load_module(Path(model_py))

    def make_model() -> nn.Module:
        config = nanogpt.GPTConfig(block_size=CONTEXT_LENGTH, vocab_size=VOCABULARY_SIZE, bias=False, dropout=0.0)
        with _without_fused_attention():
            model: nn.Module = nanogpt.GPT(config)
        return model.to(gpu.device)

    def make_optimizer(model: Any) -> Any:
        return model.configure_optimizers(*_HYPERPARAMETERS, gpu.device.type)

    with redirect_stdout(io.StringIO()):  # it prints a line for each block
        return train_steps(
            gpu,
            make_model,
            lambda: random_tokens(gpu, b=BATCHES["gpt2"], s=CONTEXT_LENGTH, V=VOCABULARY_SIZE),
            replace(SETTINGS, optimizer=make_optimizer),
            n_steps=2,
        )


def holding_embeddings(model: nn.Module) -> nn.Module:
    """Our GPT, which now holds both embeddings until forward returns.

    nanoGPT's forward does so, because it has names for them, tok_emb and pos_emb.
    """
    assert isinstance(model, GPT)
    names: list[torch.Tensor] = []
    for part in (model.tokens, model.positions):
        part.register_forward_hook(lambda _module, _inputs, output: names.append(output))
    model.register_forward_hook(lambda *_: names.clear())
    return model


def _small_product(device: torch.device) -> None:
    matrix = torch.empty(2, 2, device=device)
    _ = matrix @ matrix


@contextmanager
def _without_fused_attention() -> Iterator[None]:
    """Hide the function whose presence nanoGPT asks for, for as long as its model is made."""
    name = "scaled_dot_product_attention"
    function = vars(F).pop(name)
    try:
        yield
    finally:
        setattr(F, name, function)
