"""A notebook holds what it showed and what failed, and lets go of it when told."""

import sys
import weakref

import pytest
from nbclient import NotebookClient
from nbformat import v4

from utils.letting_go import forget_failure, forget_results

CELLS = {
    "import": (
        "import torch\nfrom torch import nn\nfrom utils import open_gpu\n"
        "from utils.letting_go import forget_failure, forget_results\ngpu = open_gpu()"
    ),
    "show": "nn.Linear(1024, 1024, bias=False, device=gpu.device)",
    "fail": "def f():\n    hidden = torch.empty(2**20, device=gpu.device)\n    hidden.meen()\n\nf()",
    "forget results": "forget_results()",
    "forget failure": "forget_failure()",
    "read": "print(gpu.memory_allocated())",
}
HELD = 4 * 2**20


def read(*names):
    """What the cells print, after the import, in a kernel of their own."""
    notebook = v4.new_notebook(cells=[v4.new_code_cell(CELLS[name]) for name in ("import", *names)])
    NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True).execute()
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    return [int(output.text) for output in outputs if output.output_type == "stream" and output.name == "stdout"]


def test_results():
    assert read("show", "read", "forget results", "read") == [HELD, 0]


def test_several_results_and_right_away():
    assert read("show", "show", "show", "read", "show", "forget results", "read") == [3 * HELD, 0]


def test_results_shown_afterwards_are_kept_again():
    assert read("forget results", "show", "read") == [HELD]


def test_failures():
    assert read("fail", "read", "forget failure", "read") == [HELD, 0]


def test_a_failure_right_away():
    assert read("fail", "forget failure", "read") == [0]


def test_one_does_not_do_the_work_of_the_other():
    assert read("show", "fail", "forget failure", "read", "forget results", "read") == [HELD, 0]
    assert read("show", "fail", "forget results", "read") == [HELD]


class Held:
    pass


@pytest.mark.parametrize("name", ["last_exc", "last_value", "last_traceback"])
def test_in_a_plain_python(name, monkeypatch):
    held = Held()
    alive = weakref.ref(held)
    monkeypatch.setattr(sys, name, held, raising=False)
    del held
    forget_results()
    assert alive() is getattr(sys, name)
    forget_failure()
    assert getattr(sys, name) is None
