"""The largest value that fits: its neighbours are run, and memory that does not grow evenly is not taken to do so."""

import os
import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from every_byte.account import account, numbers, tokens
from every_byte.advice.largest import largest, largest_of
from every_byte.advice.loop import micro_batches
from every_byte.advice.search import bench_of
from every_byte.gpu.memory.specs import find_spec

ROOM = 1000


def of_needs(needs, room: int = ROOM):
    return lambda value: (needs(value) <= room, needs(value), room)


@pytest.mark.parametrize(
    "needs", [lambda v: 3 * v + 7, lambda v: v * v, lambda v: 50 + 128 * (v // 8), lambda v: v // 100]
)
@pytest.mark.parametrize("start", [1, 8, 5000])
@pytest.mark.parametrize("step", [1, 4])
def test_it_is_the_last_that_fits_and_both_neighbours_were_run(needs, start, step):
    found = largest("b", start, step, of_needs(needs))
    assert found.value % step == 0
    assert needs(found.value) <= ROOM < needs(found.next_value)
    assert found.next_value == found.value + step
    assert found.ran[found.value]
    assert not found.ran[found.next_value]
    assert len(found.ran) < 40


def test_a_value_that_fits_behind_one_that_does_not_is_found():
    def needs(value: int) -> int:
        return 5000 if value == 101 else 9 * value

    found = largest("b", 8, 1, of_needs(needs))
    assert (found.value, found.next_value) == (111, 112)


@pytest.mark.parametrize("start", [10, 49_990, 49_999])
def test_where_a_little_more_needs_less_it_does_not_climb_one_by_one(start):
    """As where the allocator gives back what it had cached: what is needed comes near the room, and falls."""
    room = 1_000_000
    found = largest("b", start, 1, of_needs(lambda value: 20 * value if value < 50_000 else 10 * value, room))
    assert (found.value, found.next_value) == (100_000, 100_001)
    assert len(found.ran) < 60


def test_an_error_of_the_model_ends_it_too():
    def need(value: int) -> tuple[bool, int, int]:
        if value > 77:
            raise IndexError(f"positions has 77 rows, and is asked for row {value - 1}")
        return True, value, ROOM

    found = largest("s", 16, 1, need)
    assert found.value == 77
    assert "s=77 fits, s=78 does not run: positions has 77 rows" in repr(found)


def test_none_fits():
    found = largest("b", 8, 2, of_needs(lambda value: 2000))
    assert (found.value, found.next_value) == (0, 2)
    assert repr(found).startswith("simulated: not even b=2 fits")


def of_an_mlp(**changed):
    def mlp(d: int) -> nn.Module:
        return nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    how = {"loss": lambda out, _: out.square().mean(), "gpu": "t4-16gb", "d": 1000, "b": 64} | changed
    return account(mlp, numbers("b", "d"), **how)


@pytest.mark.long
def test_it_fits_on_a_card_of_its_size_and_the_next_one_does_not():
    t4 = find_spec("t4-16gb")
    found = of_an_mlp(gpu=replace(t4, total_bytes=t4.context_bytes + (400 << 20)))
    most = found.largest("b")
    assert most.value > 1000
    assert found.at(b=most.value).report.fits.own.fits
    assert not found.at(b=most.next_value).report.fits.own.fits


@pytest.mark.long
def test_micro_batches_divide_it():
    step = of_an_mlp().step
    bench = bench_of("t4-16gb", 2, "", "300MiB")
    whole, (half, _) = largest_of(bench, step, "b"), micro_batches(step, bench.spec)
    parted = largest_of(bench, step, "b", (half,))
    assert parted.value % 2 == 0
    assert parted.value > whole.value


def test_positions_beyond_the_last_do_not_run():
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(11, 8), nn.Embedding(50, 8)

        def forward(self, x):
            return (self.words(x) + self.positions(torch.arange(x.shape[1], device=x.device))).square().mean()

    found = account(Positions(), tokens("b", "s", below=11), b=2, s=16).largest("s")
    assert (found.value, found.reason) == (50, "positions has 50 rows, and is asked for row 50")


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_images_that_no_host_has_room_for(precision):
    """Twice 39 GiB, as a batch is there until the next has come: the GPU ends it, the host sets none of it aside."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 128 * 128, 10))
    images = numbers("b", 3, 128, 128)
    found = account(net, images, loss=lambda out, _: out.square().mean(), precision=precision, b=2).largest("b")
    assert not found.reason
    two_batches = 2 * found.value * 3 * 128 * 128 * (2 if precision == "bfloat16" else 4)
    assert 78 * 2**30 < two_batches < 79 * 2**30
    if (child := os.fork()) == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_what_is_refused():
    with pytest.raises(ValueError, match=re.escape("letter must be one of d, b: got 's'.")):
        of_an_mlp().largest("s")


def test_what_is_not_known_is_said():
    found = account(
        nn.Conv2d(3, 64, 3), numbers("b", 3, 64, 64), loss=lambda output, batch: output.square().mean(), b=1000
    ).largest("b", "t4-16gb")
    assert not found.is_exact
    assert repr(found).endswith("values run); without what its account names as not known")
