"""What the simulated GPU asks of Python's interpreter: references and subscriptions, on each that runs this."""

import sys

import pytest
import torch

from every_byte.interpreter import OF_THE_QUESTION, is_storing, is_subscribing
from utils import SimulatedGPU


class Asked:
    """Says what its frame is at whenever it is subscribed."""

    def __init__(self):
        self.said = []

    def _ask(self):
        frame = sys._getframe(2)
        self.said.append((is_subscribing(frame), is_storing(frame)))

    def __getitem__(self, key):
        self._ask()

    def __setitem__(self, key, value):
        self._ask()


@pytest.mark.parametrize(("statement", "stores"), [
    ("x[0]", False), ("x[0, [1, 2]]", False), ("x[1:2]", False), ("x[:, 1]", False), ("y = x[0]", False),
    ("x[0] = 1", True), ("x[1:2] = 1", True), ("x[:] = 1", True), ("x[..., 2] = 1", True),
])  # fmt: skip
def test_a_subscription_is_known_by_its_frame(statement, stores):
    asked = Asked()
    exec(statement, {"x": asked})
    assert asked.said == [(True, stores)]


def test_a_call_is_no_subscription():
    asked = Asked()
    asked.__getitem__(0)
    asked.__setitem__(0, 1)
    assert asked.said == [(False, False)] * 2


def test_the_question_has_a_reference_of_its_own_or_none():
    assert OF_THE_QUESTION == (0 if sys.version_info >= (3, 14) else 1)


def sizes(work):
    with SimulatedGPU("a100-80gb") as gpu:
        work(gpu.device)
        return [event[1] for event in gpu.trace.sequence() if event[0] == "alloc"]


@pytest.mark.parametrize("statement", ["x[1:2] = 0.0", "x[:] = 0.0", "x[0] = 0.0", "x[:, 1:3] = 0.0"])
def test_a_number_that_is_written_takes_no_memory(statement):
    def write(device):
        exec(statement, {"x": torch.zeros(4, 4, device=device)})

    assert sizes(write) == [64]


def test_a_list_that_indexes_has_a_place_and_a_tensor_with_a_name_is_refused():
    def by_list(device):
        torch.zeros(4, 4, device=device)[[0, 1]]

    assert sizes(by_list) == [64, 16, 32]
    named = torch.zeros(2, dtype=torch.int64, device="meta")
    with pytest.raises(RuntimeError, match="must have been made while a simulated GPU was open"):
        sizes(lambda device: torch.zeros(4, 4, device=device)[named])


def test_a_gradient_that_nobody_else_holds_is_added_to_in_place():
    """A leaf, its double, two products of that and their sum; the gradients of both products, the second of which is
    added to the first; the leaf's."""

    def add(device):
        x = torch.zeros(256, device=device, requires_grad=True)
        y = x * 2
        (y * 3 + y * 5).sum().backward()

    assert sizes(add).count(1024) == 5 + 2 + 1


def test_a_gradient_that_a_hook_has_kept_is_not():
    """The first of both gradients has a name: what is added up is a tensor of its own."""

    def add(device):
        x = torch.zeros(256, device=device, requires_grad=True)
        y, kept = x * 2, []
        later = y * 5
        first = y.view(256)
        first.register_hook(kept.append)
        (first * 3 + later).sum().backward()

    assert sizes(add).count(1024) == 5 + 2 + 1 + 1
