"""What cuBLAS is given to work in, by its variables: bytes, warnings, errors, against the CUDA build on two cards."""

import runpy
import threading

import pytest
import torch
from places import RECORDED, REFERENCE

from every_byte.gpu.cases.files import read
from every_byte.gpu.memory.as_cuda import AsCuda
from utils import SimulatedGPU

SCRIPT = runpy.run_path(str(REFERENCE / "record_workspaces.py"))
RECORDS = read(RECORDED / "environment" / "workspaces.json.gz")["recorded"]
GPUS = {"a100": "a100-80gb", "h100": "h100-80gb"}
BY_DEFAULT = "Requested unified CUBLASLT workspace size of 1048576 bytes"


@pytest.mark.parametrize("card", GPUS)
@pytest.mark.parametrize("recorded", RECORDS, ids=[str(one["settings"]) for one in RECORDS])
def test_workspaces_are_as_recorded(recorded, card, monkeypatch):
    """But for what PyTorch says of its own 1,024 KiB for cuBLASLt, which nobody has asked for."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":2:1")  # the process's environment plays no part
    settings = recorded["settings"]
    with SimulatedGPU(GPUS[card], settings=settings) as gpu:
        found = SCRIPT["record"](gpu, gpu)
    expected = recorded[card]
    if "CUBLASLT_WORKSPACE_SIZE" not in settings:
        expected = [[n, [w for w in said if not w.startswith(BY_DEFAULT)], error] for n, said, error in expected]
    assert found == expected


def test_every_setting_is_recorded():
    assert [one["settings"] for one in RECORDS] == list(SCRIPT["SETTINGS"])


def test_a_workspace_of_its_own_for_cublaslt_is_refused():
    with pytest.raises(ValueError, match="TORCH_CUBLAS_PREFERRED"):
        SimulatedGPU("a100-80gb", settings={"TORCH_CUBLAS_PREFERRED": "0"})


def test_streams_and_threads_have_workspaces_of_their_own():
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.zeros(8, 8, device=gpu.device, requires_grad=True)
        aside = gpu.Stream()
        for stream in (gpu.current_stream(), aside, gpu.current_stream(), aside):
            with gpu.stream(stream):
                torch.autograd.grad((x @ x).sum(), x)
        taken = [event for event in gpu.trace if event.name == "cuBLAS workspace"]
    assert [event.stream for event in taken] == [0, 0, 1, 1]


def _as_run(variables: dict[str, str]) -> SimulatedGPU:
    """The GPU of `every-byte run`, which reads the process's variables when something is first allocated."""
    return SimulatedGPU("a100-80gb", cuda=AsCuda(environment=variables))


def _handle_on_a_thread() -> None:
    thread = threading.Thread(target=torch.cuda.current_blas_handle)
    thread.start()
    thread.join()


def _handle_in_a_stream() -> None:
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_blas_handle()


def _forward_and_backward() -> None:
    w = torch.ones(4, 4, device="cuda", requires_grad=True)
    (w @ w).sum().backward()


@pytest.mark.parametrize(
    ("calls", "in_use"),
    [  # recorded over the CUDA build on an A100, without a tensor before
        ([torch.cuda.current_blas_handle] * 3, [8_519_680] * 3),
        ([_handle_in_a_stream, torch.cuda.current_blas_handle], [8_519_680, 17_039_360]),
        ([_handle_on_a_thread, torch.cuda.current_blas_handle], [8_519_680, 8_519_680]),
        ([_handle_on_a_thread, _handle_on_a_thread, _forward_and_backward], [8_519_680, 8_519_680, 17_039_360]),
        ([torch.cuda.current_blas_handle, _handle_on_a_thread], [8_519_680, 17_039_360]),
    ],
)
def test_a_handle_may_be_the_first_call(calls, in_use):
    with _as_run({}) as gpu:
        found = []
        for call in calls:
            call()
            found.append(gpu.memory_allocated() // 1024 * 1024)
    assert found == in_use


def test_a_handle_as_the_first_call_follows_the_variables():
    with _as_run({"CUBLAS_WORKSPACE_CONFIG": ":4096:1"}) as gpu:
        torch.cuda.current_blas_handle()
        assert gpu.memory_allocated() == 4 << 20


def test_a_size_that_is_set_before_anything_else_stays():
    with _as_run({}) as gpu:
        torch.backends.cuda.cublas_workspace_size(1 << 20)
        torch.cuda.current_blas_handle()
        assert gpu.memory_allocated() == 1 << 20
