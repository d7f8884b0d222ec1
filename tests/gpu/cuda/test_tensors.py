"""What tensors and modules of a GPU that stands for "cuda" say, and how they are moved: as recorded, and beyond."""

import pytest
import torch
from as_cuda import programs, ran, recorded
from torch import nn

from every_byte.gpu.memory.whose import memory_of

RECORDED = recorded("tensors")


@pytest.mark.parametrize("name", RECORDED)
def test_as_on_cuda(warm_gpu, name):
    assert ran(programs("tensors")[name]) == RECORDED[name]


def test_every_program_is_recorded():
    assert list(RECORDED) == list(programs("tensors"))


def test_the_device_of_the_gpu_is_cuda(gpu):
    assert gpu.device == torch.device("cuda", 0)
    assert torch.zeros(1, device=gpu.device).device == torch.device("cuda", 0)


def test_a_meta_tensor_counts_nowhere(gpu):
    x = torch.zeros(1000, device="meta")
    made = [
        x,
        x + x,
        torch.asarray(x),
        torch.as_tensor([1.0], device="meta"),
        x.new_tensor([1.0]),
        x.new(3),
        x.to("meta"),
    ]
    assert {y.device.type for y in made} == {"meta"}
    assert {memory_of(y) for y in made} == {None}
    assert len(gpu.trace.events) == 0


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (
            lambda x, host, empty: x + host,
            r"^Expected all tensors .* cuda:0 and cpu! .*as a rule it is the same error",
        ),
        (lambda x, host, empty: x + empty, r"^Expected all tensors .* cuda:0 and meta! .*was made on device meta"),
        (lambda x, host, empty: empty.cuda(), r"^Cannot copy out of meta tensor; no data! .*to_empty"),
        (
            lambda x, host, empty: nn.Linear(2, 2, device="meta").to("cuda"),
            r"^Cannot copy out of meta tensor; no data!",
        ),
        (lambda x, host, empty: x.copy_(empty), r"^Cannot copy out of meta tensor; no data!"),
        (lambda x, host, empty: x.numpy(), r"^can't convert cuda:0 device type tensor to numpy\. Use Tensor\.cpu\(\)"),
        (
            lambda x, host, empty: host.cuda(1),
            r"^CUDA error: invalid device ordinal\ncuda:1 was asked for, and there is one GPU",
        ),
        (
            lambda x, host, empty: setattr(x, "data", empty),
            r"incompatible tensor type: one is on cuda:0, the other on meta",
        ),
        (
            lambda x, host, empty: x.untyped_storage()._share_cuda_(),
            r"seen by its own process alone.* send tensor\.cpu\(\)",
        ),
        (
            lambda x, host, empty: torch.nested.nested_tensor([host], device="cuda"),
            r"must be jagged.*layout=torch\.jagged",
        ),
    ],
)
def test_what_is_refused_says_why(gpu, act, message):
    with pytest.raises((RuntimeError, TypeError), match=f"(?s){message}"):
        act(torch.zeros(3, device="cuda"), torch.zeros(3), torch.zeros(3, device="meta"))


class Watching(torch.Tensor):
    """A class of a program's own, which sees what is done with it."""

    seen: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def test_a_class_of_a_programs_own_does_not_see_that_it_is_asked(gpu):
    x = torch.zeros(3, device="cuda").as_subclass(Watching)
    Watching.seen.clear()
    assert memory_of(x) is gpu._memory
    assert Watching.seen == []


def test_a_view_and_its_base_are_told_apart_by_addresses(gpu):
    x, y = (torch.zeros(100, device="cuda") for _ in range(2))
    assert x[10:].data_ptr() - x.data_ptr() == 40
    assert x.data_ptr() == x.untyped_storage().data_ptr() == gpu.trace.events[1].address
    assert x.data_ptr() != y.data_ptr()
