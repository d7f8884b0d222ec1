"""Which line of a program makes an allocation: its own, in backward the forward's; no tensor lives longer for it."""

import gc
import sys
import weakref

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from every_byte.ledger.formats import viewer_snapshot
from every_byte.ledger.ledger import Ledger
from every_byte.ledger.source_lines import NO_STACK
from utils import SimulatedGPU

HERE = __file__


class Block(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x)  # line: up
        h = nn.functional.gelu(h)  # line: gelu
        h = h.view(-1, h.shape[-1])  # line: view
        return x + self.down(h).view(x.shape)  # line: down


def line(name: str) -> int:
    """The number of the line of this file that ends so."""
    with open(HERE, encoding="utf-8") as file:
        return next(i for i, text in enumerate(file, start=1) if text.endswith(f"# line: {name}\n"))


def step(gpu: SimulatedGPU, *, again: bool = False) -> None:
    model = Block(32).to(gpu.device)  # line: model
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for _ in range(2):
        x = torch.randn(4, 8, 32, device=gpu.device)  # line: batch
        y = checkpoint(model, x, use_reentrant=False) if again else model(x)  # line: call
        y.sum().backward()  # line: backward
        optimizer.step()  # line: step
        optimizer.zero_grad()


def traced(program=step, **options):
    with SimulatedGPU("a100-80gb", lines=True) as gpu:
        program(gpu, **options)
    return gpu.trace


def lines_of(trace, **about) -> set[int]:
    """The own lines of the allocations that have these labels; all are of this file."""
    found = {
        event.stack.own
        for event in trace
        if event.action == "alloc" and all(getattr(event, name) == value for name, value in about.items())
    }
    assert all(own is not None and own.filename == HERE for own in found)
    return {own.line for own in found}


def test_an_allocation_has_the_programs_own_line():
    trace = traced()
    assert lines_of(trace, operation="aten::randn") | {line("batch")} == {line("batch")}
    assert lines_of(trace, phase="forward", module="up", operation="aten::addmm") == {line("up")}
    assert lines_of(trace, phase="forward", operation="aten::gelu") == {line("gelu")}
    assert lines_of(trace, phase="step") == {line("step")}
    assert line("model") in lines_of(trace)


def test_what_backward_allocates_has_the_line_of_the_forward():
    trace = traced()
    assert lines_of(trace, phase="backward", node="GeluBackward0") == {line("gelu")}
    assert lines_of(trace, phase="backward", node="AddmmBackward0", module="up") == {line("up")}
    assert lines_of(trace, phase="backward", node="AddmmBackward0", module="down") == {line("down")}
    assert lines_of(trace, operation="aten::ones_like") == {line("backward")}


def test_what_a_checkpoint_runs_again_has_the_line_that_runs_again():
    trace = traced(again=True)
    assert lines_of(trace, phase="backward", operation="aten::gelu") == {line("gelu")}
    assert lines_of(trace, phase="backward", node="GeluBackward0") >= {line("gelu")}


def test_frames_are_those_of_the_program_and_of_libraries_and_none_of_ours():
    trace = traced()
    event = next(event for event in trace if event.operation == "aten::gelu")
    files = [frame.filename for frame in event.stack.frames]
    assert files[0] == HERE
    assert any("torch/nn/modules/module.py" in file for file in files)
    assert not any("every_byte/" in file for file in files)
    functions = [frame.function for frame in event.stack.frames if frame.filename == HERE]
    assert functions[:3] == ["forward", "step", "traced"]


def test_a_function_of_the_programs_own_has_its_own_line_in_backward():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2  # line: own backward

    def program(gpu):
        x = torch.ones(256, device=gpu.device, requires_grad=True)
        Twice.apply(x).sum().backward()

    assert line("own backward") in lines_of(traced(program), phase="backward", operation="aten::mul.Tensor")


@pytest.mark.parametrize("again", [False, True])
def test_it_changes_no_event(again):
    def run(lines):
        with SimulatedGPU("a100-80gb", lines=lines) as gpu:
            step(gpu, again=again)
        return gpu.trace

    plain, lined = run(False), run(True)
    assert plain.events == lined.events
    assert {event.stack for event in plain} == {NO_STACK}


def test_it_keeps_no_tensor_alive():
    with SimulatedGPU("a100-80gb", lines=True) as gpu:

        def inside():
            x = torch.empty(1 << 20, device=gpu.device)
            y = x + 1
            return weakref.ref(x), weakref.ref(y)

        gc.disable()
        try:
            gone = inside()
            assert [each() for each in gone] == [None, None]
            assert gpu.memory_allocated() == 0
        finally:
            gc.enable()


def test_one_place_in_the_code_is_one_stack():
    trace = traced()
    stacks = {id(event.stack): event.stack for event in trace if event.action == "alloc"}
    assert len(set(stacks.values())) == len(stacks) < 60


def test_a_refused_request_has_its_line():
    def program(gpu):
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 40, device=gpu.device)  # line: refused

    refused = next(event for event in traced(program) if event.action == "oom")
    assert refused.stack.own.line == line("refused")


def test_a_ledgers_rows_have_lines():
    def program(gpu):
        program.kept = torch.empty(1 << 20, device=gpu.device)  # line: kept

    trace = traced(program)
    ledger = Ledger.at_peak(trace)
    assert [row.line.line for row in ledger] == [line("kept")]
    assert len(ledger.by("line").groups) == 1


def test_a_viewers_snapshot_has_the_frames_after_the_labels():
    trace = traced()
    entries = viewer_snapshot(trace.events)["device_traces"][0]
    entry = next(e for e in entries if any(f["name"] == "aten::gelu" for f in e["frames"]))
    assert [frame["filename"] for frame in entry["frames"][:2]] == ["operation", "phase"]
    here = {"filename": HERE, "line": line("gelu"), "name": "forward"}
    assert here in entry["frames"]


def test_deep_recursion_is_cut():
    def deep(gpu, n):
        return torch.empty(8, device=gpu.device) if not n else deep(gpu, n - 1)

    limit = sys.getrecursionlimit()
    trace = traced(lambda gpu: deep(gpu, min(300, limit // 3)))
    (stack,) = {event.stack for event in trace if event.action == "alloc"}
    assert len(stack.frames) == 100
    assert stack.own.function == "deep"
