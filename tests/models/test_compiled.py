"""What torch.compile keeps, by memory budget: on a simulated GPU and for real on the CPU; and that it compiles."""

import gc

import pytest
import torch
from compilers_bound import least_flops
from recorded_regions import SHAPES, made
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from every_byte.remedies.operations import FlopCounter, record
from utils import Block, SavedTensorContext, SimulatedGPU
from utils.models.compiled import Compiled, first_to_go, missing_compiler


def requested(gpu) -> int:
    return gpu.memory_stats()["requested_bytes.all.current"]


def step(gpu, run, x) -> tuple[int, int, int]:
    """Bytes held at the start of backward beside the output, the peak in bytes, and the FLOPs of the whole step."""
    gpu.load_libraries()
    gc.collect()  # what was compiled before lies in reference cycles
    before = requested(gpu)
    gpu.reset_peak_memory_stats()
    with FlopCounter() as counter:
        output = run(x)
        held = requested(gpu) - before - output.nbytes
        output.sum().backward()
    return held, gpu.memory_stats()["requested_bytes.all.peak"] - before, counter.total


@pytest.fixture(scope="module")
def by_budget():
    """Of a block compiled with each budget: bytes and FLOPs of two steps, and the graphs."""
    from utils import SimulatedGPU

    found = {}
    with SimulatedGPU("a100-80gb") as gpu:
        for budget in (None, 1.0, 0.7, 0.4, 0.0):
            block, x = made(gpu, "flash")
            run = block if budget is None else Compiled(block, budget)
            steps = [step(gpu, run, x) for _ in range(2)]
            found[budget] = steps, None if budget is None else run.graphs
            block.zero_grad()
        region = record(*made(gpu, "flash"))
        unmodelled = gpu.unmodelled
    return found, region, unmodelled


@pytest.mark.nightly
def test_budgets_hold_less_and_less(by_budget):
    found, region, _ = by_budget
    held = [found[budget][0][1][0] for budget in (1.0, 0.7, 0.4, 0.0)]
    assert held == sorted(held, reverse=True)
    assert len(set(held)) == 4
    assert held[0] == found[None][0][1][0] == region.saved_bytes, "1 keeps what eager mode keeps, in this block"
    assert held[-1] == 0, "0 keeps the input alone"


@pytest.mark.nightly
def test_budgets_compute_more_and_more(by_budget):
    found, region, _ = by_budget
    flops = [found[budget][0][1][2] for budget in (None, 1.0, 0.7, 0.4, 0.0)]
    assert flops[0] == flops[1] == flops[2], "down to a point elementwise operations alone run again"
    assert flops[2] < flops[3] < flops[4]
    assert flops[4] - flops[0] == region.flops


@pytest.mark.long
def test_the_partitioner_reaches_the_bound(by_budget):
    """Its choice costs no more than any choice could that holds as much."""
    found, region, _ = by_budget
    eager = found[None][0][1][2]
    for budget in (1.0, 0.7, 0.4, 0.0):
        held, _, flops = found[budget][0][1]
        assert flops - eager == least_flops(region, held)


@pytest.mark.long
def test_what_is_only_traced_is_not_counted(by_budget):
    """The first step compiles: no byte and no FLOP more than in the second, but for the gradients that it makes."""
    found, _, unmodelled = by_budget
    for (first, second), _graphs in found.values():
        assert first[0] == second[0]
        assert first[2] == second[2]
    assert not unmodelled


@pytest.mark.long
def test_what_is_kept_and_what_runs_again(by_budget):
    graphs = {budget: graphs for budget, (_, graphs) in by_budget[0].items()}
    assert {"gelu 1", "addmm 3", "add 1", "native_layer_norm 2[0]"} <= set(graphs[1.0].kept)
    assert graphs[1.0].run_again == ()
    assert "gelu 1" in graphs[0.7].run_again
    assert "addmm 3" not in graphs[0.7].run_again
    assert graphs[0.0].kept == ()
    assert {"addmm 1", "_scaled_dot_product_flash_attention 1", "gelu 1"} <= set(graphs[0.0].run_again)
    assert "addmm 4" not in graphs[0.0].run_again, "nothing needs what it made"


@pytest.mark.nightly
def test_elementwise_operations_go_first(gpu):
    block, x = made(gpu, "flash")
    found = first_to_go(lambda: block, (x,), (1.0, 0.7, 0.4, 0.0))
    products = {name: budget for name, budget in found.items() if name.startswith(("addmm", "_scaled"))}
    assert found["gelu 1"] == found["native_layer_norm 1"] == 0.7
    assert products.pop("addmm 4") is None, "nothing needs what it made"
    assert set(products.values()) <= {0.4, 0.0}
    assert list(found)[0] == "native_layer_norm 1"


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(set(SHAPES) - {"flash"}))
def test_other_attentions_compile_too(gpu, name):
    """Each with the kernel that CUDA takes: PyTorch would compile attention in mathematics for meta tensors."""
    block, x = made(gpu, name)
    region = record(block, x)
    compiled = Compiled(block)
    held, _, _ = step(gpu, compiled, x)
    ran = {one.operator for one in region.operations if one.flops}
    traced = {node.target for node in compiled.graphs.forward.graph.nodes}
    assert ran <= traced
    assert 0 < held <= region.saved_bytes


class Hides(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **kwargs or {})


@pytest.mark.long
@pytest.mark.parametrize("mode", [Hides, lambda: FlopCounterMode(display=False)])
def test_a_mode_that_hides_from_the_compiler_is_no_silent_failure(gpu, mode):
    block, x = made(gpu, "flash")
    with mode(), pytest.raises(RuntimeError, match="torch.compile must have compiled function: it ran as it is"):
        Compiled(block)(x)
    compiled = Compiled(block)
    compiled(x)
    assert compiled.graphs.forward is not compiled.graphs.backward


@pytest.mark.nightly
def test_for_real_on_the_cpu():
    """The same gradients to the last bits that matter, less and less kept, and budgets do not mix."""
    torch.manual_seed(0)
    block = Block(16, 2, "gelu", kind="explicit", context_length=8, dtype=torch.float64)
    x = torch.randn(2, 8, 16, dtype=torch.float64)
    block(x).sin().sum().backward()
    eager = [parameter.grad.clone() for parameter in block.parameters()]
    kept = {}
    for budget in (1.0, 0.5, 0.0):
        block.zero_grad()
        with SavedTensorContext(ignored_tensors=[x, *block.parameters(), *block.buffers()]) as saved:
            output = Compiled(block, budget)(x)
            kept[budget] = saved.saved_tensor_mem
        output.sin().sum().backward()
        torch.testing.assert_close([parameter.grad for parameter in block.parameters()], eager)
    assert kept[1.0] > kept[0.5] > kept[0.0]


def test_a_function_without_gradients_has_one_graph():
    compiled = Compiled(torch.sin)
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin())
    with pytest.raises(ValueError, match="one graph for forward and one for backward: got 1"):
        compiled.graphs  # noqa: B018


def test_settings_are_checked():
    with pytest.raises(ValueError, match=r"budget must lie in \[0, 1\]: got budget=2"):
        Compiled(torch.sin, 2)
    with pytest.raises(ValueError, match='backend must be "aot_eager" or "inductor": got backend=\'eager\''):
        Compiled(torch.sin, backend="eager")
    with pytest.raises(RuntimeError, match="graphs are there after the first call"):
        Compiled(torch.sin).graphs  # noqa: B018
    with pytest.raises(ValueError, match='device must be "cpu" or "cuda": got device=\'meta\''):
        missing_compiler("meta")


def test_a_missing_compiler_is_named():
    from torch._inductor import config

    with config.patch({"cpp.cxx": ("no-such-compiler",)}):
        assert missing_compiler().startswith("inductor finds no C++ compiler")

    with config.patch({"cpp.cxx": ("no-such-compiler",)}):
        with pytest.raises(RuntimeError, match='"inductor" cannot compile: inductor finds no .* "aot_eager" needs no'):
            Compiled(torch.sin, backend="inductor")(torch.ones(2))
        assert torch.equal(Compiled(torch.sin)(torch.ones(2)), torch.ones(2).sin())


@pytest.fixture
def inductor():
    """The backend "inductor" where it finds a compiler, with settings under which it takes a second, not a minute."""
    if reason := missing_compiler():
        pytest.skip(reason)
    from torch._inductor import config

    with config.patch({"cpp_cache_precompile_headers": False, "cpp.simdlen": 1}):
        yield "inductor"


LOADING = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # inductor's own, as it loads


@pytest.mark.nightly
@LOADING
def test_inductor_keeps_less_as_well(inductor):
    def function(x):
        return x.sin().exp().cos()

    for _ in range(2):  # the second time, what it compiled is in PyTorch's caches
        x = torch.linspace(0, 1, 64).requires_grad_()
        compiled = Compiled(function, backend=inductor)
        result = compiled(x)
        assert len(compiled.graphs.kept) == 0, "three cheap operations run again from x"
        result.sum().backward()
        eager = torch.autograd.grad(function(x).sum(), x)[0]
        torch.testing.assert_close(x.grad, eager)


W = torch.linspace(-1, 1, 64, dtype=torch.float64).view(8, 8).requires_grad_()


def drops(x: torch.Tensor, p: float = 0.5) -> torch.Tensor:
    return ((F.dropout((x @ W).sin(), p).exp() @ W).sin()).sum()


def gradient_is_right(function) -> bool:
    """Whether backward gives what the differences of forward are, under one seed."""

    def value(step: float) -> torch.Tensor:
        torch.manual_seed(0)
        moved = x.detach().clone()
        moved[0, 0] += step
        return function(moved.requires_grad_())

    x = torch.linspace(0, 1, 32, dtype=torch.float64).view(4, 8).requires_grad_()
    torch.manual_seed(0)
    result = function(x)
    torch.manual_seed(1)
    result.backward()
    with torch.no_grad():
        difference = (value(1e-6) - value(-1e-6)) / 2e-6
    return torch.isclose(x.grad[0, 0], difference, rtol=1e-5).item()


@pytest.mark.long
@LOADING
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.nightly)])
def test_dropout_that_backward_would_draw_anew_is_refused(backend, request):
    """What PyTorch compiles with less than the default has other gradients than forward, and nothing says so."""
    from torch._functorch import config

    if backend == "inductor":
        request.getfixturevalue("inductor")
    assert gradient_is_right(drops)
    assert gradient_is_right(Compiled(drops, 1, backend))
    with pytest.raises(RuntimeError, match="with budget=0, backward would draw random numbers anew"):
        gradient_is_right(Compiled(drops, 0, backend))

    torch._dynamo.reset()
    name = "aot_eager_decomp_partition" if backend == "aot_eager" else backend
    with config.patch(activation_memory_budget=0, enable_autograd_cache=False):
        assert not gradient_is_right(torch.compile(drops, backend=name)), "the day it is, nothing need be refused"


def test_what_is_refused_stays_refused():
    compiled = Compiled(drops, 0)
    x = torch.ones(4, 8, dtype=torch.float64, requires_grad=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="silently give wrong gradients: take budget=1, or set the probability"):
            compiled(x)
    without = Compiled(lambda x: drops(x, 0.0), 0)
    without(x).backward()
    assert without.graphs.run_again
    assert not without.graphs.drawn_again


@pytest.mark.long
def test_attention_that_drops_is_refused(gpu):
    block, x = made(gpu, "flash, dropout")
    block.attention.dropout.p = block.mlp.dropout.p = 0.0  # what is left is attention's own
    with pytest.raises(RuntimeError, match=r"draw random numbers anew \(_scaled_dot_product_flash_attention 1\)"):
        Compiled(block, 0)(x)
    block.eval()
    assert Compiled(block, 0)(x).requires_grad


def test_graphs_are_those_of_the_last_shapes():
    def compiled_for(compiled: Compiled) -> int:
        return compiled.graphs.forward.graph.find_nodes(op="placeholder")[0].meta["val"].shape[0]

    def given(n: int) -> torch.Tensor:
        return torch.ones(n, requires_grad=True)

    compiled, other = Compiled(lambda x: x.sin().exp()), Compiled(torch.sin)
    compiled(given(2))
    compiled(given(3))
    assert compiled_for(compiled) == 3
    other(given(4))  # PyTorch forgets all that it has compiled
    compiled(given(5))
    assert (compiled_for(compiled), compiled_for(other)) == (5, 4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what PyTorch's compiler imports
@pytest.mark.parametrize("cuda", [False, True])
def test_a_loss_on_a_simulated_gpu_has_a_backward(cuda):
    """PyTorch has kernels for a loss on meta tensors as a whole, and with these would trace no backward of it."""
    with SimulatedGPU("a100-80gb", cuda=cuda) as gpu:
        x, weight = (torch.zeros(n, 32, device=gpu.device, requires_grad=True) for n in (64, 100))
        compiled = Compiled(lambda x, weight, y: F.cross_entropy(x @ weight.T, y))
        compiled(x, weight, torch.zeros(64, dtype=torch.long, device=gpu.device)).backward()
    assert compiled.graphs.kept == ("_log_softmax 1", "nll_loss_forward 1[1]")
    assert x.grad.shape == x.shape
