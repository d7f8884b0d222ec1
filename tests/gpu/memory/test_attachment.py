"""Which GPU is at work: on autograd's own threads too; and not where work on the machine's own is under way."""

import threading

import pytest
import torch
from running import ones
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils.flop_counter import FlopCounterMode

from every_byte.gpu.memory.attachment import attached, set_aside
from utils import SimulatedGPU

DEEP = 100  # autograd moves to a thread of its own where more than 60 backwards are nested


class Nested(torch.autograd.Function):
    """Its backward runs another backward, and so on, `depth` times; the innermost one has gradients that meet."""

    @staticmethod
    def forward(ctx, x, depth, threads):
        ctx.depth, ctx.threads = depth, threads
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        ctx.threads.add(threading.get_ident())
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            if ctx.depth:
                Nested.apply(y, ctx.depth - 1, ctx.threads).sum().backward()
            else:
                h = y * 2
                (h.exp() + h.sin()).sum().backward()
        return y.grad * gradient, None, None


def nested(device, depth):
    """The gradient, and on how many threads backwards ran."""
    x, threads = torch.full((300,), 0.1, device=device, requires_grad=True), set()
    Nested.apply(x, depth, threads).sum().backward()
    return x.grad, len(threads)


def shapes_of_the_innermost(trace, depth):
    """What the innermost backward allocated, by operation and size: what every depth must have in common."""
    found = [(e.action, e.operation, e.n_bytes) for e in trace if e.action in ("alloc", "free")]
    start = next(i for i, (_, operation, _) in enumerate(found) if operation == "aten::exp")
    return found[start : start + 12]


def test_deep_backwards_on_a_simulated_gpu_count_on_whatever_thread():
    runs = {}
    for depth in (3, DEEP):
        with SimulatedGPU() as gpu:
            n_threads = nested(gpu.device, depth)[1]
            assert n_threads == (1 if depth == 3 else 2)
            assert gpu.memory_allocated() == 0
            assert not gpu.unmodelled
            runs[depth] = shapes_of_the_innermost(gpu.trace, depth)
            n_allocations = sum(e.action == "alloc" for e in gpu.trace)
        assert n_allocations == 15 + 4 * depth, "each level adds a product, a sum, its gradient, a product"
    assert runs[3] == runs[DEEP], "gradients that meet are added in place there, too"


def test_deep_backwards_on_the_cpu_beside_a_simulated_gpu(gpu):
    alone, n_threads = nested("cpu", DEEP)
    assert n_threads == 2
    assert len(gpu.trace) == 0
    gpu.close()
    assert torch.equal(alone, nested("cpu", DEEP)[0])


def test_on_a_thread_of_the_engine_the_innermost_gpu_counts():
    with SimulatedGPU() as outer, SimulatedGPU("t4-16gb") as inner:
        nested(inner.device, DEEP)
        assert len(inner.trace) > DEEP
        assert len(outer.trace) == 0


def test_a_custom_backward_may_ask_for_the_gpu_on_the_engine_s_thread(gpu):
    made = []

    class Makes(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            made.append((threading.get_ident(), torch.ones(128, device=gpu.device)))
            return gradient

    class Deep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            with torch.enable_grad():
                y = ones(gpu, 3).requires_grad_()
                (Deep.apply(y, ctx.depth - 1) if ctx.depth else Makes.apply(y)).sum().backward()
            return gradient, None

    Deep.apply(ones(gpu, 3).requires_grad_(), DEEP).sum().backward()
    [(thread, tensor)] = made
    assert thread != threading.get_ident()
    assert gpu.memory_stats()["requested_bytes.all.current"] == tensor.nbytes


def test_set_aside(gpu):
    x = ones(gpu, 3)
    before = len(gpu.trace)
    with set_aside():
        assert attached() == []
        assert not _get_current_dispatch_mode_stack()
        y = torch.empty(3, device="meta") * 2  # PyTorch's own meta tensors, of no GPU
        assert y.shape == (3,)
    assert len(gpu.trace) == before
    x * 2
    assert len(gpu.trace) > before


def test_the_program_s_own_modes_stay_in_their_order():
    with FlopCounterMode(display=False) as below, SimulatedGPU() as gpu, FlopCounterMode(display=False) as above:
        stack = _get_current_dispatch_mode_stack()
        with set_aside():
            assert len(_get_current_dispatch_mode_stack()) == len(stack) - 1
            torch.ones(4, 4) @ torch.ones(4, 4)
        assert _get_current_dispatch_mode_stack() == stack
        ones(gpu, 4, 4) @ ones(gpu, 4, 4)
    assert above.get_total_flops() == 2 * 2 * 4**3, "both products"
    assert below.get_total_flops() == 2 * 4**3, "that on the CPU: on a simulated GPU nothing is computed"


def test_an_error_puts_it_all_back(gpu):
    with pytest.raises(ZeroDivisionError), set_aside():
        _ = 1 // 0
    ones(gpu, 3)
    assert gpu.memory_allocated() == 0
    assert len(gpu.trace) == 3


# ------------------------------------------------------------------------------------------------- the machine's own

needs_gpu = pytest.mark.gpu


def real_steps(checkpointed=False):
    """Two steps of a small model on the machine's own GPU, with autocast; what its allocator counted."""
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    from torch.utils.checkpoint import checkpoint

    layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(4)).cuda()
    optimizer = torch.optim.AdamW(layers.parameters(), fused=True)
    for _ in range(2):
        x = torch.ones(64, 256, device="cuda", requires_grad=True)
        with torch.autocast("cuda", torch.bfloat16):
            h = x
            for layer in layers:
                run = lambda h, layer=layer: torch.nn.functional.gelu(layer(h)) + h  # noqa: E731
                h = checkpoint(run, h, use_reentrant=False) if checkpointed else run(h)
            loss = torch.nn.functional.layer_norm(h, (256,)).square().sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    stats = torch.cuda.memory_stats()
    del layers, optimizer, x, h, loss
    # how often holes came and went depends on the order of frees that follow one another directly
    return {name: n for name, n in stats.items() if not name.startswith(("inactive_split", "num_"))}


@needs_gpu
@pytest.mark.parametrize("checkpointed", [False, True])
def test_real_training_beside_an_open_simulated_gpu(checkpointed):
    """Same allocations as without: no gradient is added out of place, no cast is ours."""
    torch.cuda.is_bf16_supported()  # before Ampere PyTorch tries it once, and allocates for that
    real_steps(checkpointed)
    alone = real_steps(checkpointed)
    with SimulatedGPU("h100-80gb") as gpu:
        model = torch.nn.Linear(4, 4, device=gpu.device)
        beside = real_steps(checkpointed)
        before = len(gpu.trace)
        model(ones(gpu, 2, 4)).sum().backward()
        assert len(gpu.trace) > before
        assert {event.operation for event in gpu.trace.events[:before]} <= {"", "aten::empty.memory_format"}
    assert beside == alone


def on_the_cpu(loss):
    loss.cpu().backward()


def from_an_edge(loss):
    torch.autograd.backward([torch.autograd.graph.get_gradient_edge(loss)], [torch.ones_like(loss)])


def allocations_of(backward):
    """How many allocations a backward takes in which gradients meet: in place, where no dispatch mode is on."""
    x = torch.ones(1000, device="cuda", requires_grad=True)
    y = x * 2
    loss = (y.sin() + y.cos() + y.exp()).sum()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    backward(loss)
    return torch.cuda.memory_stats()["allocation.all.allocated"] - before


@needs_gpu
@pytest.mark.parametrize("backward", [on_the_cpu, from_an_edge])
def test_a_real_backward_is_one_from_wherever_it_starts(backward):
    """What led to its root tells."""
    with set_aside():
        alone = allocations_of(backward)
    with SimulatedGPU("h100-80gb"):
        assert allocations_of(backward) == alone


@needs_gpu
def test_a_simulation_does_not_see_that_real_attention_has_run():
    from every_byte.gpu.memory.specs import find_spec
    from every_byte.gpu.operators.attention.choice import order_of_preference

    a100 = find_spec("a100-80gb")
    before = order_of_preference(a100)
    with SimulatedGPU(a100):
        q = torch.ones(1, 2, 64, 64, device="cuda", dtype=torch.float16)
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
        assert order_of_preference(a100) == before
    assert order_of_preference(a100) == before
    with SimulatedGPU(a100):
        assert order_of_preference(a100) == before


def test_ddp_on_the_cpu_beside_a_simulated_gpu(gpu, tmp_path):
    """PyTorch's own engine, its hooks on gradients included, on real tensors: nothing of it counts here."""
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        torch.manual_seed(0)
        layer = torch.nn.Linear(8, 8)
        expected = torch.autograd.grad(layer(torch.ones(2, 8)).square().sum(), layer.weight)[0]
        DistributedDataParallel(layer)(torch.ones(2, 8)).square().sum().backward()
    finally:
        torch.distributed.destroy_process_group()
    assert torch.equal(layer.weight.grad, expected)
    assert len(gpu.trace) == 0
