"""What makes tensors puts them where it is told: on "cuda", on "meta", on a default device; as recorded, and beyond."""

import pytest
import torch
from as_cuda import programs, ran, recorded

RECORDED = recorded("factories")


@pytest.mark.parametrize("name", RECORDED)
def test_as_on_cuda(warm_gpu, name):
    assert ran(programs("factories")[name]) == RECORDED[name]


def test_every_program_is_recorded():
    assert list(RECORDED) == list(programs("factories"))


def test_each_constructor_is_tried():
    """But those of sparse and quantized tensors, which a simulated GPU refuses."""
    module = programs("factories")["on_cuda"].__globals__
    left_out = {name for name in module["NAMES"] if name not in module["ARGUMENTS"]} | module["UNLIKE"]
    assert {name for name in left_out if "sparse" not in name} == {"empty_quantized", "nested_tensor"}


def test_one_allocation_for_one_tensor(gpu):
    x = torch.zeros(1000, device="cuda")
    assert [(e.action, e.n_bytes) for e in gpu.trace if e.action == "alloc"] == [("alloc", 4000)]
    del x
    assert gpu.memory_allocated() == 0


def test_numbers_on_the_gpu_are_brought(gpu):
    x = torch.arange(3, device="cuda")
    assert torch.tensor([x[1], x[2]]).tolist() == [1, 2]
    assert torch.tensor([[x[2]], [7]], device="cuda").tolist() == [[2], [7]]


def test_an_error_speaks_of_cuda(gpu):
    with pytest.raises(RuntimeError, match=r"device type cuda does not match device type of out parameter \(cpu\)"):
        torch.zeros(3, device="cuda", out=torch.empty(3))


def test_scripts_know_what_is_changed(gpu):
    """A function that is compiled while the GPU is open, and one from before."""

    def make(x):
        return torch.zeros(3, device=x.device) + torch.full((3,), 2.0, device=x.device)

    deprecated = pytest.warns(DeprecationWarning, match="torch.jit.script")
    with deprecated, pytest.warns(UserWarning, match="torch.jit is not modelled"):
        assert torch.jit.script(make)(torch.ones(3, device="cuda")).device == torch.device("cuda", 0)


def test_types_of_old_are_classes(gpu):
    x = torch.cuda.FloatTensor(2, 3)
    assert (x.device, x.shape, x.dtype) == (torch.device("cuda", 0), (2, 3), torch.float32)
    assert isinstance(x, torch.cuda.FloatTensor)
    assert not isinstance(x, torch.cuda.HalfTensor)
    assert not isinstance(torch.zeros(1), torch.cuda.FloatTensor)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_sparse_tensors_are_made_of_parts_on_the_gpu(gpu):
    indices = [[0, 1], [1, 2]]
    for parts in ((indices, [1.0, 2.0]), (torch.tensor(indices), torch.ones(2))):
        x = torch.sparse_coo_tensor(*parts, (3, 3), device="cuda")
        assert (x.device, x.layout, x.shape) == (torch.device("cuda", 0), torch.sparse_coo, (3, 3))
        assert gpu.memory_allocated() == 1024
        del x
