"""Compiled functions on a simulated GPU run as they are written, and are flagged; on the CPU they are compiled."""

import pytest
import torch
from torch import nn

from utils import SimulatedGPU


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.filterwarnings("ignore:Using `torch.compile.module.`")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_compiled_model_counts_as_it_is_written_and_is_flagged(gpu, backend):
    model = nn.Sequential(nn.Linear(8, 16, device=gpu.device), nn.GELU())
    with pytest.warns(UserWarning, match="A compiled function runs as it was written"):
        y = torch.compile(model, backend=backend)(torch.zeros(4, 8, device=gpu.device))
    y.sum().backward()
    assert gpu.unmodelled == {"torch.compile"}


def test_on_the_cpu_it_is_compiled_meanwhile(gpu):
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("eager")
    torch.compile(lambda x: x * 2 + 1, backend=counter)(torch.zeros(3))
    assert counter.frame_count == 1
    assert not gpu.unmodelled


def test_a_compiler_of_the_program_s_own_is_called(gpu):
    called = []

    def own(graph, _inputs):
        called.append(graph)
        return graph.forward

    torch.compile(lambda x: x * 2 + 1, backend=own)(torch.zeros(3, device=gpu.device))
    assert len(called) == 1
    assert not gpu.unmodelled


@pytest.mark.filterwarnings("ignore:torch.compile is not followed")
def test_fullgraph_asks_for_no_compiled_frame_of_what_is_not_compiled(gpu):
    double = torch.compile(lambda x: x * 2, fullgraph=True)
    for _ in range(2):
        assert double(torch.ones(3, device=gpu.device)).shape == (3,)


def _called(x):
    return x * 2


@pytest.mark.filterwarnings("ignore:torch.compile is not followed")
@pytest.mark.parametrize("cuda", [False, True])
def test_what_is_only_wrapped_is_not_flagged(cuda):
    with SimulatedGPU("a100-80gb", cuda=cuda) as gpu:
        model = nn.Linear(8, 8, device=gpu.device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        wrapped = [torch.compile(_called), torch.compile(dynamic=True)(_called), torch.compile(model)]
        wrapped += [torch.compile(optimizer.step), torch._dynamo.optimize("inductor")(_called)]
        model.compile()
        (_called(model.weight) + 1).sum().backward()
        assert not gpu.unmodelled
        assert "torch.compile" not in gpu.operations
        wrapped[0](model.weight)
        assert gpu.unmodelled == (set() if cuda else {"torch.compile"})
        assert "torch.compile" in gpu.operations or not cuda


@pytest.mark.filterwarnings("ignore:torch.compile is not followed")
@pytest.mark.filterwarnings("ignore:Using `torch.compile.module.`")
@pytest.mark.parametrize(
    "compiled",
    [
        lambda x: torch.compile(_called)(x),
        lambda x: torch.compile(dynamic=False)(_called)(x=x),
        lambda x: torch._dynamo.optimize("inductor")(_called)(x),
        lambda x: torch.compile(lambda: x * 2)(),
        lambda x: torch.compile(torch.optim.SGD([x.requires_grad_()], 0.1).zero_grad)(),
        lambda x: torch.compile(nn.Linear(3, 3, device=x.device))(x),
    ],
)
def test_each_call_on_the_gpu_is_flagged(gpu, compiled):
    compiled(torch.ones(3, device=gpu.device))
    assert gpu.unmodelled == {"torch.compile"}


@pytest.mark.parametrize(
    "make", [lambda x: lambda: x * 2, lambda x: (lambda optimizer: lambda: optimizer.step())(torch.optim.SGD([x], 0.1))]
)
def test_a_function_without_arguments_that_works_on_the_cpu_is_not_flagged(gpu, make):
    torch.compile(make(torch.ones(3, requires_grad=True)), backend="eager")()
    assert not gpu.unmodelled
