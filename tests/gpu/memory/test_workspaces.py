"""What cuBLAS is given to work in, by its variables: bytes, warnings, errors, against the CUDA build on two cards."""

import runpy

import pytest
import torch
from places import RECORDED, REFERENCE

from every_byte.gpu.cases.files import read
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
