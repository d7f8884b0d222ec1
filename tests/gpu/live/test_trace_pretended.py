"""A live GPU's trace is read from PyTorch's memory history: on a pretended card as on a simulated one, to the byte."""

import pickle
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from pretended_card import moved, pretended_card
from torch import nn
from torch.utils.checkpoint import checkpoint

from every_byte.ledger.levels import levels
from every_byte.units import MiB
from utils import Ledger, LiveGPU, SimulatedGPU, Trace
from utils.models.checkpointing import Checkpoint

HALF = torch.bfloat16
WORKSPACE = "cuBLAS workspace"  # the card takes none
RUNS = {
    "of the book": Checkpoint(random_state=False),
    "of PyTorch": partial(checkpoint, use_reentrant=False, preserve_rng_state=False),
    "reentrant": partial(checkpoint, use_reentrant=True, preserve_rng_state=False),
}


class Loss(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.net = nn.Sequential(*layers)

    def forward(self, x):
        return self.net(x).float().square().mean()


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(64), nn.Linear(64, 64)

    def forward(self, x):
        return x + F.gelu(self.linear(self.norm(x)))


class Checkpointed(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.body, self.run = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 64)), RUNS[name]

    def forward(self, x):
        return self.run(self.body, x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.project = nn.Linear(64, 3 * 64, bias=False), nn.Linear(64, 64)
        self.register_buffer("mask", torch.ones(16, 16).tril() == 0)

    def forward(self, x):
        q, k, v = (part.view(2, 16, 4, 16).transpose(1, 2) for part in self.qkv(x.view(2, 16, 64)).split(64, dim=2))
        scores = (q @ k.transpose(-2, -1) / 4).masked_fill(self.mask, 0).relu()
        return self.project((scores @ v).transpose(1, 2).reshape(32, 64))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), foreach=False)


def train(*layers, optimizer=sgd, micro_batches=1, is_cast=False, set_to_none=True):
    """A program of two steps: `on_gpu` moves a tensor there, `mark` names an instant, `autocast` is that of the GPU."""

    def program(on_gpu, mark, autocast):
        model = moved(Loss(*(make() for make in layers)), on_gpu)
        updates = optimizer(model)
        mark("model")
        for step in (1, 2):
            for micro in range(micro_batches):
                x = on_gpu(torch.ones(32, 64))
                with autocast(HALF) if is_cast else nullcontext():
                    loss = model(x)
                mark(f"{step}.{micro} forward")
                loss.backward()
                mark(f"{step}.{micro} backward")
            updates.step()
            mark(f"{step} step")
            updates.zero_grad(set_to_none=set_to_none)
            mark(f"{step} zero_grad")

    return program


wide, narrow = partial(nn.Linear, 64, 64), partial(nn.Linear, 64, 3)


class Product(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(10, 30))

    def forward(self, x):
        return (x @ self.weight).exp()


def gradients_by_hand(on_gpu, mark, _autocast):
    """A gradient that is given, one that is returned, a graph that is kept for another backward."""
    product, x = moved(Product(), on_gpu), on_gpu(torch.ones(20, 10)).requires_grad_()
    given = on_gpu(torch.ones(20, 30))
    y = product(x)
    mark("forward")
    y.backward(given, retain_graph=True)
    mark("kept")
    (of_x,) = torch.autograd.grad(y, [x], given)
    mark("returned")
    del y
    mark("gone")
    of_x.zero_()


def two_graphs(on_gpu, mark, _autocast):
    """Nodes of one name in one module are counted on while the graph before is there, and anew when it is gone."""
    product, given = moved(Product(), on_gpu), on_gpu(torch.ones(20, 30))
    one, two = (product(on_gpu(torch.ones(20, 10)).requires_grad_()) for _ in range(2))
    mark("two")
    del one
    mark("one is gone")
    three = product(on_gpu(torch.ones(20, 10)))
    mark("and another")
    two.backward(given)
    four = product(on_gpu(torch.ones(20, 10)))
    mark("after backward")
    del three, four


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Function(nn.Module):
    def forward(self, x):
        return Doubled.apply(x)


class Parts(nn.Module):
    def forward(self, x):
        few, many = (x * 2).relu_().split([5, 15])
        return torch.cat([many.t().contiguous().sigmoid_(), few.t()], 1)


def in_place_and_views(on_gpu, mark, _autocast):
    x = on_gpu(torch.ones(20, 10)).requires_grad_()
    y = Parts()(x)
    mark("forward")
    y.sum().backward()
    mark("backward")
    x.grad = None
    mark("without the gradient")


PROGRAMS = {
    "MLP": train(wide, nn.GELU, narrow),
    "AdamW": train(wide, nn.GELU, narrow, optimizer=adamw),
    "micro-batches, zeros": train(wide, nn.GELU, narrow, micro_batches=3, set_to_none=False),
    "residual": train(wide, Residual, Residual, narrow),
    "attention": train(wide, Attention, narrow),
    "autocast": train(wide, wide, nn.GELU, narrow, is_cast=True),
    "autocast, micro-batches": train(wide, nn.GELU, narrow, is_cast=True, micro_batches=2),
    **{f"checkpoint {name}": train(wide, *[partial(Checkpointed, name)] * 2, narrow) for name in RUNS},
    "checkpoint, autocast": train(wide, *[partial(Checkpointed, "of PyTorch")] * 2, narrow, is_cast=True),
    "functions of Python's": train(wide, Function, nn.GELU, Function),
    "gradients by hand": gradients_by_hand,
    "in place, views": in_place_and_views,
    "two graphs": two_graphs,
}


@pytest.fixture(scope="module", params=PROGRAMS)
def both(request):
    """The traces of one program on the pretended card and on a simulated one."""
    program = PROGRAMS[request.param]
    with pretended_card() as card, LiveGPU() as gpu:
        program(card.tensor, gpu.trace.mark, partial(torch.autocast, "cpu"))
        live = gpu.trace
    with SimulatedGPU("a100-80gb") as gpu:
        program(lambda x: x.to(gpu.device), gpu.trace.mark, gpu.autocast)
    return live, replace(gpu.trace, look=None)


def marks(trace):
    return [event.name for event in trace if event.action == "mark"]


def without_workspace(parts):
    return {name: n_bytes for name, n_bytes in parts.items() if n_bytes and name != WORKSPACE}


def allocations(trace):
    """But for sums of gradients: autograd adds up in place unless it is a subclass, as the card's tensors are."""
    made = [event for event in trace if event.action == "alloc" and event.name != WORKSPACE]
    return [event for event in made if (event.phase, event.operation) != ("backward", "aten::add.Tensor")]


@pytest.mark.sampled(4)
def test_the_ledger_is_that_of_the_simulation_at_every_mark(both):
    live, simulated = both
    assert marks(live) == marks(simulated)
    for mark in marks(simulated):
        assert Ledger.at(live, mark).parts == without_workspace(Ledger.at(simulated, mark).parts), mark


@pytest.mark.long
def test_rows_have_the_modules_names_and_slots_of_the_simulation(both):
    def rows(trace, mark):
        columns = "category", "module", "name", "operation", "dtype", "n_bytes", "slack_bytes", "kept_for"
        for row in Ledger.at(trace, mark):
            if row.category != WORKSPACE:
                slots = [(slot.module, slot.node, slot.slot, slot.nth) for slot in row.slots]
                yield *(getattr(row, column) for column in columns), slots

    for mark in marks(both[1]):
        live, simulated = (list(rows(trace, mark)) for trace in both)
        assert live == simulated, mark


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("column", ["n_bytes", "operation", "phase", "module", "node", "block_bytes"])
def test_each_allocation_is_labelled_as_in_the_simulation(both, column):
    found, expected = ([getattr(event, column) for event in allocations(trace)] for trace in both)
    assert found == expected


@pytest.mark.sampled(4)
def test_what_each_allocation_is_shows_right_behind_it_as_in_the_simulation(both):
    """From when on a graph keeps something, and what is temporary: at every instant, not at marks alone."""

    def behind_each(trace):
        ours = set(map(id, allocations(trace)))
        return [without_workspace(level) for event, level in zip(trace, levels(trace)[1:]) if id(event) in ours]

    live, simulated = map(behind_each, both)
    assert live == simulated


class Marked(nn.Module):
    """Marks instants within its forward."""

    def __init__(self, mark):
        super().__init__()
        self.mark = mark

    def forward(self, x):
        y = x.exp()
        self.mark("exp is made")
        z = y.tanh() * y
        self.mark("mul is made")
        return z.sin().sum()


def test_within_a_module_a_slot_keeps_a_tensor_from_the_first_allocation_on_at_which_autograd_had_made_its_node():
    """On a live GPU: from the first one after an instant at which that was seen."""

    def program(on_gpu, mark):
        for _ in range(2):
            marked, x = Marked(mark), on_gpu(torch.ones(4, 8)).requires_grad_()
            marked(x).backward()

    def kept(trace, mark):
        """By whom, when one more allocation has been made, for which a node was made, too."""
        at = trace.position(mark)
        assert trace.events[at + 1].action == "alloc"
        return [set(row.kept_for) - {"TanhBackward0.result", "SinBackward0.self"} for row in Ledger.at(trace, at + 2)]

    with pretended_card() as card, LiveGPU() as gpu:
        program(card.tensor, gpu.trace.mark)
        live = gpu.trace
    with SimulatedGPU("a100-80gb") as gpu:
        program(lambda x: x.to(gpu.device), gpu.trace.mark)
    exp, tanh = {"ExpBackward0.result"}, set()
    factors = [exp | {"MulBackward0.other"}, {"MulBackward0.self"}]
    expected = {"exp is made": [exp, tanh], "mul is made": [*factors, set(), set()]}
    for trace in (live, gpu.trace):
        for mark, rows in expected.items():
            assert kept(trace, mark)[-len(rows) :] == rows, (trace.origin, mark)


@pytest.mark.long
@pytest.mark.parametrize("name", ["functions of Python's", "checkpoint reentrant", "autocast"])
def test_to_read_it_now_and_then_changes_nothing(name):
    def account(look):
        with pretended_card() as card, LiveGPU() as gpu:
            trace = gpu.trace

            def mark(name):
                trace.mark(name)
                look(trace)

            PROGRAMS[name](card.tensor, mark, partial(torch.autocast, "cpu"))
        labels = [(event.node, event.module, event.phase) for event in allocations(trace)]
        return labels, [Ledger.at(trace, mark).parts for mark in marks(trace)]

    assert account(len) == account(lambda trace: None)


@pytest.mark.parametrize("name", ["MLP", "checkpoint of PyTorch", "autocast"])
def test_what_was_there_before_changes_nothing(name):
    """Of what others have left on the card something goes meanwhile."""

    def account(n_others):
        with pretended_card() as card:
            others = [card.tensor(torch.ones(700 * (n + 1))) for n in range(n_others)]
            with LiveGPU() as gpu:
                PROGRAMS[name](card.tensor, gpu.trace.mark, partial(torch.autocast, "cpu"))
                del others[1:3]
        assert gpu.trace.n_found == n_others
        made = allocations(gpu.trace)[n_others:]
        ledgers = [Ledger.at(gpu.trace, gpu.trace.events.index(event) + 1).of_the_program for event in made]
        rows = [(*row.kept_for, row.category, row.module, row.name) for ledger in ledgers for row in ledger]
        return rows, [(event.phase, event.module, event.node, event.operation) for event in made]

    assert account(5) == account(0)


def test_nobody_s_memory_is_left(both):
    live, _ = both
    assert not {"unattributed", "other tensors"} & Ledger.at_peak(live).parts.keys()
    assert Ledger.at(live).allocated_bytes == 0


def test_a_copy_is_a_trace_as_it_was(both):
    live, _ = both
    last = marks(live)[-1]
    for copy in (pickle.loads(pickle.dumps(live)), replace(live, look=None)):
        assert type(copy) is Trace
        assert (copy.origin, copy.gpu, copy.n_found) == ("measured", "a pretended card", 0)
        assert Ledger.at(copy, last).parts == Ledger.at(live, last).parts


def test_where_the_cache_was_emptied_shows_and_where_the_allocator_made_room_by_itself_does_not():
    with pretended_card() as card, LiveGPU() as gpu:
        for n_bytes in (300 * MiB, 700 * MiB, 800 * MiB, 400 * MiB):  # for the third one the second's segment must go
            card.free(card.malloc(n_bytes))
            if n_bytes == 300 * MiB:
                card.allocator.empty_cache()
                gpu.trace.mark("emptied")
        card.allocator.empty_cache()
        live = gpu.trace
        assert [event.action for event in live].count("segment_free") == 3
        at = live.position("emptied")
        assert live.emptied == [at, len(live)]
        copy = pickle.loads(pickle.dumps(live))
    assert type(copy) is Trace
    assert copy.emptied == [at, len(copy)]
