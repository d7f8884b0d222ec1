"""A notebook holds what it showed and what failed, and lets go of it when told."""

import sys
import weakref

import pytest
from jupyter_client.manager import start_new_kernel

from utils.letting_go import forget_failure, forget_results

CELLS = {
    "start": (
        "import torch\nfrom torch import nn\nfrom utils import open_gpu\n"
        "from utils.letting_go import forget_failure, forget_results\ngpu = open_gpu()"
    ),
    "show": "nn.Linear(1024, 1024, bias=False, device=gpu.device)",
    "fail": "def f():\n    hidden = torch.empty(2**20, device=gpu.device)\n    hidden.meen()\n\nf()",
    "forget results": "forget_results()",
    "forget failure": "forget_failure()",
    "forget results and read": "forget_results()\nprint(gpu.memory_allocated())",
    "forget failure and read": "forget_failure()\nprint(gpu.memory_allocated())",
    "read": "print(gpu.memory_allocated())",
}
HELD = 4 * 2**20


class Kernel:
    """A kernel of its own."""

    def __init__(self):
        self._manager, self._client = start_new_kernel(kernel_name="python3")

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def read(self, *names, store_history=True):
        """Runs cells after one that opens a fresh GPU; gives the numbers that they print."""
        messages = []
        for name in ("start", *names):
            self._client.execute_interactive(
                CELLS[name], store_history=store_history, timeout=60, output_hook=messages.append, stop_on_error=False
            )
        streams = [message["content"] for message in messages if message["msg_type"] == "stream"]
        printed = "".join(stream["text"] for stream in streams if stream["name"] == "stdout")
        return [int(number) for number in printed.split()]


@pytest.fixture(scope="module")
def kernel():
    with Kernel() as kernel:
        yield kernel


@pytest.fixture
def read(kernel):
    return kernel.read


@pytest.mark.long
def test_results(read):
    assert read("show", "read", "forget results", "read") == [HELD, 0]


@pytest.mark.long
def test_several_results_and_right_away(read):
    assert read("show", "show", "show", "show", "read", "show", "forget results and read") == [4 * HELD, 0]


@pytest.mark.nightly
def test_results_of_cells_that_are_not_numbered():
    """As nbval runs them: the result is `_0`, while no cell was numbered before."""
    with Kernel() as kernel:
        assert kernel.read("show", "read", "forget results", "read", store_history=False) == [HELD, 0]


@pytest.mark.long
def test_results_shown_afterwards_are_kept_again(read):
    assert read("forget results", "show", "read") == [HELD]


def test_failures(read):
    assert read("fail", "read", "forget failure", "read") == [HELD, 0]
    assert read("fail", "forget failure and read") == [0]


def test_one_does_not_do_the_work_of_the_other(read):
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
