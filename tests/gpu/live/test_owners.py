"""Whom a live GPU's memory served, where its history must help: first gradients, autocast's copies, other threads."""

import threading

import torch
from pretended_card import CAST, CardStorage, CardTensor
from torch import nn

from utils import Ledger, LiveGPU
from utils.models.checkpointing import Checkpoint

HALF = torch.bfloat16


def rows(trace, mark, category):
    return [(row.module, row.name, row.n_bytes) for row in Ledger.at(trace, mark).of(category=category)]


def at_the_first_node(trace):
    """The ledger when backward has made its first allocation in a node."""
    first = next(i for i, event in enumerate(trace) if event.action == "alloc" and event.node)
    return Ledger.at(trace, first + 1)


# ---------------------------------------------------------------------------------- the gradient a backward starts from


def test_the_1_that_pytorch_makes_is_temporary(card, live):
    x = card.tensor(torch.ones(6)).requires_grad_()
    x.exp().exp().sum().backward()
    ledger = at_the_first_node(live.trace)
    assert [row.operation for row in ledger.of(category="temporaries")][:1] == ["ones_like"]
    assert not ledger.of(category="gradients").rows


def test_the_1_that_pytorch_makes_is_temporary_whatever_was_there_before(card):
    others = [card.tensor(torch.ones(700)) for _ in range(3)]
    with LiveGPU() as gpu:
        test_the_1_that_pytorch_makes_is_temporary(card, gpu)
    assert len(others) == 3


def test_one_that_the_program_has_made_of_ones_is_a_gradient(card, live):
    x = card.tensor(torch.ones(6)).requires_grad_()
    given = torch.ones_like(x)
    x.exp().exp().backward(given)
    assert [row.operation for row in at_the_first_node(live.trace).of(category="gradients")] == ["ones_like"]


def test_one_that_is_given_is_a_gradient(card, live):
    x, given = card.tensor(torch.ones(6)).requires_grad_(), card.tensor(torch.ones(6))
    x.exp().exp().backward(given)
    assert [row.n_bytes for row in at_the_first_node(live.trace).of(category="gradients")] == [24]


def test_one_that_the_program_has_just_made_is_a_gradient_if_it_was_made_otherwise(card, live):
    x = card.tensor(torch.ones(6)).requires_grad_()
    y = x.exp().exp()
    given = y.detach() * 2
    y.backward(given)
    assert [row.operation for row in at_the_first_node(live.trace).of(category="gradients")] == ["mul.Tensor"]


def test_one_that_is_something_else_stays_that(card, live):
    """As where a parameter is the gradient that is given."""
    x, weight = card.tensor(torch.ones(6)).requires_grad_(), nn.Parameter(card.tensor(torch.ones(6)))
    y = nn.Tanh()(x * weight).exp()
    y.backward(weight.detach())
    ledger = at_the_first_node(live.trace)
    assert [row.n_bytes for row in ledger.of(category="parameters")] == [24]
    assert not ledger.of(category="gradients").rows


# ---------------------------------------------------------------------------------------------------- autocast's copies


class Net(nn.Module):
    def __init__(self, function=None, *sizes):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in zip(sizes, sizes[1:]))
        self.function = function or (lambda self, x: x)

    def forward(self, x):
        return self.function(self, x)


def through_all(net, x):
    for layer in net.layers:
        x = layer(x)
    return x


def test_copies_that_a_graph_keeps_and_copies_that_autocast_holds_are_its_parameters_copies(card, live):
    """No gradient is wanted of the input: no graph keeps the first weight's copy, and no bias's."""
    net = card.model(Net(through_all, 8, 16, 4))
    x = card.tensor(torch.ones(3, 8))
    with torch.autocast("cpu", HALF):
        y = net(x)
        live.trace.mark("inside")
    live.trace.mark("outside")
    half = {("layers.0", "weight", 256), ("layers.0", "bias", 32), ("layers.1", "weight", 128), ("layers.1", "bias", 8)}
    assert set(rows(live.trace, "inside", "autocast copies")) == half
    assert rows(live.trace, "outside", "autocast copies") == [("layers.1", "weight", 128)]
    assert y.dtype is HALF


def test_a_copy_for_an_operator_alone_is_none(card, live):
    """The input's, as large as the weight's, which autocast holds: the second call casts the input alone."""
    layer, x = card.model(nn.Linear(8, 8)), card.tensor(torch.ones(8, 8))
    with torch.autocast("cpu", HALF), torch.no_grad():
        y = [layer(x), layer(x)]
    made = [i for i, event in enumerate(live.trace) if event.operation == "aten::_to_copy" and event.phase == "forward"]
    last = [Ledger.at(live.trace, position + 1).rows[-1] for position in made]
    assert [(row.category, row.n_bytes) for row in last] == [
        ("autocast copies", 16),
        ("autocast copies", 128),
        ("temporaries", 128),
        ("temporaries", 128),
    ]
    assert len(y) == 2


def test_two_layers_of_one_size_have_a_copy_each(card, live):
    net = card.model(Net(through_all, 8, 8, 8))
    x = card.tensor(torch.ones(3, 8))
    with torch.autocast("cpu", HALF):
        y = net(x)
        live.trace.mark("inside")
    found = rows(live.trace, "inside", "autocast copies")
    assert sorted(found) == [(f"layers.{i}", name, n) for i in (0, 1) for name, n in (("bias", 16), ("weight", 128))]
    assert y is not None


def test_what_the_program_itself_converts_is_no_copy(card, live):
    """The same node keeps it, and the same leaf is behind; but autocast has not made it."""

    def by_hand(net, x):
        return x @ net.layers[0].weight.to(HALF).t()

    net = card.model(Net(by_hand, 8, 8))
    x = card.tensor(torch.ones(3, 8).to(HALF)).requires_grad_()
    y = net(x)
    live.trace.mark("forward")
    assert rows(live.trace, "forward", "autocast copies") == []
    assert [row.operation for row in Ledger.at(live.trace, "forward").of(category="activations")] == ["_to_copy"]
    assert y is not None


def test_what_autocast_makes_of_a_result_that_a_graph_keeps_is_an_activation(card, live):
    net = card.model(Net(through_all, 8, 8))
    x = card.tensor(torch.ones(3, 8)).requires_grad_()
    with torch.autocast("cpu", HALF):
        y = net(x * 2)
        live.trace.mark("inside")
    assert 48 in [row.n_bytes for row in Ledger.at(live.trace, "inside").of(category="activations")]
    assert {n for _, _, n in rows(live.trace, "inside", "autocast copies")} == {128, 16}
    assert y is not None


def test_a_copy_that_a_checkpoint_makes_is_one_in_forward_and_when_it_runs_again(card, live):
    run = Checkpoint(random_state=False)
    net = card.model(Net(lambda net, x: run(net.layers[0], x), 8, 8))
    x = card.tensor(torch.ones(3, 8)).requires_grad_()
    with torch.autocast("cpu", HALF):
        y = net(x)
        live.trace.mark("inside")
    y.sum().backward()
    assert sorted(rows(live.trace, "inside", "autocast copies")) == [
        ("layers.0", "bias", 16),
        ("layers.0", "weight", 128),
    ]
    peak = Ledger.at_peak(live.trace, after="inside")
    assert {"autocast copies", "gradients"} & peak.parts.keys()


# -------------------------------------------------------------------------------------------------------- other threads


def on_another_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


class Waits(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        on_another_thread(self.function)
        return x * 2


def test_what_another_thread_makes_meanwhile_is_nobody_s_temporary(card, live):
    kept = []

    def makes():
        kept.append(card.malloc(3000, ["at::_ops::ones::call(", "_bootstrap"]))
        card.free(card.malloc(5000, ["at::_ops::ones::call(", "_bootstrap"]))
        live.trace.mark("meanwhile")

    x = card.tensor(torch.ones(4))
    y = Waits(makes)(x)
    assert rows(live.trace, "meanwhile", "unattributed") == [("", "", 3000)]
    gone = next(i for i, event in enumerate(live.trace) if event.n_bytes == 5000)
    assert rows(live.trace, gone + 1, "unattributed") == [("", "", 3000), ("", "", 5000)]
    assert y is not None


def test_what_its_own_thread_makes_meanwhile_is_temporary(card, live):
    def forward(net, x):
        card.free(card.malloc(5000, ["at::_ops::ones::call("]))
        return x * 2

    y = Net(forward)(card.tensor(torch.ones(4)))
    made = next(i for i, event in enumerate(live.trace) if event.n_bytes == 5000)
    assert rows(live.trace, made + 1, "temporaries") == [("", "", 5000)]
    assert y is not None


def test_opened_on_another_thread_it_is_that_thread_s(card):
    """What is its own, and what another's, no call stack tells then."""
    traces = []

    def forward(net, x):
        card.free(card.malloc(5000, ["at::_ops::ones::call(", "_bootstrap"]))
        return net.layers[0](x)

    def program():
        with LiveGPU() as gpu:
            model, x = card.model(Net(forward, 8, 8)), card.tensor(torch.ones(3, 8))
            model(x).sum().backward()
            traces.append(gpu.trace)

    on_another_thread(program)
    peak = Ledger.at_peak(*traces)
    assert [row.n_bytes for row in peak.of(category="temporaries")] == [5000]
    assert peak.parts.keys() == {"parameters", "inputs", "temporaries", "slack"}


# ------------------------------------------------------------------------------------------------ what was there before


def test_what_was_there_is_what_looking_around_finds_or_nobody_s(card):
    model = card.model(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
    model(card.tensor(torch.ones(3, 8))).sum().backward()
    optimizer.step()
    raw, y = card.malloc(5000), model(card.tensor(torch.ones(3, 8)).requires_grad_()).sin()
    with LiveGPU() as gpu:
        ledger = Ledger.now(gpu)
    assert [row.n_bytes for row in ledger.of(category="unattributed")] == [5000]
    named = {(row.category, row.name, row.n_bytes) for row in ledger if row.name}
    assert named == {
        (category, name + more, n_bytes)
        for name, n_bytes in (("weight", 256), ("bias", 32))
        for category, more in (("parameters", ""), ("gradients", ""), ("optimizer state", ".momentum_buffer"))
    }
    assert {slot for row in ledger for slot in row.kept_for} >= {"AddmmBackward0.mat1", "SinBackward0.self"}
    assert ledger.requested_bytes == card.allocator.requested_bytes
    assert (raw, y) != (None, None)


def test_a_workspace_is_called_so(card, live):
    block = card.malloc(8_519_680, ["at::cuda::getNewWorkspace()", "at::_ops::addmm::call(at::Tensor const&)"])
    assert Ledger.now(live).parts == {"cuBLAS workspace": 8_519_680}
    card.free(block)


def test_a_resized_parameter_is_still_one(card, live):
    """As FSDP2's, which go and come back."""
    values = torch.ones(16)
    tensor = CardTensor(values, storage := CardStorage(card, 64, ["at::_ops::empty::call(", CAST]))
    layer = nn.Linear(4, 4)
    layer.weight = nn.Parameter(tensor)
    Ledger.now(live)
    before = storage.data_ptr()
    storage.resize_(128)
    assert storage.data_ptr() != before
    ledger = Ledger.now(live)
    assert [(row.category, row.name, row.n_bytes) for row in ledger] == [("parameters", "weight", 128)]
