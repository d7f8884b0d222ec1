"""While a GPU stands for "cuda" PyTorch is changed; after the last such one closes it is as it was."""

import sys
import threading
from contextlib import ExitStack
from importlib import import_module

import pytest
import torch

from every_byte.gpu.cuda.gates import CUDA_GATES
from every_byte.gpu.patches import replacing
from utils import SimulatedGPU

ABSENT = object()


def changed_places() -> list[tuple]:
    """(owner, name) of each attribute in whose place something stands now."""
    return [(place.owner, place.name) for place in replacing._places.values()]


def opened(*cuda: bool, name="a100-80gb") -> ExitStack:
    """So many GPUs, one in the other, as "cuda" or not."""
    stack = ExitStack()
    for each in cuda:
        stack.enter_context(SimulatedGPU(name, cuda=each))
    return stack


@pytest.fixture(scope="module")
def places():
    """What is changed; once it was, modules that are imported late are there."""
    with opened(True):
        found = changed_places()
    return found


def state(places) -> dict:
    """What there is now: of PyTorch's attributes the very objects."""
    attributes = {(id(owner), name): vars(owner).get(name, ABSENT) for owner, name in places}
    table = torch.jit._builtins._get_builtin_table()
    answers = (
        torch.cuda.is_available(), torch.cuda.device_count(), torch.accelerator.is_available(), torch.version.cuda,
        torch.backends.cudnn.is_available(), torch.cuda.is_initialized(), torch.distributed.is_nccl_available(),
        torch.get_default_device(), torch.get_default_dtype(), torch.zeros(1).device,
        torch.nn.Linear(1, 1).weight.device,
        torch.__future__.get_swap_module_params_on_conversion(), torch._C._len_torch_dispatch_stack(),
        torch._C._len_torch_function_stack(), torch.is_autocast_enabled("cuda"),
    )  # fmt: skip
    others = list(sys.meta_path), threading.Thread.start, torch.nn.Module._apply, torch.utils.swap_tensors, len(table)
    return {"attributes": attributes, "answers": answers, "others": others}


def differing(before: dict, after: dict, places) -> list:
    names = {(id(owner), name): f"{getattr(owner, '__name__', owner)}.{name}" for owner, name in places}
    one, other = before["attributes"], after["attributes"]
    found = [names[key] for key in one if one[key] is not other[key]]
    return found + [(before[part], after[part]) for part in ("answers", "others") if before[part] != after[part]]


def test_much_is_changed(places):
    names = {f"{getattr(owner, '__name__', owner)}.{name}" for owner, name in places}
    assert {
        "torch.device",
        "torch.zeros",
        "Tensor.to",
        "torch.cuda.device_count",
        "Thread.start",
        "torch.load",
    } <= names
    assert len(places) > 250
    assert replacing._places == {}


@pytest.mark.parametrize(
    "kinds", [(True,), (True, True), (True, False), (False, True), (False, True, False, True), (True, True, True)]
)
def test_all_is_put_back(places, kinds):
    before = state(places)
    for _ in range(2):
        with opened(*kinds):
            torch.zeros(3, device="cuda" if kinds[-1] else "meta")
        assert differing(before, state(places), places) == []
        assert replacing._places == {}


def test_all_is_put_back_after_an_error(places):
    before = state(places)
    with pytest.raises(RuntimeError, match="two devices"), opened(True):
        torch.zeros(3, device="cuda") + torch.zeros(3)
    assert differing(before, state(places), places) == []


@pytest.mark.filterwarnings("ignore:.*set_default_tensor_type:UserWarning")
def test_a_default_type_of_cuda_is_put_back_and_its_number_is_the_programs(places):
    import_module("torch._dynamo")  # as the choice does; it changes more than a GPU puts back
    before = state(places)
    with opened(True):
        torch.set_default_tensor_type("torch.cuda.HalfTensor")
        assert torch.zeros(1).type() == "torch.cuda.HalfTensor"
    assert torch.zeros(1).type() == "torch.HalfTensor"
    torch.set_default_dtype(torch.float32)
    assert differing(before, state(places), places) == []


@pytest.mark.parametrize("position", [0, 3, 8, len(CUDA_GATES.changes)])
def test_a_change_that_fails_leaves_nothing_changed(places, monkeypatch, position):
    """Nor does it keep the next GPU from opening."""

    def failing():
        raise RuntimeError("this change fails")

    before, changes = state(places), CUDA_GATES.changes
    monkeypatch.setattr(CUDA_GATES, "changes", [*changes[:position], failing, *changes[position:]])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="this change fails"):
            SimulatedGPU("a100-80gb", cuda=True).__enter__()
        assert differing(before, state(places), places) == []
    monkeypatch.setattr(CUDA_GATES, "changes", changes)
    with opened(True) as gpus:
        assert torch.cuda.is_available()
        gpus.close()
    assert differing(before, state(places), places) == []


def test_within_a_gpu_that_is_not_cuda_the_word_means_the_machines(places):
    real = torch.cuda.is_available()
    with opened(True):
        assert torch.cuda.is_available()
        with opened(False):
            assert torch.cuda.is_available() == real
            assert torch.zeros(1, device="meta").device == torch.device("meta")
        assert torch.zeros(1, device="cuda").is_cuda


def test_the_innermost_is_cuda():
    with SimulatedGPU("a100-80gb", cuda=True) as outer, SimulatedGPU("t4-16gb", cuda=True) as inner:
        assert torch.cuda.get_device_name() == "Tesla T4"
        x = torch.zeros(1000, device="cuda")
        assert (outer.memory_allocated(), inner.memory_allocated()) == (0, 4096)
        assert x.is_cuda
    assert inner.memory_allocated() == 4096


def test_a_gpu_can_be_closed_by_hand_and_its_tensors_remain():
    gpu = SimulatedGPU("a100-80gb", cuda=True)
    with gpu:
        x = torch.zeros(1000, device="cuda")
    assert gpu.memory_allocated() == 4096
    assert (x.shape, x.device) == ((1000,), torch.device("meta"))
    del x
    assert gpu.memory_allocated() == 0


def test_opened_again_it_goes_on():
    gpu = SimulatedGPU("a100-80gb", cuda=True)
    kept = []
    for n in (1, 2):
        with gpu:
            kept.append(torch.zeros(1000, device="cuda"))
            assert torch.cuda.memory_allocated() == 4096 * n
