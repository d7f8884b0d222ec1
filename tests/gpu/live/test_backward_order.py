"""Which node of a backward made an allocation: a call stack tells its name alone, autograd itself which one it runs."""

import weakref

import pytest
import torch
from torch import nn
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import TorchDispatchMode

from every_byte.gpu.live.backward_order import BackwardOrder, converted_by
from every_byte.ledger.attribution import NEVER
from every_byte.ledger.events import Event
from every_byte.ledger.saved_tensors import node_name


class Doubled(torch.autograd.Function):
    """Makes two tensors in backward."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return (gradient + gradient) * 1.0


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


class Ran(TorchDispatchMode):
    """What a backward allocates: size, what the call stack says of the node, and which node autograd says it runs.

    Autograd adds gradients up when the node that made the last of them has returned: there is none on the stack.
    """

    def __init__(self):
        super().__init__()
        self.events: list[Event] = []
        self.nodes: list[tuple[str, str] | None] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        given = {x.untyped_storage()._cdata for x in args if isinstance(x, torch.Tensor)}
        for x in made if isinstance(made, tuple) else (made,):
            if isinstance(x, torch.Tensor) and x.untyped_storage()._cdata not in given:
                self._note(x, func is torch.ops.aten.add.Tensor)
        return made

    def _note(self, x: torch.Tensor, is_a_sum: bool) -> None:
        node = torch._C._current_autograd_node()
        is_python_s = isinstance(node, BackwardCFunction)
        called = "" if is_a_sum and not is_python_s else "PyNode" if is_python_s else node_name(node)
        self.events.append(Event("alloc", x.untyped_storage().nbytes(), len(self.events), node=called))
        self.nodes.append((node_name(node), f"node {node._sequence_nr()}") if called else None)


def run(roots: list[torch.Tensor]) -> tuple[list, list]:
    """What the order says of each allocation of a backward, (node, module), and what autograd says."""
    order = BackwardOrder(0, roots, lambda number: f"node {number}")
    gradients = [torch.ones_like(root) for root in roots]
    with Ran() as ran:
        torch.autograd.backward(roots, gradients)
    order.label((event, False) for event in ran.events)
    return [(event.node, event.module) for event in ran.events], ran.nodes


def linear(*sizes):
    return nn.Sequential(*(nn.Linear(*pair) for pair in zip(sizes, sizes[1:])))


def layers_of_several_sizes():
    return [linear(8, 16, 4, 2)(torch.ones(3, 8))]


def layers_of_one_size():
    """Of each, the gradients of input and weight have one size: 256 bytes."""
    return [linear(8, 8, 8, 8)(torch.ones(8, 8, requires_grad=True))]


def without_the_input_s_gradient():
    return [linear(8, 8, 8)(torch.ones(8, 8))]


def frozen_weights():
    net = linear(8, 8, 8, 8)
    for layer in net:
        layer.weight.requires_grad_(False)
    return [net(torch.ones(8, 8, requires_grad=True))]


def another_kind_between():
    return [nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.Softmax(1))(torch.ones(8, 8))]


def nodes_that_make_nothing():
    """Views, and the sum of all, whose gradient is one number's view."""
    x = torch.ones(4, 8, requires_grad=True)
    return [((x * 2).view(8, 4).unsqueeze(0).expand(2, 8, 4) * 3).sum()]


def two_branches():
    one, other = nn.Linear(8, 4), nn.Linear(8, 4)
    x = torch.ones(3, 8, requires_grad=True).exp()
    return [one(x).relu() * other(x)]


def a_weight_used_twice():
    layer = nn.Linear(8, 8)
    return [layer(layer(torch.ones(2, 8, requires_grad=True)))]


def parts_of_several_sizes():
    """The gradients of a node's results: of its second result the second."""
    few, many = torch.ones(8, requires_grad=True).exp().split([2, 6])
    return [few.sigmoid(), many.sigmoid()]


def two_roots():
    x = torch.ones(5, requires_grad=True)
    return [x.exp(), (x * 2).sigmoid()]


def functions_of_python():
    return [Tripled.apply(Doubled.apply(torch.ones(5, requires_grad=True)).exp())]


PROGRAMS = [
    layers_of_several_sizes,
    layers_of_one_size,
    without_the_input_s_gradient,
    frozen_weights,
    another_kind_between,
    nodes_that_make_nothing,
    two_branches,
    a_weight_used_twice,
    parts_of_several_sizes,
    two_roots,
    functions_of_python,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_allocation_is_that_of_the_node_that_autograd_runs(program):
    found, expected = run(program())
    assert len(expected) >= 2
    known = [one for one in zip(found, expected) if one[1] is not None]
    assert [one for one, _ in known] == [other for _, other in known]


def test_sums_of_gradients_belong_to_the_node_that_ran_last():
    """Of which a call stack says nothing: the place of the sum is right behind it."""
    x = torch.ones(5, requires_grad=True).exp()
    found, expected = run([(x * 2).relu() + x.sigmoid()])
    at = expected.index(None)
    assert found[at] == found[at - 1] != found[at + 1]


def test_before_the_first_node_nothing_is_said():
    order = BackwardOrder(0, [torch.ones(3, requires_grad=True).exp()], lambda number: "its module")
    events = [Event("alloc", 12, 0), Event("alloc", 12, 1, node="ExpBackward0"), Event("alloc", 4, 2)]
    order.label((event, False) for event in events)
    assert [(event.node, event.module) for event in events] == [("", ""), *[("ExpBackward0", "its module")] * 2]


def test_what_no_node_of_the_graph_is_called_changes_nothing():
    order = BackwardOrder(0, [torch.ones(3, requires_grad=True).exp()], lambda number: "its module")
    event = Event("alloc", 12, 0, node="CosBackward0", module="as it was")
    order.label([(event, False)])
    assert (event.node, event.module) == ("CosBackward0", "as it was")


def labelled(root, *events, again=()):
    """The numbers of the nodes by which these allocations, (bytes, name on the call stack), are labelled."""
    made = [Event("alloc", n_bytes, i, node=node, module="-1") for i, (n_bytes, node) in enumerate(events)]
    BackwardOrder(0, [root], str).label((event, event.allocation in again) for event in made)
    return [int(event.module) for event in made]


def twice():
    """Two nodes, ExpBackward0, each with a gradient of 12 bytes; and their numbers, as autograd runs them."""
    x = torch.ones(3, requires_grad=True)
    y = x.exp().exp()
    last = y.grad_fn
    return y, (last._sequence_nr(), last.next_functions[0][0]._sequence_nr())


def test_what_runs_again_has_its_own_module_and_uses_up_no_gradient():
    """A checkpoint computes inside of the node that wants something: as large as a gradient, and none."""
    y, (last, first) = twice()
    made, temporary = (12, "ExpBackward0"), (100, "ExpBackward0")
    assert labelled(y, made, made, made, temporary, made, again=(0, 2)) == [-1, last, -1, last, first]


def test_an_allocation_of_another_size_stays_with_its_node():
    """As a temporary does, though the next node has the same name."""
    y, (last, first) = twice()
    made, temporary = (12, "ExpBackward0"), (100, "ExpBackward0")
    assert labelled(y, made, temporary, made, temporary, made) == [last, last, first, first, first]


def test_a_second_of_the_gradient_s_size_stays_where_the_next_node_has_another_name():
    y = torch.ones(3, requires_grad=True).exp().sigmoid()
    names = ["SigmoidBackward0", "SigmoidBackward0", "ExpBackward0"]
    one, two, three = labelled(y, *((12, name) for name in names))
    assert one == two > three


def test_a_name_that_no_node_has_takes_no_node_s_place():
    y, (last, first) = twice()
    found = labelled(y, (12, "ExpBackward0"), (12, "CosBackward0"), (12, "ExpBackward0"))
    assert (found[0], found[2]) == (last, first)


def test_labels_can_be_asked_for_again():
    """As they are when there are more events."""
    y, numbers = twice()
    order = BackwardOrder(0, [y], str)
    for _ in range(2):
        events = [Event("alloc", 12, i, node="ExpBackward0") for i in range(2)]
        order.label((event, False) for event in events)
        assert tuple(int(event.module) for event in events) == numbers


def test_it_begins_where_it_was_told_and_has_no_end_yet():
    order = BackwardOrder(17, [], str)
    assert (order.start, order.end) == (17, NEVER)
    order.label([])


def test_nothing_of_the_graph_is_kept():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    gone = weakref.ref(y)
    order = BackwardOrder(0, [y], str)
    del y
    assert gone() is None
    assert order.end == NEVER


# --------------------------------------------------------------------------------------------------------- conversions


def leaf(dtype=torch.float32, requires_grad=True):
    return torch.ones(2, dtype=dtype, requires_grad=requires_grad)


def test_a_float32_leaf_that_is_converted_is_found():
    weight = leaf()
    assert converted_by(weight.to(torch.bfloat16).grad_fn) is weight
    assert converted_by(weight.half().grad_fn) is weight


@pytest.mark.parametrize(
    "tensor",
    [
        pytest.param(leaf(torch.float64).half(), id="of float64"),
        pytest.param((leaf() * 2).half(), id="a result"),
        pytest.param(leaf() * 2, id="no conversion"),
        pytest.param(leaf(requires_grad=False).half(), id="without a graph"),
        pytest.param(leaf().half().t(), id="a view of one"),
        pytest.param(leaf(), id="the leaf"),
    ],
)
def test_nothing_else_is_one(tensor):
    assert converted_by(tensor.grad_fn) is None
