"""What a simulated GPU observes of a program's memory: whom it serves, whatever modules and tensors it is made of."""

import copy
import gc
import pickle
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from utils import Ledger, SimulatedGPU


def categories(ledger):
    """The category of what each operation made, without the workspaces."""
    return [(row.operation, row.category) for row in ledger if row.category != "cuBLAS workspace"]


def category_of(tensor, ledger, gpu):
    (number,) = gpu._observer.numbers_of(tensor)
    (row,) = ledger.of(allocation=number)
    return row.category


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
    x = torch.ones(8, 4, device=gpu.device)
    gpu.trace.mark("exact")
    with pytest.warns(UserWarning, match="aten::linalg_householder_product is not"):
        y = torch.linalg.householder_product(x, x[0, :4])
    exact, not_exact = Ledger.at(gpu.trace, "exact"), Ledger.now(gpu)
    said = "not exact, what these take meanwhile is not known: aten::linalg_householder_product"
    assert (exact.unmodelled, not_exact.unmodelled) == ((), ("aten::linalg_householder_product",))
    assert "not exact" not in str(exact) + exact._repr_html_()
    tables = not_exact, not_exact.by("operation"), not_exact.by("operation").largest(1), not_exact - exact
    for table in (*tables, not_exact.of(operation="ones"), (not_exact - exact).by("operation")):
        assert str(table).splitlines()[-1] == said
        assert table._repr_html_().endswith(f"<p>{said}</p>")
    assert gpu.unmodelled == {"aten::linalg_householder_product"}
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


# -------------------------------------------------------------------------------------------- what stays what it is


def step_of_functions(gpu, look=lambda: None):
    """A step without modules: its weight, its data, and what else it holds."""
    w = torch.randn(8, 8, device=gpu.device, requires_grad=True)
    x = torch.randn(4, 8, device=gpu.device)
    h = x @ w
    look()
    k = h.sin()
    look()
    return w, x, h, k, k.cos().sum()


def test_data_is_inputs_before_during_and_after_a_step_without_modules(gpu):
    w, x, h, k, loss = step_of_functions(gpu)
    gpu.trace.mark("forward")
    loss.backward()
    made = gpu.trace.events.index(next(e for e in gpu.trace if e.allocation == gpu._observer.numbers_of(x)[0])) + 1
    for ledger in (Ledger.at(gpu.trace, made), Ledger.at(gpu.trace, "forward"), Ledger.now(gpu)):
        assert category_of(x, ledger, gpu) == "inputs"
    assert category_of(h, Ledger.at(gpu.trace, "forward"), gpu) == "activations"
    assert (w.grad, k) != (None, None)


def test_targets_are_inputs_for_a_function_as_for_a_module(gpu):
    net = nn.Linear(8, 2, device=gpu.device)
    for loss_of in (F.cross_entropy, nn.CrossEntropyLoss()):
        x, t = torch.randn(3, 8).to(gpu.device), torch.zeros(3, dtype=torch.long).to(gpu.device)
        loss = loss_of(net(x), t)
        assert category_of(t, Ledger.now(gpu), gpu) == "inputs"
        loss.backward()
        assert category_of(t, Ledger.now(gpu), gpu) == "inputs"
        assert category_of(x, Ledger.now(gpu), gpu) == "inputs"


def test_a_coefficient_is_no_input(gpu):
    net = nn.Linear(8, 2, device=gpu.device)
    scaler = torch.amp.GradScaler("cuda")
    loss = scaler.scale(net(torch.randn(3, 8, device=gpu.device)).sum())
    assert category_of(scaler._scale, Ledger.now(gpu), gpu) == "other tensors"
    loss.backward()
    assert category_of(scaler._scale, Ledger.now(gpu), gpu) == "other tensors"


def test_a_conversion_of_a_result_is_no_input(gpu):
    net = nn.Linear(8, 2, dtype=torch.bfloat16, device=gpu.device)
    x = torch.randn(3, 8, device=gpu.device).bfloat16()
    logits = net(x).float()
    y = logits.sin()
    assert category_of(logits, Ledger.now(gpu), gpu) == "activations"
    assert category_of(x, Ledger.now(gpu), gpu) == "inputs"
    y.sum().backward()
    assert category_of(logits, Ledger.now(gpu), gpu) == "other tensors"


def test_a_ledger_of_now_sees_what_changed_without_an_event(gpu):
    net, mask = nn.Linear(8, 8, device=gpu.device), torch.zeros(8, 8, device=gpu.device)
    assert category_of(mask, Ledger.now(gpu), gpu) == "other tensors"
    net.register_buffer("mask", mask)
    assert category_of(mask, Ledger.now(gpu), gpu) == "buffers"


def test_looking_changes_nothing():
    accounts = []
    for look in (False, True):
        with SimulatedGPU("a100-80gb") as gpu:
            held = step_of_functions(gpu, (lambda gpu=gpu: Ledger.now(gpu)) if look else lambda: None)
            accounts.append([categories(Ledger.now(gpu))])
            held[-1].backward()
            accounts[-1] += [categories(Ledger.now(gpu)), categories(Ledger.at(gpu.trace, 3))]
            del held
    assert accounts[0] == accounts[1]
    assert ("cos", "other tensors") not in accounts[0][0]


def test_a_result_that_nothing_follows_is_an_output_while_that_is_so(gpu):
    x = torch.ones(4, 8, device=gpu.device, requires_grad=True)
    y = x * 2
    assert category_of(y, Ledger.now(gpu), gpu) == "outputs"
    z = y + 1
    assert category_of(y, Ledger.now(gpu), gpu) == "other tensors"
    assert category_of(z, Ledger.now(gpu), gpu) == "outputs"


def test_a_name_that_is_learned_later_takes_the_place_of_none(gpu):
    net, x = nn.Linear(8, 8, device=gpu.device), torch.randn(4, 8, device=gpu.device)
    optimizer = torch.optim.SGD(net.parameters(), momentum=0.9)
    F.linear(x, net.weight, net.bias).sum().backward()
    optimizer.step()
    for category, suffix in (("parameters", ""), ("gradients", ""), ("optimizer state", ".momentum_buffer")):
        names = {row.name for row in Ledger.now(gpu).of(category=category)}
        assert names == {f"weight{suffix}", f"bias{suffix}"}, category


def test_of_two_names_the_one_further_inside_stays(gpu):
    net = nn.Linear(8, 8, bias=False, device=gpu.device)
    outer = nn.Sequential(nn.Sequential(net))
    x = torch.randn(4, 8, device=gpu.device)
    for module in (net, outer, net):
        module(x)
    assert [(r.module, r.name) for r in Ledger.now(gpu).of(category="parameters")] == [("0.0", "weight")]


def test_a_dataclass_of_results_is_entered(gpu):
    @dataclass
    class Results:
        logits: torch.Tensor
        loss: torch.Tensor

    class Net(nn.Module):
        def forward(self, x):
            return Results(x * 2, x.sum())

    out = Net()(torch.randn(4, 8, device=gpu.device))
    ledger = Ledger.now(gpu)
    assert [category_of(tensor, ledger, gpu) for tensor in (out.logits, out.loss)] == ["outputs", "outputs"]


def test_an_interrupted_forward_is_over_when_somebody_looks(gpu):
    class Interrupted(nn.Module):
        def forward(self, x):
            y = x * 2
            Ledger.now(gpu)
            assert gpu.trace.owners.spans[-1][1] > len(gpu.trace), "it is under way"
            assert category_of(y, Ledger.now(gpu), gpu) == "temporaries"
            raise KeyboardInterrupt

    x = torch.randn(3, device=gpu.device)
    with pytest.raises(KeyboardInterrupt):
        Interrupted()(x)
    Ledger.now(gpu)
    y = x * 2
    gpu.trace.mark("after")
    number = gpu._observer.numbers_of(y)[0]
    del y
    (after,) = Ledger.at(gpu.trace, "after").of(allocation=number)
    assert after.category == "other tensors"


def test_the_state_of_an_optimizer_that_was_loaded_is_known_before_its_first_step(gpu):
    net = nn.Linear(8, 8, bias=False, device=gpu.device)
    first, second = (torch.optim.SGD(net.parameters(), momentum=0.9) for _ in range(2))
    net(torch.randn(4, 8, device=gpu.device)).sum().backward()
    first.step()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    names = [row.name for row in Ledger.now(gpu).of(category="optimizer state")]
    assert names == ["weight.momentum_buffer"] * 2


# ------------------------------------------------------------------------------------------------ when it looks around


@pytest.fixture
def nobody_looks(monkeypatch):
    monkeypatch.setattr(gc, "get_objects", lambda: pytest.fail("looked at every object there is"))


def test_a_closed_gpu_was_looked_at_when_it_was_closed(request):
    """Its trace is a record from then on, also of what has gone since."""
    with SimulatedGPU("a100-80gb") as gpu:
        net = nn.Linear(4, 4, bias=False, device=gpu.device)
        y = net.weight * 2
    request.getfixturevalue("nobody_looks")
    assert gpu.trace.look is None
    assert [row.category for row in Ledger.now(gpu)] == ["parameters", "outputs"]
    del net, y
    assert [row.category for row in Ledger.at(gpu.trace, 3)] == ["parameters", "outputs"]
    assert len(Ledger.now(gpu)) == 0


def test_after_a_training_step_all_is_known(request):
    with SimulatedGPU("a100-80gb") as gpu:
        net = nn.Linear(4, 4, device=gpu.device)
        optimizer = torch.optim.Adam(net.parameters())
        x = torch.ones(2, 4, device=gpu.device)
        net(x).sum().backward()
        optimizer.step()
        request.getfixturevalue("nobody_looks")
    assert {row.category for row in Ledger.now(gpu)} == {"parameters", "gradients", "optimizer state", "inputs"} | {
        "cuBLAS workspace"
    }
    assert all(row.name for row in Ledger.now(gpu) if row.category in ("parameters", "gradients", "optimizer state"))


@pytest.mark.parametrize("how", ["buffer", "parameter"])
def test_an_input_that_a_module_has_taken_is_its_own_when_the_gpu_is_closed(how):
    with SimulatedGPU("a100-80gb") as gpu:
        net = nn.Linear(4, 4, bias=False, device=gpu.device)
        x = torch.ones(2, 4, device=gpu.device)
        net(x).sum().backward()
        if how == "buffer":
            net.register_buffer("seen", x)
        else:
            net.seen = nn.Parameter(x)
    assert [(row.category, row.name) for row in Ledger.now(gpu) if row.n_bytes == 32] == [(f"{how}s", "seen")]


def test_where_no_tensor_is_left_nobody_looks_for_one(gpu, nobody_looks):
    torch.ones(4, 4, device=gpu.device).mm(torch.ones(4, 4, device=gpu.device))
    assert [row.category for row in Ledger.now(gpu)] == ["cuBLAS workspace"]


def test_an_optimizer_without_states_of_its_own():
    """As torchao's CPUOffloadOptimizer, which is an Optimizer by name and never calls its `__init__`."""

    class Elsewhere(torch.optim.Optimizer):
        def __init__(self, params):
            self.inner = torch.optim.SGD(params, momentum=0.9, lr=0.1)

        @property
        def param_groups(self):
            return self.inner.param_groups

        def step(self):
            self.inner.step()

    with SimulatedGPU("a100-80gb") as gpu:
        weight = torch.nn.Parameter(torch.ones(1000, device=gpu.device))
        optimizer = Elsewhere([weight])
        weight.sum().backward()
        optimizer.step()
        assert Ledger.now(gpu).of(category="optimizer state").requested_bytes == 4000
