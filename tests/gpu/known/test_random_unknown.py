"""Random programs in which some integers and booleans are unknown: what is called known must not depend on them."""

import random
import warnings
from contextlib import suppress

import pytest
import torch
import value_programs as programs

from every_byte.gpu.known.content import place_of
from every_byte.gpu.known.evaluation import evaluate, on_the_cpu, view
from every_byte.gpu.memory.records import RECORDS
from utils import SimulatedGPU


def unknown(pair: programs.Pair) -> None:
    """Memory on the GPU that nobody has written, where there are some numbers on the CPU."""
    shape = [pair.draw.randint(1, 4) for _ in range(pair.draw.randint(0, 2))]
    dtype = pair.draw.choice(programs.INTEGERS)
    numbers = torch.tensor([pair.draw.randint(0, 3) for _ in range(64)])[: torch.Size(shape).numel()]
    pair.pairs.append((numbers.to(dtype).view(shape), torch.empty(shape, dtype=dtype, device=pair.devices[1])))


def compare(pair: programs.Pair) -> tuple[int, int]:
    """How many elements are known, and how many not."""
    n_known = n_unknown = 0
    for first, second in pair.pairs:
        content = RECORDS[second.untyped_storage()._cdata].content
        if content is None:
            n_unknown += first.numel()
            continue
        with on_the_cpu():
            values, taint = view(evaluate(content), place_of(second))
        known = torch.ones_like(first, dtype=torch.bool) if taint is None else ~taint
        right = torch.isclose(values[known], first[known], equal_nan=True)
        assert right.all(), f"{values} with taint {taint} should be {first}"
        n_known, n_unknown = n_known + int(known.sum()), n_unknown + int((~known).sum())
    return n_known, n_unknown


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(20))
def test_what_is_known_does_not_depend_on_the_unknown(seed):
    found = torch.zeros(2, dtype=torch.int64)
    with warnings.catch_warnings(), SimulatedGPU(assume=("nonzero=refuse", "routing=refuse")) as gpu:
        warnings.simplefilter("ignore")
        for program in range(4):
            pair = programs.Pair(100 * seed + program, gpu.device)
            pair.draw = random.Random(77 * seed + program)
            steps = (programs.factory, unknown, programs.view, programs.write, *[programs.compute] * 3)
            for number in range(100):
                with suppress(RuntimeError):  # of an operation whose shape depends on what is unknown
                    pair.draw.choice(steps)(pair)
                if number % 25 == 24:
                    found += torch.tensor(compare(pair))
    assert found.min() > 100
