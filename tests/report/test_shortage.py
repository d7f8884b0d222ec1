"""The moment at which memory ran out: equal to what the error says, whose memory it was, and where it lay."""

import re

import pytest
import torch
from reported import Steps, gpt, out_of_memory

from every_byte.gpu.memory.specs import find_spec
from every_byte.ledger.ledger import Ledger
from every_byte.report.report import Report
from every_byte.report.shortage import FREE, drawn
from every_byte.rounding import ROUNDING_BYTES
from utils import SimulatedGPU
from utils.models.gpt import GPT

BATCHES = {"forward": 40, "backward": 15}
"""Sequences of GPT-2 small on a T4: with the one it fails in forward, with the other in the backward of the loss."""


def step(gpu, b: int) -> None:
    model = GPT.from_name("gpt2", device=gpu.device)
    tokens = torch.zeros(b, 1024, dtype=torch.int64, device=gpu.device)
    with gpu.autocast(torch.float16):
        _, loss = model(tokens, tokens)
    loss.backward()


def refused(b: int) -> tuple[Report, str]:
    """What is reported of GPT-2's first step, and what the error says."""
    with SimulatedGPU("t4-16gb") as gpu:
        try:
            step(gpu, b)
        except torch.OutOfMemoryError as error:
            said = str(error)
    return Report.of(gpu, exit_code=1, ended=said), said


@pytest.fixture(scope="module", params=list(BATCHES))
def case(request):
    return request.param, *refused(BATCHES[request.param])


def test_it_is_what_the_error_says(case):
    phase, report, said = case
    shortage = report.shortage
    numbers = [int(text.replace(",", "")) for text in re.findall(r"([\d,]{5,}) bytes", said)]
    *_, held, allocated, cached, free = numbers
    assert shortage.place.phase == phase
    assert (shortage.reserved_bytes, shortage.allocated_bytes) == (held, allocated)
    assert (shortage.cached_bytes, shortage.driver_bytes) == (cached, free)
    assert shortage.asked_bytes in numbers
    assert f"{shortage.place.operation} asked for" in said


def test_whose_it_was_is_known_though_all_of_it_is_gone(case):
    """What autograd kept is activations: the error has let go of it since."""
    phase, report, _ = case
    parts = report.shortage.ledger.parts
    assert parts["activations"] > 0.8 * sum(parts.values())
    assert parts.get("other tensors", 0) < 0.05 * sum(parts.values())
    assert report.trace.requested_bytes() < 0.1 * sum(parts.values())


def test_segments_hold_all_that_is_reserved(case):
    _, report, _ = case
    shortage = report.shortage
    pieces = [piece for row in shortage.segments for piece in row]
    assert sum(size for size, _ in pieces) == shortage.reserved_bytes
    assert sum(size for size, what in pieces if what != FREE) == shortage.allocated_bytes
    assert sum(shortage.free_pieces) == shortage.cached_bytes
    assert shortage.free_pieces[0] < shortage.asked_bytes
    in_use = dict.fromkeys(range(len(shortage.names)), 0)
    for size, what in pieces:
        if what != FREE:
            in_use[what] += size
    groups = shortage.ledger.by("category")
    assert in_use == {i: groups[name].n_bytes + groups[name].slack_bytes for i, name in enumerate(shortage.names)}


@pytest.mark.parametrize("most", [10, 500, 10**9])
def test_a_picture_of_them_has_their_size(case, most):
    _, report, _ = case
    segments = report.shortage.segments
    found = drawn(segments, most)
    sizes = [sum(size for size, _ in row) for row in found]
    assert [size * ROUNDING_BYTES for size in sizes] == [sum(size for size, _ in row) for row in segments]
    assert sum(map(len, found)) <= most + 2 * len(segments)
    if most == 10**9:
        assert [[(size * ROUNDING_BYTES, what) for size, what in row] for row in found] == segments


def test_a_snapshot_of_a_survived_refusal_has_the_same_segments():
    """Nothing is let go of here: the allocator's own snapshot is of the same moment."""
    with SimulatedGPU("t4-16gb") as gpu:
        steps = Steps(gpu)
        gpt(gpu, 1, steps=steps)
        kept = torch.empty(10**8, device=gpu.device)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2**36, device=gpu.device)
        snapshot = gpu.memory_snapshot()
        report = Report.of(gpu, steps=steps.found)
    sizes = [segment["total_size"] for segment in snapshot]
    assert [sum(size for size, _ in row) for row in report.shortage.segments] == sizes
    assert report.shortage.ledger.parts == Ledger.at(gpu.trace, report.shortage.position).parts
    assert report.shortage.place.step_name == "after step 1"
    assert kept is not None


def test_the_room_is_the_gpus():
    report = out_of_memory()
    assert report.shortage.room_bytes == find_spec("t4-16gb").allocator_bytes
