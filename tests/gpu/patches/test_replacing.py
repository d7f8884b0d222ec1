"""Functions in the place of PyTorch's: several in one place go in any order, and leave what was there."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from every_byte.gpu.live.exchanges import EXCHANGES
from every_byte.gpu.patches.replacing import Changes, replaced
from utils import SimulatedGPU


def said(word):
    """What says a word, then what stood there."""
    return lambda original: lambda: [word, *original()]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_they_go_in_any_order(order):
    def last():
        return ["last"]

    owner = SimpleNamespace(say=last)
    words = ["first", "second", "third"]
    undo = [replaced(owner, "say", said(word)) for word in words]
    assert owner.say() == ["third", "second", "first", "last"]
    there = [0, 1, 2]
    for i in order:
        undo[i]()
        there.remove(i)
        assert owner.say() == [*(words[k] for k in reversed(there)), "last"]
    assert owner.say is last


def test_what_a_class_inherits_is_inherited_again():
    class Above:
        def say(self):
            return ["above"]

    class Below(Above):
        pass

    replaced(Below, "say", lambda original: lambda self: ["below", *original(self)])()
    assert "say" not in vars(Below)


def test_a_change_that_fails_leaves_none():
    owner = SimpleNamespace(number=1)

    def fails():
        raise RuntimeError("no")

    changes = Changes([lambda: replaced(owner, "number", lambda number: number + 1), fails])
    with pytest.raises(RuntimeError, match="no"):
        changes.open()
    assert owner.number == 1


def test_a_storage_counts_whoever_came_and_went_first():
    before = torch.UntypedStorage.resize_
    EXCHANGES.open()
    with SimulatedGPU("a100-80gb") as gpu:
        EXCHANGES.close()
        x = torch.zeros(1024, device=gpu.device)
        x.untyped_storage().resize_(0)
        assert gpu.memory_allocated() == 0
    assert torch.UntypedStorage.resize_ is before
