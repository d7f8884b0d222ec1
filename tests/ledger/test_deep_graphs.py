"""Deep autograd graphs go without overflowing the stack, and before anything on the GPU can tell.

An overflow ends the process: each long chain has one of its own, whose stack is 3 MiB, not the usual 8, for speed.
"""

import subprocess
import sys

import pytest
import torch
from counted_work import calls_in

from every_byte.gpu.observer.graph_walk import nodes_behind
from every_byte.ledger import deep_graphs
from every_byte.ledger.deep_graphs import HARMLESS, let_go, looked_at
from every_byte.ledger.saved_tensors import graph_nodes
from utils import SimulatedGPU

NIGHTLY = pytest.mark.nightly
CHECKPOINT = "lambda y: checkpoint(torch.sin, y, use_reentrant=False).cos()"
CHAIN = """
import resource
resource.setrlimit(resource.RLIMIT_STACK, (3 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))
import torch
from torch.utils.checkpoint import checkpoint
from utils import SimulatedGPU
from every_byte.ledger.saved_tensors import graph_nodes

def chain(device, n, step):
    y = torch.ones(4, device=device, requires_grad=True)
    for _ in range(n):
        y = step(y)
    return y.sum()
"""
ON_THE_GPU = """
with SimulatedGPU("a100-80gb") as gpu:
    before = gpu.memory_allocated()
    y = chain(gpu.device, {n}, {step})
    y.backward({how})
    del y
    print(gpu.memory_allocated() - before)
"""
AFTER_CLOSING = """
with SimulatedGPU("a100-80gb") as gpu:
    y = chain(gpu.device, 25_000, lambda y: y * 2)
    y.backward()
del y
print("gone")
"""
WALKED = """
y = chain("meta", 25_000, lambda y: y * 2)
graph_nodes(y)
del y
print("gone")
"""


def printed(program: str) -> str:
    run = subprocess.run([sys.executable, "-c", CHAIN + program], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, f"ended with {run.returncode}: {run.stderr[-500:]}"
    return run.stdout.strip()


@pytest.mark.parametrize(
    ("n", "step", "how"),
    [
        pytest.param(25_000, "lambda y: y * 2", "", id="mul", marks=NIGHTLY),
        pytest.param(25_000, "lambda y: y + y", "", id="gradients meet", marks=NIGHTLY),
        pytest.param(25_000, "lambda y: y.sin()", "retain_graph=True", id="retained", marks=NIGHTLY),
        pytest.param(12_000, CHECKPOINT, "", id="checkpoint", marks=NIGHTLY),
    ],
)
def test_a_long_chain_is_deleted_after_backward(n, step, how):
    """Of all that it held, no block is in use: the gradient went with the leaf."""
    assert printed(ON_THE_GPU.format(n=n, step=step, how=how)) == "0"


@pytest.mark.parametrize(
    "program",
    [pytest.param(AFTER_CLOSING, id="after closing", marks=NIGHTLY), pytest.param(WALKED, id="walked", marks=NIGHTLY)],
)
def test_a_long_chain_is_deleted_elsewhere(program):
    assert printed(program) == "gone"


@pytest.fixture
def every_node(monkeypatch):
    """Hold each node looked at."""
    monkeypatch.setattr(deep_graphs, "HARMLESS", -1)
    monkeypatch.setattr(deep_graphs, "_ONE_IN_A_THOUSAND", deep_graphs._RANGE)


@pytest.mark.parametrize("reads", [True, False], ids=["before an answer", "before an allocation"])
def test_what_was_held_is_freed(every_node, reads):
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.ones(256, device=gpu.device, requires_grad=True)
        y = x.exp().exp().sum()
        y.backward(retain_graph=True)
        x.grad, trace = None, gpu.trace
        position = len(trace.events)
        del y
        assert [event.n_bytes for event in trace.events[position:]] == [4]
        if reads:
            assert gpu.memory_allocated() == 1024
        else:
            torch.empty(8, device=gpu.device)
        happened = [(event.action, event.n_bytes) for event in trace.events[position:]]
        assert happened[:3] == [("free", 4), ("free", 1024), ("free", 1024)]
        assert happened[3:] == ([] if reads else [("alloc", 32), ("free", 32)])


def test_a_graph_that_is_still_reachable_stays(every_node):
    x = torch.ones(4, requires_grad=True)
    y = x.exp()
    z = y.sin().cos()
    for node in reversed(graph_nodes(z)):
        looked_at(node)
    del node
    del z
    let_go()
    assert [node.name() for node in deep_graphs._held.nodes.values() if node.name() == "ExpBackward0"]
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def _chain(gpu, n_nodes: int) -> None:
    """A long graph without a module; it goes while other memory is asked for."""
    y = torch.ones(4, device=gpu.device, requires_grad=True)
    for _ in range(n_nodes):
        y = y * 2
    y.sum().backward()


def test_of_the_held_nodes_of_one_graph_only_the_first_is_asked(every_node):
    with SimulatedGPU("a100-80gb") as gpu:
        _chain(gpu, 3)
        asked = {n: calls_in(lambda n=n: _chain(gpu, n), of="getrefcount") for n in (50, 100)}
        assert asked[50] > 0
        assert asked[100] <= 2.1 * asked[50]


def test_a_graph_that_another_now_leads_to_is_no_longer_asked(every_node):
    let_go()
    x = torch.ones(4, requires_grad=True)
    y = x.exp().sin()
    held_before = set(deep_graphs._held.first)
    list(nodes_behind([y.grad_fn]))
    assert set(deep_graphs._held.first) - held_before == {id(y.grad_fn)}
    z = y.cos()
    list(nodes_behind([z.grad_fn]))
    assert set(deep_graphs._held.first) - held_before == {id(z.grad_fn)}
    del z
    let_go()
    assert set(deep_graphs._held.first) - held_before == {id(y.grad_fn)}
    del y
    let_go()
    assert set(deep_graphs._held.nodes) <= held_before


def test_only_few_nodes_of_a_deep_graph_are_held_and_evenly():
    y = x = torch.ones(1, requires_grad=True)
    first = torch.autograd._get_sequence_nr()
    for _ in range(HARMLESS + 20_000):
        y = y * 2
    held_before = set(deep_graphs._held.nodes)
    graph_nodes(y)
    numbers = [n._sequence_nr() - first for key, n in deep_graphs._held.nodes.items() if key not in held_before]
    assert numbers == sorted(numbers, reverse=True)
    assert max(numbers) < 20_000
    steps = [a - b for a, b in zip([20_000, *numbers], [*numbers, 0], strict=True)]
    assert 15 <= len(numbers) <= 25
    assert max(steps) < 3_000
    del y, x
    let_go()
    assert set(deep_graphs._held.nodes) <= held_before
