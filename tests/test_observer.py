"""What a simulated GPU observes of a program's memory: whom it serves, whatever modules and tensors it is made of."""

import copy
import pickle

import pytest
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


# --------------------------------------------------------------------------------------------- what is not modelled


def test_a_ledger_says_from_where_on_it_is_not_exact(gpu):
    x = torch.ones(4, 8, device=gpu.device)
    gpu.trace.mark("exact")
    with pytest.warns(UserWarning, match="aten::cumprod is not modelled"):
        y = x.cumprod(0)
    exact, not_exact = Ledger.at(gpu.trace, "exact"), Ledger.now(gpu)
    said = "not exact, what these take meanwhile is not known: aten::cumprod"
    assert (exact.unmodelled, not_exact.unmodelled) == ((), ("aten::cumprod",))
    assert "not exact" not in str(exact) + exact._repr_html_()
    tables = not_exact, not_exact.by("operation"), not_exact.by("operation").largest(1), not_exact - exact
    for table in (*tables, not_exact.of(operation="ones"), (not_exact - exact).by("operation")):
        assert str(table).splitlines()[-1] == said
        assert table._repr_html_().endswith(f"<p>{said}</p>")
    assert gpu.unmodelled == {"aten::cumprod"}
    assert y is not None


# ------------------------------------------------------------------------------------------------------------ copies


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_traces_and_ledgers_can_be_copied_and_pickled(gpu, copied):
    net = nn.Linear(8, 8, device=gpu.device)
    y = net(torch.randn(4, 8, device=gpu.device))
    ledger = Ledger.now(gpu)
    trace, same = copied(gpu.trace), copied(ledger)
    assert str(same) == str(ledger)
    assert same.rows == ledger.rows
    del y
    assert str(Ledger.at(trace)) == str(ledger), "a copy is of the moment at which it was made"
    assert Ledger.now(gpu).requested_bytes < ledger.requested_bytes
