"""What a simulated GPU observes of a program's memory: whom it serves, whatever modules and tensors it is made of."""

import torch
from torch import nn

from utils import Ledger

# ----------------------------------------------------------------------------- modules and tensors of every kind


def test_a_lazy_module_has_no_memory_until_its_first_forward(gpu):
    net = nn.Sequential(nn.LazyLinear(4, device=gpu.device), nn.ReLU())
    optimizer = torch.optim.SGD(net.parameters())
    assert len(Ledger.now(gpu)) == 0
    assert net(torch.randn(2, 3, device=gpu.device)).shape == (2, 4)
    parameters = {(row.module, row.name): row.shape for row in Ledger.now(gpu).of(category="parameters")}
    assert parameters == {("0", "weight"): (4, 3), ("0", "bias"): (4,)}
    assert optimizer is not None


def test_a_tensor_that_says_what_it_pleases_does_not_stop_a_forward(gpu):
    class Odd(torch.Tensor):
        def untyped_storage(self):
            raise LookupError("none of your business")

    class Net(nn.Module):
        def forward(self, x):
            return x.shape[0]

    x = torch.Tensor._make_subclass(Odd, torch.ones(3, device=gpu.device))
    assert Net()(x) == 3
    assert len(Ledger.now(gpu)) == 1
