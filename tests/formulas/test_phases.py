"""The closed form of a training step's phases against the simulated GPU, category by category."""

import itertools
import random

import pytest

from every_byte.formula.expressions import Expression
from utils import SimulatedGPU
from utils.experiments import first_programs as experiments
from utils.experiments.first_programs import train_stack
from utils.formulas.phases import FROZEN, OPTIMIZERS, frozen_layers, stack_phases


def simulated(*, frozen, relu, optimizer, b, d, n_in, n_out, L, f):
    settings = {"b": b, "d": d, "n_in": n_in, "n_out": n_out, "n_hidden": L, "relu": relu}
    settings["frozen"] = frozen_layers(frozen, L=L, f=f)
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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("frozen", FROZEN)
def test_every_form_at_drawn_sizes(frozen, relu, optimizer):
    draw = random.Random(f"{frozen} {relu} {optimizer}")
    for _ in range(3):
        n_hidden = draw.randint(1, 12)
        widths = {name: draw.randint(1, 256) for name in ("d", "n_in", "n_out")}
        letters = {"b": draw.randint(1, 1024), **widths, "L": n_hidden, "f": draw.randint(1, n_hidden)}
        check(frozen=frozen, relu=relu, optimizer=optimizer, **letters)


def test_the_published_chain():
    phases = stack_phases()
    sizes = {"b": 64, "d": 100, "n_in": 100, "n_out": 10, "L": 200}
    assert {name: formula.bytes(**sizes) for name, formula in phases.items()} == {
        "model to device": 8_135_168,
        "iteration 1": 41_445_376,
        "forward": 46_616_576,
        "backward": 49_580_544,
        "step": 49_580_544,
        "zero_grad": 41_445_376,
    }
    check(frozen="none", relu=False, optimizer="Adam", f=1, **sizes)


@pytest.mark.parametrize("sizes", list(itertools.product((1, 1024), *[(1, 256)] * 3)))
def test_the_ends_of_every_range(sizes):
    letters = dict(zip(("b", "d", "n_in", "n_out"), sizes, strict=True))
    check(frozen="none", relu=True, optimizer="SGD with momentum", L=2, f=1, **letters)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_state_is_free_of_the_batch(optimizer):
    """The same at any batch, and numbers for each parameter: none, one buffer of momentum, two moments."""
    formula = stack_phases(optimizer=optimizer)["step"]
    assert "b" not in Expression(next((t.elements for t in formula.terms if t.name == "optimizer state"), "0")).letters
    sizes = {"d": 100, "n_in": 100, "n_out": 10, "n_hidden": 5}
    found = []
    for b in (64, 1024):
        with SimulatedGPU("a100-80gb") as gpu:
            parts = train_stack(gpu, b=b, **sizes, optimizer=optimizer, n_iterations=2)[2, "step"].parts
        found.append(parts.get("optimizer state", 0))
    counts = 512 * 9 if optimizer.endswith("fused") else 0
    numbers = {"SGD": 0, "SGD with momentum": 1}.get(optimizer, 2)
    assert found == [numbers * parts["parameters"] + counts] * 2


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
