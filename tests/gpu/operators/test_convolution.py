"""Convolutions and batch norm: exact but for what cuDNN works in, which is named; without cuDNN, exact or named."""

import pytest
import torch
import torch.nn.functional as F
from places import RECORDED
from running import cases, run_case, up_to_last_mark

from every_byte.gpu.cases.files import file_name, read
from every_byte.gpu.operators.convolution_choice import Backend, Settings, backend_of
from utils import SimulatedGPU, Trace

FILE = "convolution_cases"
CUDNNS_OWN = {
    "aten::convolution (cuDNN's workspace)",
    "aten::convolution_backward (cuDNN's workspace)",
    "aten::cudnn_batch_norm (cuDNN's workspace and reserve)",
    "aten::cudnn_batch_norm_backward (cuDNN's workspace)",
    "torch.backends.cudnn.benchmark",
}


@pytest.mark.long
@pytest.mark.parametrize("name", cases(FILE))
@pytest.mark.filterwarnings("ignore:.*is not modelled")
@pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")
def test_all_but_cudnns_own_is_that_of_cuda(name):
    """The stubs' cuDNN works in no memory: so the events are the same, and what it sizes on a card is named."""
    recording = read(RECORDED / "operations" / file_name(name, "a100"))
    run = run_case(cases(FILE)[name], "a100")
    assert up_to_last_mark(run.gpu.trace.sequence()) == Trace.from_recording(recording).sequence()
    assert run.marks == recording["marks"]
    assert set(run.gpu.unmodelled) <= CUDNNS_OWN


@pytest.mark.filterwarnings("ignore:aten..convolution")
def test_what_is_known_of_a_benchmarked_convolution_and_what_is_not():
    with SimulatedGPU("a100-80gb") as gpu, torch.backends.cudnn.flags(enabled=True, benchmark=True):
        x = torch.zeros(64, 64, 128, 128, device=gpu.device)
        del x
        layer, image = torch.nn.Conv2d(3, 8, 3, device=gpu.device), torch.zeros(2, 3, 32, 32, device=gpu.device)
        with pytest.warns(UserWarning, match="empties the allocator's cache .* counted; what they take .* not"):
            layer(image)
        assert gpu.memory_reserved() == 2 << 20
        x = torch.zeros(64, 64, 128, 128, device=gpu.device)
        del x
        layer(image)
        assert gpu.memory_reserved() == (2 << 20) + (256 << 20)
    assert "torch.backends.cudnn.benchmark" in gpu.unmodelled


def test_a_channel_at_a_time_needs_no_cudnn(gpu):
    """Nothing is unknown of a depthwise convolution with channels first: input, kernel and result, no workspace."""
    x = torch.zeros(2, 8, 5, 5, device=gpu.device, requires_grad=True)
    F.conv2d(x, torch.zeros(8, 1, 3, 3, device=gpu.device), padding=1, groups=8).sum().backward()
    assert not gpu.unmodelled


def test_batch_norm_in_evaluation_needs_no_workspace(gpu):
    norm = torch.nn.BatchNorm2d(8, device=gpu.device).eval()
    norm(torch.zeros(2, 8, 5, 5, device=gpu.device, requires_grad=True)).sum().backward()
    assert not gpu.unmodelled


def test_a_convolution_without_cudnn_is_named(gpu):
    x, weight = (torch.zeros(2, 8, 5, 5, device=gpu.device) for _ in range(2))
    with torch.backends.cudnn.flags(enabled=False), pytest.warns(UserWarning, match="aten::convolution without cuDNN"):
        F.conv2d(x, weight)
    assert set(gpu.unmodelled) == {"aten::convolution without cuDNN"}


ONE, TWO = (1, 1), (2, 2)


@pytest.mark.parametrize(
    ("shape", "dtype", "capability", "expected"),
    [
        ((2, 32, 8, 8), torch.float16, (8, 0), Backend.CUDNN),
        ((2, 31, 8, 8), torch.float16, (8, 0), Backend.DEPTHWISE),
        ((2, 32, 8, 6), torch.float16, (8, 0), Backend.DEPTHWISE),
        ((2, 32, 8, 8), torch.bfloat16, (8, 0), Backend.DEPTHWISE),
        ((2, 32, 8, 8), torch.float32, (8, 0), Backend.DEPTHWISE),
        ((0, 32, 8, 8), torch.float32, (8, 0), Backend.EMPTY),
    ],
)
def test_who_runs_a_depthwise_convolution(shape, dtype, capability, expected):
    """As in use_cudnn_depthwise of Convolution.cpp: float16 with many channels and a width of 7 or more."""
    x = torch.empty(shape, dtype=dtype, device="meta")
    weight = torch.empty(shape[1], 1, 3, 3, dtype=dtype, device="meta")
    assert backend_of(x, weight, Settings(ONE, ONE, (0, 0), False, shape[1]), capability) is expected


def test_bfloat16_needs_an_ampere_card_for_cudnn():
    x, weight = (torch.empty(4, 4, 8, 8, dtype=torch.bfloat16, device="meta") for _ in range(2))
    plain = Settings(TWO, ONE, (0, 0), False, 1)
    assert backend_of(x, weight, plain, (8, 0)) is Backend.CUDNN
    assert backend_of(x, weight, plain, (7, 5)) is Backend.UNFOLDED
