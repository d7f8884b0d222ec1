"""Each reference that the diagram draws holds a storage by itself, and is let go of as the diagram says."""

import re

import pytest
import torch
from diagrams import words
from IPython.core.interactiveshell import InteractiveShell

from every_byte.units import MiB
from utils import SimulatedGPU
from utils.figures.references_diagram import HOLDERS, references

MAKE = "torch.empty(16, 1024, 1024, device=gpu.device)"
FAIL = f"def train():\n    hidden = {MAKE}\n    hidden.meen()\ntrain()"
ADAM = "optimizer = torch.optim.AdamW([x])"
PROGRAMS = {
    "a name, x": ([f"x = {MAKE}"], ["del x"]),
    "a view's name, x[0]": ([f"x = {MAKE}", "row = x[0]", "del x"], ["row = row[:1, :1].clone()", "del row"]),
    "a shown result, Out[7], _7": (
        ["nn.Linear(4096, 4096, bias=False, device=gpu.device)"],
        ["letting_go.forget_results()"],
    ),
    "a traceback, its frames' names": ([FAIL], ["letting_go.forget_failure()"]),
    "a graph, y.grad_fn": (
        [f"x = {MAKE}.requires_grad_()", "y = x.square().sum()", "del x"],
        ["y = y.detach()", "del y"],
    ),
    "an optimizer's list": ([f"x = nn.Parameter({MAKE})", ADAM, "del x"], ["del optimizer"]),
}


@pytest.fixture
def shell():
    """A notebook's shell, with nothing in it but what the programs need."""
    shell = InteractiveShell.instance()
    yield shell
    InteractiveShell.clear_instance()


@pytest.mark.parametrize("holder", HOLDERS)
def test_it_holds_and_lets_go(holder, shell):
    make, release = PROGRAMS[holder]
    shell.run_cell("import torch\nfrom torch import nn\nfrom utils import letting_go", store_history=True)
    with SimulatedGPU("a100-80gb") as gpu:
        shell.push({"gpu": gpu})
        for cell in make:
            shell.run_cell(cell, store_history=True)
        assert gpu.memory_allocated() >= 64 * MiB
        for cell in release:
            shell.run_cell(cell, store_history=True)
        assert gpu.memory_allocated() == 0
        shell.reset(new_session=True)


def test_all_are_drawn():
    assert PROGRAMS.keys() == HOLDERS.keys()
    drawn = words(references("3 MiB"))
    assert [word for word in drawn if word in HOLDERS] == list(HOLDERS)
    assert [drawn[drawn.index(holder) + 1] for holder in HOLDERS] == list(HOLDERS.values())
    assert drawn.count("3 MiB") == 1
    assert references().svg().count("<polyline") == len(HOLDERS)
    assert re.search("Six references to one storage of 64 MiB", references().alt)
    assert torch.float32.itemsize * 16 * 1024 * 1024 == 64 * MiB
