"""Libraries of CUDA kernels that a program loads by ctypes: stood in for, and named where nothing is known of them."""

import ctypes
import ctypes.util

import pytest
import torch

from utils import SimulatedGPU


@pytest.fixture
def library(tmp_path):
    """Makes a file that names one of CUDA's libraries, as one does that is linked to it."""

    def make(name: str, needs: bytes = b"\0libcudart.so.13\0") -> str:
        path = tmp_path / name
        path.write_bytes(b"\x7fELF" + bytes(100) + needs)
        return str(path)

    return make


def test_its_functions_do_nothing_and_it_is_named(library):
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        lib = ctypes.CDLL(library("libfast.so"))
        x = torch.ones(1000, device="cuda")
        before = torch.cuda.memory_allocated()
        with pytest.warns(UserWarning, match=r"CUDA library libfast.so was called \(launch\) and did nothing"):
            assert lib.launch(ctypes.c_void_p(x.data_ptr()), 1000) == 0
        lib.nothing.restype = None
        assert lib.nothing() is None
        assert torch.cuda.memory_allocated() == before
        assert gpu.unmodelled == {"CUDA library libfast.so"}
    with pytest.raises(OSError, match="libfast.so"):
        ctypes.CDLL(library("libfast.so"))


def test_what_is_not_linked_to_cuda_loads_as_ever(library):
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        with pytest.raises(OSError, match=r"libplain.so"):
            ctypes.CDLL(library("libplain.so", b"libm.so.6"))
        assert ctypes.CDLL(None).getpid() > 0
        assert not gpu.unmodelled


def test_managed_memory_is_of_zeros_and_counts_beside_the_allocator(library):
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        lib = ctypes.CDLL(library("libbitsandbytes_cuda130.so"))
        lib.cget_managed_ptr.restype = ctypes.c_void_p
        address = lib.cget_managed_ptr(ctypes.c_size_t(1 << 30))  # no page of it is there before it is written
        assert ctypes.string_at(address, 8) == bytes(8)
        assert torch.cuda.memory_allocated() == 0
        assert gpu.trace.notes.managed_bytes == 1 << 30
        assert not gpu.unmodelled
