"""What each step leaves beside what it replaces: told of a program that keeps tensors, and of no other."""

import textwrap

import pytest
import torch
from forked_runs import in_lines
from reported import Steps, mlp, of_a_gpt, of_an_mlp, reported

from every_byte.report.growth import MOST_STEPS, growth_of
from every_byte.report.steps import Step
from utils import SimulatedGPU

HEAD = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
hist = []
def batch(b=4096):
    return torch.randn(b, 256, device="cuda")
def step(b=4096):
    y = model(batch(b))
    y.pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    return y
"""
Y_BYTES = 200_000 * 256 * 4
LEAK = """
for i in range(1000):
    y = model(batch(200_000))
    hist.append(y)
    y.pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.nightly
@pytest.mark.parametrize("n_steps", ["3", "5"])
def test_a_list_that_keeps_outputs_is_no_fit_without_a_but(run, n_steps):
    found = run(HEAD + LEAK, "--gpu", "t4-16gb", "--steps", n_steps)
    before = int(n_steps) - 1
    assert f"Fits on t4-16gb up to step {n_steps}, and grows: " in in_lines(found)
    said = f"Step {n_steps} left {Y_BYTES:,d} bytes (195 MiB) more than step {before}, above all "
    assert said in in_lines(found)
    assert f"Up to step {n_steps}: fits on " in in_lines(found)
    growth = found.figures["growth"]
    assert (growth["step"], growth["than_step"], growth["n_bytes"]) == (int(n_steps), before, Y_BYTES)
    assert growth["largest"]["operation"] == "addmm"


@pytest.mark.long
def test_the_step_in_which_it_runs_out_is_about_the_one(run):
    told = run(HEAD + LEAK, "--gpu", "t4-16gb").figures["growth"]["runs_out_at_step"]
    to_the_end = run(HEAD + LEAK, "--gpu", "t4-16gb", "--steps", "0")
    assert to_the_end.figures["out_of_memory"]
    n = len(to_the_end.figures["steps"])
    assert n + 1 <= told <= 1.1 * n  # before that, what is free is in pieces
    assert f"Step {n} left {Y_BYTES:,d} bytes (195 MiB) more than step {n - 1}" in in_lines(to_the_end)
    assert "if each later step does" not in in_lines(to_the_end)


@pytest.mark.long
def test_a_few_mebibytes_a_step_grow_on_a_large_card_too(run):
    """4 MiB of 79 GiB: some twenty thousand steps, as many trainings have."""
    found = run(HEAD + "for i in range(9):\n    step()\n    hist.append(torch.zeros(1 << 20, device='cuda'))")
    assert found.figures["growth"]["n_bytes"] == 4 << 20
    assert 19_000 < found.figures["growth"]["runs_out_at_step"] < 21_000
    assert "and grows" in in_lines(found)


STEADY = {
    "Adam's state": "for i in range(9): step()",
    "a last batch that is kept": "for i in range(9): y = step()",
    "accumulation": """
        for i in range(99):
            model(batch()).sum().backward()
            if i % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
        """,
    "gradients that stay": """
        for i in range(9):
            optimizer.zero_grad(set_to_none=False)
            model(batch()).sum().backward()
            optimizer.step()
        """,
    "varying lengths": "for b in (4000, 9000, 14_000, 20_000, 31_000): y = step(b)",
    "losses as numbers": """
        for i in range(9):
            loss = model(batch()).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            hist.append(loss.item())
        """,
    "losses of 512 bytes": """
        for i in range(9):
            loss = model(batch()).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            hist.append(loss)
        """,
    "a layer that is trained from step 2 on": """
        model[0].requires_grad_(False)
        for i in range(9):
            if i == 1:
                model[0].requires_grad_(True)
            step()
        """,
    "a layer that is trained from step 3 on": """
        model = nn.Sequential(nn.Linear(256, 8000), nn.Linear(8000, 256)).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        model[0].requires_grad_(False)
        for i in range(9):
            if i == 2:
                model[0].requires_grad_(True)
            step()
        """,
    "the last outputs of a window": """
        from collections import deque
        last = deque(maxlen=1)
        for i in range(9): last.append(step())
        """,
    "optimizers that take turns": """
        other = nn.Linear(256, 8000).cuda()
        two = torch.optim.AdamW(other.parameters())
        for i in range(9):
            step()
            other(batch()).sum().backward()
            two.step()
            two.zero_grad()
        """,
}


@pytest.mark.long
@pytest.mark.sampled(8)
@pytest.mark.parametrize("n_steps", ["3", *(pytest.param(n, marks=pytest.mark.nightly) for n in "245")])
@pytest.mark.parametrize("name", STEADY)
def test_what_is_steady_is_not_said_to_grow(run, name, n_steps):
    found = run(HEAD + textwrap.dedent(STEADY[name]), "--gpu", "t4-16gb", "--steps", n_steps)
    assert len(found.figures["steps"]) == int(n_steps)
    assert found.figures["growth"] is None
    assert "Fits on t4-16gb: " in in_lines(found)


@pytest.mark.long
def test_outputs_of_varying_lengths_that_are_kept(run):
    found = run(HEAD + "for b in (90_000, 70_000, 80_000, 9): hist.append(step(b))", "--gpu", "t4-16gb")
    assert found.figures["growth"]["n_bytes"] == 80_000 * 256 * 4


def test_a_graph_that_is_kept_is_named_by_its_largest(run):
    """Losses whose graph nobody lets go of: what forward keeps grows."""
    text = """
    for i in range(9):
        loss = model(batch(50_000)).pow(2).mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        hist.append(loss)
    """
    found = run(HEAD + textwrap.dedent(text), "--gpu", "t4-16gb")
    growth = found.figures["growth"]
    assert growth["n_bytes"] > 50_000 * (256 + 1024 + 256) * 4
    assert growth["largest"] == {
        "category": "activations", "module": "2 Linear", "operation": growth["largest"]["operation"],
        "n_bytes": 50_000 * 1024 * 4,
    } or growth["largest"]["n_bytes"] == 50_000 * 1024 * 4  # fmt: skip


def test_turns_are_told_of_together():
    """Two optimizers in turn, and a tensor kept in each turn of one: the step that is compared is two before."""

    def keeping(gpu):
        kept, steps = [], Steps(gpu)
        for i in range(6):
            if i % 2:
                kept.append(torch.empty(2**28, device=gpu.device))
            steps.end()
        return [Step(*_sizes(step), frozenset({1 + i % 2})) for i, step in enumerate(steps.found)]

    report = reported(keeping)
    assert (report.growth.step, report.growth.than_step, report.growth.n_bytes) == (6, 4, 2**30)


def _sizes(step: Step) -> tuple:
    return (
        step.number, step.begin, step.end, step.allocated_bytes, step.max_allocated_bytes, step.reserved_bytes,
        step.max_reserved_bytes,
    )  # fmt: skip


def test_what_would_take_too_many_steps_is_not_told():
    def keeping(gpu, n_bytes):
        kept, steps = [], Steps(gpu)
        for _ in range(3):
            kept.append(torch.empty(n_bytes, dtype=torch.uint8, device=gpu.device))
            steps.end()
        return steps.found

    room_bytes = of_an_mlp().room_bytes
    assert reported(keeping, room_bytes // MOST_STEPS + 2**17).growth
    assert reported(keeping, room_bytes // MOST_STEPS - 2**17).growth is None


def test_there_must_be_steps_to_compare():
    assert of_an_mlp().growth is None
    assert of_a_gpt().growth is None
    assert reported(mlp, 1).growth is None
    with SimulatedGPU("a100-80gb") as gpu:
        assert growth_of(gpu.trace, (), 2**30) is None


KEPT_BESIDE = """
import torch.nn.functional as F
for i in range(6):
    y = model(batch(4096))
    loss = F.mse_loss(y, torch.zeros_like(y))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    other = F.mse_loss(y[:64], torch.zeros_like(y[:64]))
    hist.append(loss.detach())
"""


def test_what_takes_the_place_of_its_own_size_has_no_part_in_what_grows(run):
    """Two losses are of one kind: the one that is kept grows, the smaller one is replaced by its like."""
    found = run(HEAD + KEPT_BESIDE, "--gpu", "t4-16gb", "--steps", "6").figures
    sizes = [step["allocated_bytes"] for step in found["steps"]]
    assert found["growth"]["n_bytes"] == sizes[-1] - sizes[-2] == 4096 * 256 * 4
