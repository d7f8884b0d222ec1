"""What a simulated GPU changes in PyTorch holds for all that are open, and is gone after the last, whatever happens."""

import sys
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F

from every_byte.gpu.patches import gates
from utils import SimulatedGPU


def attention_kernel() -> set[str]:
    """The kernel that attention takes on an A100: with nothing changed, PyTorch would do it in mathematics."""
    with SimulatedGPU("a100-80gb") as gpu:
        q = torch.empty(1, 2, 16, 64, device=gpu.device, dtype=torch.bfloat16)
        F.scaled_dot_product_attention(q, q, q)
        return {event.operation for event in gpu.trace if "attention" in event.operation or "bmm" in event.operation}


FLASH = {"aten::_scaled_dot_product_flash_attention"}


class Importing(str):
    """The name of a module that has another one imported as soon as it is looked at."""

    __slots__ = ()

    def startswith(self, *args) -> bool:
        sys.modules[f"{self}.another"] = ModuleType("another")
        return super().startswith(*args)

    __hash__ = str.__hash__


def test_a_module_that_another_thread_imports_meanwhile(monkeypatch):
    monkeypatch.setitem(sys.modules, Importing("one_that_imports"), ModuleType("one_that_imports"))
    try:
        assert attention_kernel() == FLASH
    finally:
        sys.modules.pop("one_that_imports.another", None)


@pytest.mark.parametrize("position", [0, 5, len(gates.GATES.changes)])
def test_a_change_that_fails_leaves_nothing_changed(monkeypatch, position):
    """Nor does it keep the next GPU from opening."""

    def failing():
        raise RuntimeError("this change fails")

    changes = gates.GATES.changes
    before = torch.tensor, torch.Tensor.pin_memory, torch.UntypedStorage.resize_
    monkeypatch.setattr(gates.GATES, "changes", [*changes[:position], failing, *changes[position:]])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="this change fails"):
            attention_kernel()
        assert (torch.tensor, torch.Tensor.pin_memory, torch.UntypedStorage.resize_) == before
    monkeypatch.setattr(gates.GATES, "changes", changes)
    assert attention_kernel() == FLASH
    assert (torch.tensor, torch.Tensor.pin_memory, torch.UntypedStorage.resize_) == before


def test_changes_hold_until_the_last_gpu_is_closed():
    original = torch.tensor
    with SimulatedGPU("a100-80gb"):
        changed = torch.tensor
        assert attention_kernel() == FLASH
        assert torch.tensor is changed is not original
    assert torch.tensor is original


def test_a_change_that_comes_later_holds_at_once_and_for_good(monkeypatch):
    """As FSDP2's, whose modules take a second to import."""
    monkeypatch.setattr(gates.GATES, "changes", list(gates.GATES.changes))
    made = []
    with SimulatedGPU("a100-80gb"):
        gates.GATES.add(lambda: made.append("made") or (lambda: made.append("undone")))
        assert made == ["made"]
    assert made == ["made", "undone"]
    with SimulatedGPU("a100-80gb"):
        assert made == ["made", "undone", "made"]


def half(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor(0.5)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_scripts_know_what_is_changed():
    """torch.distributed.optim compiles such functions when it is imported."""
    with SimulatedGPU("a100-80gb"):
        torch.jit.script(half)
    assert torch.jit.script(half)(torch.ones(2)).tolist() == [0.5, 0.5]
