"""How a closed form is checked: at further sizes, however small those of the account are, and in how many runs."""

import re

import pytest
import torch
from derived import of_program
from torch import nn

from every_byte.account import account, numbers
from every_byte.closed_form import search
from every_byte.closed_form.finding import MOST_ROUNDS
from every_byte.closed_form.samples import Samples
from every_byte.closed_form.search import MOST_RUNS
from every_byte.closed_form.sizes import ranges_of
from every_byte.gpu.memory.specs import find_spec
from every_byte.step.training_step import TrainingStep


class Holding:
    """A program that holds so many bytes, at sizes up to `most` alone; `seen` are those at which it ran."""

    def __init__(self, n_bytes, most=None):
        self.n_bytes, self.most, self.seen = n_bytes, most, []

    def __call__(self, gpu, **letters):
        if self.most is not None and max(letters.values()) > self.most:
            raise ValueError("sizes must be smaller")
        self.seen.append(letters)
        return torch.empty(self.n_bytes(**letters), dtype=torch.uint8, device=gpu.device)


@pytest.mark.long
@pytest.mark.parametrize("b", [1, 2, 3, 4, 8])
def test_small_sizes_are_checked(b):
    """All sizes between a half and the double of one this small are used up by the lines."""
    program = Holding(lambda b: 7 * b + 3)
    found, _ = of_program(program, n_checks=8, b=b)
    assert found.is_exact, found
    assert len(found.checks) == 8
    assert found.n_runs + 8 == len({letters["b"] for letters in program.seen})
    assert all(found.is_within(**check.letters) for check in found.checks)
    assert f"Looked for at b from {max(1, b // 2)} to {found.ranges.high[0]}." in repr(found)


def test_as_many_checks_as_are_asked_for():
    """The range of b has 37 sizes."""
    found, _ = of_program(Holding(lambda b: 5 * b), n_checks=60, b=18)
    assert found.is_exact, found
    assert len({check.letters["b"] for check in found.checks}) == 60


def test_a_condition_beyond_the_double():
    """Met by no run from which it was derived at first: by a check, in a wider range."""
    found, _ = of_program(Holding(lambda b: b if b < 7 else 5 * b), n_checks=8, b=1)
    assert found.is_exact, found
    assert list(map(str, found.conditions)) == ["b ≥ 7"]
    assert len(found.checks) == 8


class Placed(nn.Module):
    """Rows with a place each, of which there are so many: what comes of it has a term in s that rounds up to 64."""

    def __init__(self, d, n_places=510):
        super().__init__()
        self.places, self.linear = nn.Embedding(n_places, d), nn.Linear(d, d)

    def forward(self, x):
        y = self.linear(x + self.places(torch.arange(x.shape[1], device=x.device)))
        return torch.nn.functional.pad(y, (0, 0, 0, -x.shape[1] % 64)) * y.new_ones(x.shape[0], 1, 1)


@pytest.mark.nightly
def test_a_range_ends_where_the_model_does():
    """Even sizes are looked for below its end, and it is said what the model says of a larger one."""
    taken = account(Placed, numbers("b", "s", "d"), loss=lambda y, _: y.square().mean(), b=4, s=256, d=64)
    found = taken.formula(letters=["b", "s"])
    assert found.is_exact, found
    assert found.ranges.high[found.letters.index("s")] == 510
    assert "s from 128 to 510" in repr(found)
    assert "At s=511, the other sizes as given, the model refuses: IndexError: places has 510 rows" in repr(found)


def tried(n, most):
    """The sizes of one letter at which a program that takes up to `most` is tried."""
    step = TrainingStep(lambda n: nn.Linear(n, 1), numbers(1, "n"), letters={"n": n})
    samples = Samples(step, find_spec("a100-80gb"), 1, "")
    samples.at = lambda point: point if point[0] <= most else samples.refused.setdefault(tuple(point), "no") and None
    return ranges_of(samples)


@pytest.mark.parametrize(("n", "most", "even"), [
    (512, 10_000, (512, 768, 1024, 1280, 1536, 1792, 2048)), (64, 10_000, (64, 96, 128, 160, 192, 224, 256)),
    (510, 512, (512, 448, 384, 320, 256)), (256, 510, (256, 320, 192, 384, 128, 448)),
])  # fmt: skip
def test_even_sizes_near_an_end(n, most, even):
    """Multiples of a power of two, the nearest first, in steps of a half where four do not fit below the end."""
    assert tried(n, most).values == (even,)


def test_ranges_that_end_do_not_grow():
    found = tried(256, 510)
    assert found.refusals == ((511, "no"),)
    assert found.wider.high == found.high == (510,)
    assert found.up_to([(640,)]).refusals == (None,)
    assert tried(256, 10_000).wider.high[0] > tried(256, 10_000).high[0]


def test_fewer_checks_are_said_to_be_fewer():
    found, _ = of_program(Holding(lambda b: 7 * b, most=8), n_checks=8, b=2)
    assert found.is_exact, found
    assert len(found.checks) == 3
    assert "of 3 further sizes, drawn at random, it is met to the byte, row by row, at 3; for 8 checks" in repr(found)


@pytest.mark.long
def test_checks_are_not_all_taken_in():
    """Of 12 sizes some stay checks, although others showed that the form changes."""
    found, _ = of_program(Holding(lambda b: b if b < 9 else 5 * b, most=12), n_checks=8, b=2)
    assert found.is_exact, found
    assert found.checks
    assert found.n_runs + len(found.checks) == 12


@pytest.mark.parametrize(
    ("most", "n_checks", "why"),
    [(3, 8, "no further sizes that the model takes were found"), (None, 0, "no checks were asked for")],
)
def test_without_checks_it_is_not_exact(most, n_checks, why):
    found, _ = of_program(Holding(lambda b: 7 * b, most), n_checks=n_checks, b=1)
    assert not found.checks
    assert not found.is_exact
    assert f"it was not checked: {why}." in repr(found)


@pytest.mark.parametrize("n_checks", [-1, 2.5])
def test_how_many_checks_is_a_whole_number(n_checks):
    with pytest.raises(ValueError, match=re.escape(f"from 0 on: got n_checks={n_checks}; 8 is usual.")):
        of_program(Holding(lambda b: 7 * b), n_checks=n_checks, b=1)


class AtMultiplesOfThree(nn.Module):
    """A layer, and at some sizes another: no condition that is looked for says at which."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.inner = nn.Linear(d, d)

    def forward(self, x):
        return self.inner(x) if x.shape[0] % 3 else self.inner(x).relu()


@pytest.mark.nightly
def test_the_search_has_an_end():
    """What changes at multiples of three has no form, and no condition is told of it."""
    loss = {"loss": lambda output, _: output.square().mean()}
    found = account(AtMultiplesOfThree, numbers("b", "d"), **loss, b=2048, d=64).formula()
    assert {key.name for key in found.unknown} >= {"addmm", "relu"}
    assert all(key.category == "activations" for key in found.unknown)
    assert not found.is_exact
    assert found.conditions == ()
    assert found.is_at_limit
    assert MOST_RUNS <= found.n_runs <= MOST_RUNS + MOST_ROUNDS * 8
    assert f"The search for what has no form ended at its limit, after {found.n_runs} runs." in repr(found)
    assert "It changes where" not in repr(found)


def test_no_run_is_made_at_the_limit(monkeypatch):
    """Nor is a condition told that no run could verify."""
    monkeypatch.setattr(search, "MOST_RUNS", 25)
    program = Holding(lambda b, d: b * d if b % 8 else 3 * b * d)
    found, _ = of_program(program, n_checks=3, b=40, d=30)
    assert len({tuple(letters.values()) for letters in program.seen}) <= 25 + 3
    assert found.is_at_limit
    assert found.conditions == ()
    assert [key.category for key in found.unknown] == ["other tensors"]
