"""The closed form of a training step's phases against the simulated GPU, category by category."""

import random

import pytest

from utils import SimulatedGPU
from utils.experiments import first_programs as experiments
from utils.experiments.first_programs import train_stack
from utils.formulas.phases import FROZEN, OPTIMIZERS, frozen_layers, stack_phases


def simulated(*, frozen, relu, optimizer, b, d, L, f):
    settings = {"b": b, "d": d, "n_hidden": L, "relu": relu, "frozen": frozen_layers(frozen, L=L, f=f)}
    with SimulatedGPU("a100-80gb") as gpu:
        readings = train_stack(gpu, **settings, optimizer=optimizer, n_iterations=2)
    found = {row.phase: row.parts for row in readings.of(2)}
    before = {"model to device": readings[0, "model to device"].parts, "iteration 1": readings[1, "zero_grad"].parts}
    return before | found


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
        letters = {"b": draw.randint(1, 1024), "d": draw.randint(1, 256), "L": n_hidden, "f": draw.randint(1, n_hidden)}
        check(frozen=frozen, relu=relu, optimizer=optimizer, **letters)


def test_the_published_chain():
    phases = stack_phases()
    sizes = {"b": 64, "d": 100, "L": 200}
    assert {name: formula.bytes(**sizes) for name, formula in phases.items()} == {
        "model to device": 8_135_168,
        "iteration 1": 41_445_376,
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
    assert set(experiments.OPTIMIZERS) == set(OPTIMIZERS)


@pytest.mark.parametrize("f", [0, 4])
def test_more_frozen_layers_than_the_form_speaks_of(f):
    with pytest.raises(ValueError, match=f"must be from 1 to L: got f={f}, L=3; nearest: {max(1, min(f, 3))}"):
        frozen_layers("the last f", L=3, f=f)
    assert frozen_layers("none", L=3, f=f) == range(0)
    with pytest.raises(ValueError, match="frozen must be one of none, .*: got frozen='some'"):
        frozen_layers("some", L=3, f=1)
