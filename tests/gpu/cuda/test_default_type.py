"""`torch.set_default_tensor_type` with one of CUDA's: beyond what test_factories.py holds to the recordings."""

import pytest
import torch

from utils import SimulatedGPU

pytestmark = pytest.mark.filterwarnings("ignore:.*set_default_tensor_type:UserWarning")


@pytest.fixture(autouse=True)
def _as_before():
    yield
    torch.set_default_tensor_type(torch.FloatTensor)


@pytest.mark.parametrize("kind", ["torch.cuda.HalfTensor", torch.cuda.DoubleTensor, torch.cuda.FloatTensor])
def test_it_is_a_type_and_a_device(gpu, kind):
    torch.set_default_tensor_type(kind)
    name = kind if isinstance(kind, str) else f"torch.cuda.{kind.__name__}"
    assert {torch.zeros(1).type(), torch.tensor([1.0]).type(), torch.Tensor(2).type(), torch.empty(2).type()} == {name}
    assert torch.nn.Linear(2, 2).weight.type() == name
    assert torch.zeros(1, device="cpu").device == torch.device("cpu")
    assert torch.arange(3).type() == "torch.cuda.LongTensor"


def test_a_type_of_the_host_takes_it_back(gpu):
    torch.set_default_tensor_type(torch.cuda.FloatTensor)
    torch.set_default_tensor_type("torch.DoubleTensor")
    assert (torch.zeros(1).type(), torch.Tensor(1).type()) == ("torch.DoubleTensor", "torch.DoubleTensor")


def test_it_ends_with_the_gpu():
    with SimulatedGPU("a100-80gb", cuda=True):
        torch.set_default_tensor_type(torch.cuda.FloatTensor)
    assert (torch.zeros(1).type(), torch.Tensor(1).type()) == ("torch.FloatTensor", "torch.FloatTensor")
    assert torch.get_default_device() == torch.device("cpu")
