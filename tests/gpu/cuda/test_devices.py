"""`torch.device`, where a bare number is a GPU."""

import copy
import pickle
from typing import get_args

import pytest
import torch

from utils import SimulatedGPU

BEFORE = torch.device


def take(n: int, device: torch.device):
    return torch.zeros(n, device=device)


def test_a_number_is_a_gpu(gpu):
    assert torch.device(0) == torch.device("cuda", 0) == torch.device("cuda:0") == torch.device(type="cuda", index=0)
    assert repr(torch.device(0)) == "device(type='cuda', index=0)"
    assert (torch.device(3).index, torch.device("cuda").index, torch.device("cpu").type) == (3, None, "cpu")


def test_what_is_made_is_pytorchs_own(gpu):
    assert type(torch.device(0)) is type(torch.zeros(1).device) is BEFORE
    assert isinstance(torch.device("cpu"), torch.device)
    assert issubclass(BEFORE, torch.device)
    assert not isinstance("cuda", torch.device)
    assert (torch.device.__name__, torch.device.__module__) == ("device", "torch")
    assert get_args(torch.device | str | None) == (torch.device, str, type(None))


def test_it_goes_through_copies(gpu):
    device = torch.device(0)
    assert pickle.loads(pickle.dumps(device)) == copy.deepcopy(device) == device
    assert {device: 1}[torch.zeros(1, device="cuda").device] == 1


def test_groups_of_tensors_tell_theirs(gpu):
    groups = torch.utils._foreach_utils._group_tensors_by_device_and_dtype(
        [[torch.zeros(2, device="cuda"), torch.zeros(2), torch.zeros(2, device="cuda")]]
    )
    assert sorted((str(device), len(tensors[0])) for (device, _), (tensors, _) in groups.items()) == [
        ("cpu", 1),
        ("cuda:0", 2),
    ]


def test_it_is_put_back():
    with SimulatedGPU("a100-80gb", cuda=True):
        assert torch.device is not BEFORE
    assert torch.device is BEFORE


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
def test_linearized_functions_name_their_device():
    """torch.func.linearize writes Python that names devices; so does torch.fx of whatever makes a tensor."""
    with SimulatedGPU("a100-80gb", cuda=True):
        x = torch.randn(12, 9, device="cuda")
        _, along = torch.func.linearize(lambda x: (x.sin() @ x.T).tanh(), x)
        assert along(x).shape == (12, 12)
        traced = torch.fx.symbolic_trace(lambda x: x + torch.ones(3, device=torch.device("cuda")))
        assert traced(torch.ones(3, device="cuda")).is_cuda
