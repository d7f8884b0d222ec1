"""What a graph keeps is kept until backward has run its node or nothing holds it any more, and no longer."""

from functools import partial

import pytest
import torch
from counted_work import calls_in
from torch import nn
from torch.utils.checkpoint import checkpoint

from utils import Ledger

ROWS = 4 * 8 * 4  # bytes of an activation


def two_parts(gpu):
    """A body and a head, each a Linear and a Tanh."""
    return [nn.Sequential(nn.Linear(8, 8, device=gpu.device), nn.Tanh()) for _ in range(2)]


def data(gpu, **options):
    return torch.randn(4, 8, device=gpu.device, **options)


def kept_for(ledger, tensor, gpu):
    """The slots that keep a tensor, in the order of forward."""
    (number,) = gpu._observer.numbers_of(tensor)
    (row,) = ledger.of(allocation=number)
    return row.kept_for


# ------------------------------------------------------------------------------------- graphs that go without backward


def test_of_graphs_that_are_dropped_only_the_last_keeps_what_they_shared(gpu):
    net, x = nn.Linear(8, 8, device=gpu.device), data(gpu)
    for i in range(3):
        y = net(x)
        assert kept_for(Ledger.now(gpu), x, gpu) == ("AddmmBackward0.mat1",), i
    gpu.trace.mark("three")
    assert kept_for(Ledger.at(gpu.trace, "three"), x, gpu) == ("AddmmBackward0.mat1",)
    del y
    assert kept_for(Ledger.now(gpu), x, gpu) == ()


def test_what_a_dropped_head_kept_is_kept_for_it_until_then(gpu):
    body, head = (nn.Linear(8, 8, device=gpu.device) for _ in range(2))
    features = body(data(gpu))
    logits = head(features)
    gpu.trace.mark("both")
    del logits
    gpu.trace.mark("body alone")
    assert kept_for(Ledger.at(gpu.trace, "both"), features, gpu) == ("AddmmBackward0.mat1",)
    assert Ledger.at(gpu.trace, "both").parts["activations"] == ROWS
    for ledger in (Ledger.at(gpu.trace, "body alone"), Ledger.now(gpu)):
        assert kept_for(ledger, features, gpu) == ()
        assert "activations" not in ledger.parts
        assert ledger.parts["outputs"] == ROWS


def test_a_dropped_custom_function_lets_go(gpu):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    x = data(gpu, requires_grad=True)
    y = Doubled.apply(x)
    assert kept_for(Ledger.now(gpu), x, gpu) == ("DoubledBackward.tensors[0]",)
    del y
    assert kept_for(Ledger.now(gpu), x, gpu) == ()


def test_a_node_that_somebody_holds_keeps_on(gpu):
    x = data(gpu, requires_grad=True)
    node = x.sin().grad_fn
    Ledger.now(gpu)
    y = x.cos()
    assert kept_for(Ledger.now(gpu), x, gpu) == ("CosBackward0.self",), "nothing led to the sine's node"
    z = x.sin()
    node = z.grad_fn
    Ledger.now(gpu)
    del z
    assert kept_for(Ledger.now(gpu), x, gpu) == ("CosBackward0.self", "SinBackward0.self")
    del node, y
    assert kept_for(Ledger.now(gpu), x, gpu) == ()


def test_dropped_graphs_do_not_count_as_namesakes(gpu):
    net, x = nn.Linear(8, 8, device=gpu.device), data(gpu)
    for _ in range(3):
        y = net(x)
        (row,) = Ledger.now(gpu).of(category="inputs")
        assert [slot.nth for slot in row.slots if slot.node == "AddmmBackward0"] == [1]
        del y


def test_a_dropped_checkpoint_does_not_count_as_a_namesake(gpu):
    body, x = two_parts(gpu)[0], data(gpu, requires_grad=True)
    for _ in range(2):
        y = checkpoint(body, x, use_reentrant=False)
        Ledger.now(gpu)
        assert [node.nth for node in gpu.trace.owners.nodes if node.name == "TanhBackward0"][-1] == 1
        del y


# ---------------------------------------------------------------------------------------- backwards that run some nodes


def freed_and_kept(ledger):
    return [slot for row in ledger for slot in row.kept_for]


def test_a_gradient_with_respect_to_a_middle_frees_what_ran(gpu):
    body, head = two_parts(gpu)
    x = data(gpu)
    h = body(x)
    loss = head(h).sum()
    before = ["AddmmBackward0.mat2", "AddmmBackward0.mat1", "TanhBackward0.result", "AddmmBackward0.mat1"]
    assert freed_and_kept(Ledger.now(gpu)) == [*before, "TanhBackward0.result"]
    torch.autograd.grad(loss, h)
    assert freed_and_kept(Ledger.now(gpu)) == ["AddmmBackward0.mat1", "TanhBackward0.result"], "the body's"
    assert loss.grad_fn is not None


def test_a_backward_into_some_parameters_frees_what_ran(gpu):
    body, head = two_parts(gpu)
    x = data(gpu)
    loss = head(body(x)).sum()
    loss.backward(inputs=list(head.parameters()))
    assert freed_and_kept(Ledger.now(gpu)) == ["AddmmBackward0.mat1", "TanhBackward0.result"], "the body's"
    assert loss.grad_fn is not None


@pytest.mark.parametrize("partly", [True, False])
def test_a_backward_that_retains_the_graph_frees_nothing(gpu, partly):
    body, head = two_parts(gpu)
    x = data(gpu)
    loss = head(body(x)).sum()
    before = freed_and_kept(Ledger.now(gpu))
    gpu.trace.mark("forward")
    loss.backward(inputs=list(head.parameters()) if partly else None, retain_graph=True)
    assert len(before) == 5
    assert freed_and_kept(Ledger.now(gpu)) == before
    assert freed_and_kept(Ledger.at(gpu.trace, "forward")) == before, "not twice, as if it had been released and found"


def test_a_backward_through_a_checkpoint_into_some_parameters_frees_it(gpu):
    body, head = two_parts(gpu)
    h = body(data(gpu))
    loss = checkpoint(head, h, use_reentrant=False).sum()
    Ledger.now(gpu)
    (node,) = [n for n in gpu.trace.owners.nodes if n.name == "AddmmBackward0" and n.nth == 2]
    loss.backward(inputs=list(head.parameters()))
    assert node.released_at <= len(gpu.trace)
    assert freed_and_kept(Ledger.now(gpu)) == ["AddmmBackward0.mat1", "TanhBackward0.result"], "the body's"
    assert loss.grad_fn is not None


def test_a_backward_that_fails_has_freed_what_it_ran(gpu):
    body, head = two_parts(gpu)
    x = data(gpu)
    h = body(x)
    loss = head(h).sum()

    def fail(_):
        raise ValueError("stop")

    h.register_hook(fail)
    with pytest.raises(ValueError, match="stop"):
        loss.backward()
    assert freed_and_kept(Ledger.now(gpu)) == ["AddmmBackward0.mat1", "TanhBackward0.result"], "the body's"
    assert loss.grad_fn is not None


# ---------------------------------------------------------------------------------------- graphs that grow call by call


def _recurrent(cell_of, gpu, n_turns: int) -> None:
    """A cell that is given its own result, so that each call's graph ends in those of all before."""
    cell, x = cell_of(8, 8, device=gpu.device), data(gpu)
    state = x
    for _ in range(n_turns):
        state = cell(x, state)


def _in_place(gpu, n_turns: int) -> None:
    """Results that are changed in place before the next call reads them."""
    net, h = nn.Linear(8, 8, device=gpu.device), data(gpu)
    for _ in range(n_turns):
        h = net(h)
        h.mul_(2)
        h[0].add_(1)


def _summed(gpu, n_turns: int) -> None:
    """A loss that is added up over calls."""
    net, x = nn.Sequential(nn.Linear(8, 8, device=gpu.device), nn.Tanh()), data(gpu)
    total = torch.zeros((), device=gpu.device)
    for _ in range(n_turns):
        total = total + net(x).sum()
    total.backward()


@pytest.mark.long
@pytest.mark.parametrize(
    "loop",
    [partial(_recurrent, nn.GRUCell), partial(_recurrent, nn.RNNCell), _in_place, _summed],
    ids=["GRUCell", "RNNCell", "in place", "summed"],
)
def test_a_loop_of_twice_as_many_calls_is_at_most_twice_the_work(gpu, loop):
    loop(gpu, 3)
    work = {n: calls_in(lambda n=n: loop(gpu, n)) for n in (40, 80)}
    assert work[80] <= 2.1 * work[40]


def test_what_was_changed_in_place_between_two_calls_is_kept_for_the_nodes_of_both(gpu):
    first, second = two_parts(gpu)
    x = data(gpu)
    h = first(x)
    h[0].mul_(3)  # from here on the slice's node is in front of the first part's
    y = second(h)
    assert freed_and_kept(Ledger.now(gpu)) == freed_and_kept(looked_at_once(gpu, y))


def looked_at_once(gpu, y) -> Ledger:
    """The ledger where another walk reads every node anew."""
    walk = gpu._observer.graph
    walk.release(walk.walk([y.grad_fn])[0], gpu._memory.position())
    walk.walk([y.grad_fn])
    return Ledger.now(gpu)
