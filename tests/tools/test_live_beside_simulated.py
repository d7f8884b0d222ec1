"""The tool that sets the live GPU beside a simulation of it: it asks for everything, and tells what differs."""

import inspect
import subprocess
import sys

import pytest
import torch
from places import ROOT

from every_byte.gpu.memory.specs import GPUSpec, find_spec
from tools import live_beside_simulated as tool
from utils import LiveGPU, SimulatedGPU

T4 = find_spec("t4-16gb")


@pytest.fixture
def live(pretended_gpus):
    """A live GPU on any machine: good for its names, not for its answers."""
    return LiveGPU()


@pytest.fixture(scope="module")
def answers():
    """Those of two simulated GPUs: the first takes the place of the live one."""
    return [tool.run(lambda: SimulatedGPU(T4), T4) for _ in range(2)]


def public(gpu) -> set[str]:
    return {name for name in dir(gpu) if not name.startswith("_")}


def test_every_public_name_of_the_live_gpu_is_compared(live, answers):
    compared = set(answers[0].at_instants) | set(answers[0].once)
    assert public(live) <= compared
    assert {"with", "repr", "open_gpu", "current_gpu"} <= compared


def test_the_simulated_gpu_has_each_name_with_the_same_signature(live):
    missing = public(live) - public(SimulatedGPU())
    assert not missing
    methods = [name for name in public(live) if callable(getattr(LiveGPU, name, None))]
    assert len(methods) >= 13
    for name in (*methods, "__enter__", "__exit__"):
        one, other = (inspect.signature(getattr(kind, name)).parameters for kind in (LiveGPU, SimulatedGPU))
        assert list(one.values()) == list(other.values()), name


def test_two_alike_agree_in_everything(answers):
    assert {row[-1] for row in tool.rows_at_instants(*answers)} == {"agree"}
    verdicts = {row[0]: row[-1] for row in tool.rows_of_methods(*answers)}
    n = len(answers[0].instants)
    assert {verdicts.pop(name) for name in answers[0].at_instants} == {f"agree at {n} of {n} instants"}
    assert set(verdicts.values()) == {"agree"}


def test_what_differs_is_told(answers):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedGPU, "memory_reserved", lambda gpu: 7)
        patch.setattr(SimulatedGPU, "origin", "guessed")
        patch.setattr(SimulatedGPU, "mem_get_info", lambda gpu: (1, 2))
        wrong = tool.run(lambda: SimulatedGPU(T4), T4)
    verdicts = {row[0]: row[-1] for row in tool.rows_of_methods(answers[0], wrong)}
    assert verdicts["memory_reserved"] == f"DIFFER at 0 of {len(wrong.instants)} instants"
    assert verdicts["mem_get_info"] == "DIFFER", "the totals must agree"
    assert verdicts["origin"] == "differ by nature: a simulated figure is not measured"
    assert verdicts["memory_allocated"].startswith("agree")
    assert tool.rows_at_instants(answers[0], wrong)[0][-1] == "memory_reserved: DIFFER"
    last = tool.rows_at_instants(answers[0], wrong)[-2][-1]
    assert last.startswith("refused and not refused; ")


def test_a_figure_that_differs_is_named():
    assert tool.verdict("memory_stats", {"a": 1, "b": 2}, {"a": 1, "b": 3}) == "DIFFER: b 2 and 3"
    assert tool.verdict("mem_get_info", (5, 9), (4, 9)).startswith("differ by nature: the context's size is assumed")
    assert tool.verdict("mem_get_info", (5, 9), (5, 9)) == "agree"


def test_the_book_knows_the_gpu_or_says_so(live, monkeypatch):
    monkeypatch.setattr(LiveGPU, "spec", T4)
    assert tool.known_spec(live) == "The book's t4-16gb: the same size, architecture and multiprocessors."
    monkeypatch.setattr(LiveGPU, "spec", GPUSpec("x", "Tesla T4", (7, 5), 1, 40, 1024))
    assert tool.known_spec(live) == "The book's t4-16gb: total_bytes 1 here, 15655829504 there."


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert tool.main() == 0
    assert "PyTorch sees no GPU on this machine" in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.parametrize("options", [(), ("--beside",)])
def test_the_live_gpu_agrees_with_its_simulation(options):
    """In a process of its own: what ran before would be in the figures."""
    command = [sys.executable, "tools/live_beside_simulated.py", *options]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
