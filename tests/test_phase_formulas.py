"""The closed form of a training step's phases against the simulated GPU, category by category."""

import random
from functools import partial

import pytest
import torch

from utils import SimulatedGPU
from utils.experiments import train_stack
from utils.phase_formulas import FROZEN, OPTIMIZERS, stack_phases

MAKE = {
    "SGD": torch.optim.SGD,
    "SGD with momentum": partial(torch.optim.SGD, momentum=0.9),
    "Adam": torch.optim.Adam,
    "Adam, fused": partial(torch.optim.Adam, fused=True),
}


def layers(frozen: str, n_hidden: int, f: int) -> range:
    last = n_hidden + 2
    return {
        "none": range(0),
        "the first f": range(f),
        "the last f": range(last - f, last),
        "all hidden": range(1, last - 1),
    }[frozen]


def simulated(*, frozen, relu, optimizer, b, w, L, f):  # noqa: N803 - the book's letters
    settings = {"b": b, "width": w, "n_hidden": L, "relu": relu, "frozen": layers(frozen, L, f)}
    with SimulatedGPU("a100-80gb") as gpu:
        readings = train_stack(gpu, **settings, optimizer=MAKE[optimizer], n_iterations=2)
    found = {row.phase: row.parts for row in readings.of(2)}
    return {"model to device": readings[0, "model to device"].parts} | found


def check(*, frozen, relu, optimizer, **letters):
    phases = stack_phases(frozen=frozen, relu=relu, optimizer=optimizer)
    predicted = {
        phase: {name: n_bytes for name, n_bytes in formula.by_term(**letters).items() if n_bytes}
        for phase, formula in phases.items()
    }
    assert predicted == simulated(frozen=frozen, relu=relu, optimizer=optimizer, **letters)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("frozen", FROZEN)
def test_every_form_at_drawn_sizes(frozen, relu, optimizer):
    draw = random.Random(f"{frozen} {relu} {optimizer}")
    for _ in range(3):
        n_hidden = draw.randint(1, 12)
        letters = {"b": draw.randint(1, 1024), "w": draw.randint(1, 256), "L": n_hidden, "f": draw.randint(1, n_hidden)}
        check(frozen=frozen, relu=relu, optimizer=optimizer, **letters)


def test_the_published_chain():
    phases = stack_phases()
    sizes = {"b": 64, "w": 100, "L": 200}
    assert {name: formula.bytes(**sizes) for name, formula in phases.items()} == {
        "model to device": 8_135_168,
        "forward": 46_616_576,
        "backward": 49_580_544,
        "step": 49_580_544,
        "zero_grad": 41_445_376,
    }
    check(frozen="none", relu=False, optimizer="Adam", f=1, **sizes)


def test_unknown_choices():
    with pytest.raises(ValueError, match="frozen must be one of none, the first f, .*: got frozen='some'"):
        stack_phases(frozen="some")
    with pytest.raises(ValueError, match="optimizer must be one of SGD, .*: got optimizer='Lion'"):
        stack_phases(optimizer="Lion")
