"""What PyTorch's Python asks of C++: the functions that a CUDA build has, and nothing without an answer."""

import ast
import re
from pathlib import Path

import pytest
import torch

from every_byte.gpu.cuda import c_settings, comm
from every_byte.gpu.cuda.c_functions import ACCELERATOR, FUNCTIONS, where_cuda_is_simulated
from every_byte.report.notes import notes_of
from utils import SimulatedGPU

HERE = Path(torch.__file__).parent
# Of PyTorch's compiler, of other processes, of ROCm, or classes: a program that trains does not come there.
NOT_ASKED = {
    "_cuda_CUDAAllocator", "_cuda_CUDAAllocator_AllocatorState", "_cuda_allocationTraceback",
    "_cuda_getHipblasltVersion", "_cuda_isInBadFork", "_cuda_init", "_cudart", "_cudnn",
    "_cudnn_set_conv_benchmark_empty_cache",
}  # fmt: skip
FILES = [*(HERE / "cuda").glob("*.py"), *(HERE / "backends").rglob("*.py"), *(HERE / "nn" / "parallel").glob("*.py"),
         *(HERE / "accelerator").glob("*.py")]  # fmt: skip


def asked() -> set[str]:
    """The names of CUDA's functions in C++ that these files of PyTorch's call."""
    names = set()
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "torch._C":
                names.add(node.attr)
    found = {name for name in names if re.match(r"_(cuda|cudnn|nccl|scatter|gather|broadcast)", name)}
    return {name for name in found if not name.endswith("_out")} - NOT_ASKED


def test_every_function_that_is_asked_is_there(gpu):
    assert len(asked()) > 70
    assert {name for name in asked() if not callable(getattr(torch._C, name, None))} == set()


def test_they_go_by_their_names(gpu):
    assert torch._C._cuda_getDeviceCount.__name__ == "_cuda_getDeviceCount"
    assert set(FUNCTIONS) <= set(dir(torch._C))


@pytest.mark.parametrize(
    "name",
    ["_cuda_customAllocator", "_cuda_jiterator_compile_and_launch_kernel", "_nccl_all_reduce", "_cuda_releasePool"],
)
def test_what_is_not_followed_is_refused_by_name(gpu, name):
    with pytest.raises(
        NotImplementedError, match=f"torch._C.{name} is not modelled on a simulated GPU: .*leave it out"
    ):
        getattr(torch._C, name)()


def test_settings_are_told_again_and_begin_anew_with_the_next_gpu():
    for _ in range(2):
        with SimulatedGPU("a100-80gb", cuda=True):
            assert torch.cuda.get_sync_debug_mode() == 0
            torch.cuda.set_sync_debug_mode("error")
            assert torch.cuda.get_sync_debug_mode() == 2


@pytest.mark.parametrize(
    ("set_to", "is_set", "usual", "name"),
    [
        (
            torch.cuda.memory.caching_allocator_enable, lambda: torch._C._cuda_cudaCachingAllocator_is_enabled(),
            True, "torch.cuda.caching_allocator_enable(False)",
        ),
        (torch.cuda.tunable.enable, torch.cuda.tunable.is_enabled, False, "torch.cuda.tunable.enable()"),
    ],
)  # fmt: skip
def test_a_setting_by_which_a_card_takes_other_bytes_is_flagged(gpu, set_to, is_set, usual, name):
    set_to(usual)
    assert is_set() == usual
    assert gpu.unmodelled == set()
    with pytest.warns(UserWarning, match=f"{re.escape(name)} is not modelled: .*Leave it out"):
        set_to(not usual)
    assert is_set() != usual
    assert gpu.unmodelled == {name}
    (note,) = notes_of(gpu.trace)
    assert str(note).startswith(f"{name} is not modelled: ")
    assert "leave it out" in note.way_out


def test_no_function_is_answered_twice(gpu):
    answers = FUNCTIONS, ACCELERATOR, c_settings.functions(), comm.FUNCTIONS
    assert sum(map(len, answers)) == len(set().union(*answers))


def test_a_cublas_handle_takes_its_workspace_once(gpu):
    assert torch.cuda.current_blas_handle() != 0
    torch.cuda.current_blas_handle()
    assert gpu.memory_allocated() == 8519680
    torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")
    assert gpu.memory_allocated() == 8519680


@pytest.mark.parametrize("n_bytes", [1 << 20, 0])
def test_a_workspace_of_another_size(gpu, n_bytes):
    assert torch.backends.cuda.cublas_workspace_size(n_bytes) == n_bytes
    torch.cuda.current_blas_handle()
    assert gpu.memory_allocated() == n_bytes


def test_raw_blocks(gpu):
    s = torch.cuda.Stream()
    one, other = torch.cuda.caching_allocator_alloc(1000), torch.cuda.caching_allocator_alloc(3 << 20, stream=s)
    assert gpu.memory_allocated() == 1024 + (3 << 20)
    assert [e.stream for e in gpu.trace if e.action == "alloc"] == [0, s.cuda_stream]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    torch.cuda.caching_allocator_delete(one)
    torch.cuda.caching_allocator_delete(other)
    assert gpu.memory_allocated() == 0
    with pytest.raises(RuntimeError, match=f"invalid device pointer: {one:#x}"):
        torch.cuda.caching_allocator_delete(one)


def test_where_no_gpu_stands_for_cuda_pytorchs_own_is_asked():
    ask = where_cuda_is_simulated(lambda: "simulated")(lambda: "real")
    assert ask() == "real"
    with SimulatedGPU("a100-80gb"):
        assert ask() == "real"
    with SimulatedGPU("a100-80gb", cuda=True):
        assert ask() == "simulated"


def test_parts_for_one_gpu(gpu):
    x = torch.arange(6)
    (part,) = torch._C._scatter(x, [0], None, 0, None)
    assert (part.device, part.tolist()) == (torch.device("cuda", 0), [0, 1, 2, 3, 4, 5])
    assert torch._C._gather((part, part), 0, 0).tolist() == [0, 1, 2, 3, 4, 5] * 2
    assert torch._C._gather((part,), 0, -1).device == torch.device("cpu")
    assert torch._C._broadcast(part, [0])[0] is part
    assert torch._C._broadcast_coalesced([part], [0], 100)[0][0] is part
