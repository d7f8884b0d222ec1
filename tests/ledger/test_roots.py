"""The outermost modules: numbered as they are met, kept by nobody; and paths that know of which they are."""

import gc
import pickle
from threading import Barrier, Thread

import pytest
import torch
from torch import nn

from every_byte.ledger.roots import ModulePath, Root, Roots, root_of


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(2, 3), nn.Linear(3, 2)


def test_roots_keep_no_module_and_are_pickled():
    roots, model = Roots(), Net()
    assert [roots.number_of(module) for module in (model, nn.MSELoss(), nn.MSELoss(), model)] == [1, 2, 2, 1]
    assert dict(roots.alive()) == {1: model}
    assert [root.name for root in pickle.loads(pickle.dumps(roots)).found] == ["Net", "MSELoss"]
    del model
    gc.collect()
    assert dict(roots.alive()) == {}


@pytest.mark.parametrize("kind", [Net, nn.MSELoss])
def test_two_threads_that_meet_a_module_at_once_number_it_once(kind, monkeypatch):
    roots, module, both, numbers, look = Roots(), kind(), Barrier(2), [], Root.of

    def together(module):
        both.wait(300)
        return look(module)

    monkeypatch.setattr(Root, "of", together)
    threads = [Thread(target=lambda: numbers.append(roots.number_of(module))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (numbers, len(roots)) == ([1, 1], 1)


def test_a_path_is_its_text_and_knows_its_root():
    path = pickle.loads(pickle.dumps(ModulePath("a.b", 3)))
    assert (path, hash(path), root_of(path), root_of("a.b")) == ("a.b", hash("a.b"), 3, 0)


def test_two_classes_of_one_name_and_a_class_that_may_have_nothing_are_not_mixed_up():
    class Loss(nn.Module):
        def __init__(self, *parts):
            super().__init__()
            self.parts = nn.ModuleList(parts) if parts else None

    roots = Roots()
    full = Loss(nn.Linear(2, 2))
    assert [roots.number_of(module) for module in (Loss(), full, Loss())] == [1, 2, 1]
    assert [root.has_something for root in roots.found] == [False, True]


def test_a_buffer_or_a_parameter_is_something():
    plain, one = nn.Module(), nn.Module()
    plain.register_buffer("none", None)
    one.register_buffer("mask", torch.ones(2))
    assert [Root.of(module).has_something for module in (plain, one, nn.Linear(2, 2))] == [False, True, True]


def of(*layers: nn.Module) -> tuple[str, dict[str, str]]:
    root = Root.of(nn.Sequential(*layers))
    return root.stack, root.layers


def test_numbered_parts_are_layers_where_they_are_the_first_of_several():
    assert of(nn.Linear(2, 2), nn.ReLU()) == ("", {"0": "Linear", "1": "ReLU"})
    assert of(nn.Sequential(nn.Linear(2, 2), nn.ReLU())) == ("0", {"0": "Linear", "1": "ReLU"})
    assert of(nn.Linear(2, 2)) == ("", {"0": "Linear"})
    assert of(Net(), Net()) == ("", {})  # blocks, which are of one kind
    assert of(Net(), nn.ReLU()) == ("", {"0": "Net", "1": "ReLU"})
    assert of(Net()) == ("", {})
    assert of() == ("", {})


@pytest.mark.parametrize(("name", "inner"), [("DistributedDataParallel", "module"), ("OptimizedModule", "_orig_mod")])
def test_a_wrapper_has_the_name_of_what_it_wraps(name, inner):
    wrapper = type(name, (nn.Module,), {})()
    setattr(wrapper, inner, nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    root = Root.of(wrapper)
    path = "" if inner.startswith("_") else inner
    assert (root.name, root.wraps, root.stack) == ("Sequential", path, path)
    assert root.layers == {"0": "Linear", "1": "ReLU"}
