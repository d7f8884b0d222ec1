"""Checkpointing from scratch: the gradients of eager, the bytes of PyTorch's own, and what each of its parts is for."""

import gc
import weakref
from contextlib import contextmanager, nullcontext
from functools import partial

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from utils import MLP, Block, SavedTensorContext, SimulatedGPU
from utils.models.checkpointing import AutocastState, Checkpoint, RandomState, Region, checkpoint, minimal_checkpoint
from utils.models.regions import library_checkpoint

reentrant_checkpoint = partial(torch.utils.checkpoint.checkpoint, use_reentrant=True)
BOTH = {"ours": checkpoint, "library": library_checkpoint}
EXACT = BOTH | {"no early stop": Checkpoint(early_stop=False)}
FLOAT64 = {"dtype": torch.float64}
SEED = 5


def eager(function, *args, **kwargs):
    return function(*args, **kwargs)


def made(make):
    """A module with the same weights each time."""
    torch.manual_seed(SEED)
    return make()


def results(module, run, x=None, *args, seed=SEED):
    """The output of a module, and the gradients of its input and its parameters, in a run that begins at a seed."""
    torch.manual_seed(seed)
    x = (torch.randn(2, 6, 16, dtype=torch.float64) if x is None else x.clone()).requires_grad_()
    module.zero_grad()
    y = run(module, x, *args)
    y.square().sum().backward()
    return y.detach(), x.grad, *(parameter.grad for parameter in module.parameters())


def same(one, other):
    """Whether all tensors are equal, bit for bit."""
    assert len(one) == len(other)
    return all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in zip(one, other, strict=True)
    )


MODULES = {
    "MLP": lambda dropout: MLP(16, "gelu", dropout, **FLOAT64),
    "Block": lambda dropout: Block(16, 2, "gelu", dropout, **FLOAT64),
    "explicit Block": lambda dropout: Block(16, 2, "relu", dropout, **FLOAT64, kind="explicit", context_length=8),
}


# ---------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("run", EXACT)
@pytest.mark.parametrize("name", MODULES)
def test_gradients_are_those_of_eager(name, run):
    module = made(lambda: MODULES[name](0.1))
    assert same(results(module, EXACT[run]), results(module, eager))


@pytest.mark.parametrize("name", MODULES)
def test_those_of_the_minimal_one_too_without_dropout(name):
    module = made(lambda: MODULES[name](0.0))
    assert same(results(module, minimal_checkpoint), results(module, eager))


@pytest.mark.parametrize("run", [minimal_checkpoint, checkpoint])
def test_frozen_parameters_get_none(run):
    module = made(lambda: MODULES["MLP"](0.0))
    module.up.requires_grad_(False)
    assert same(results(module, run), results(module, eager))
    assert module.up.weight.grad is None


@pytest.mark.parametrize("run", [minimal_checkpoint, checkpoint])
def test_an_input_that_needs_no_gradient(run):
    module, x = made(lambda: MODULES["MLP"](0.0)), torch.ones(3, 16, **FLOAT64)
    run(module, x).sum().backward()
    found = [parameter.grad for parameter in module.parameters()]
    module.zero_grad()
    module(x).sum().backward()
    assert same(found, [parameter.grad for parameter in module.parameters()])
    assert x.grad is None


def test_a_gradient_taken_without_backward():
    module, x = made(lambda: MODULES["Block"](0.1)), torch.randn(1, 4, 16, dtype=torch.float64, requires_grad=True)
    found = {}
    for run in (eager, checkpoint):
        torch.manual_seed(SEED)
        found[run] = torch.autograd.grad(run(module, x).sum(), (x, module.mlp.up.weight))
    assert same(found[eager], found[checkpoint])


def test_second_derivatives():
    module = made(lambda: MODULES["MLP"](0.0))
    x = torch.randn(2, 16, dtype=torch.float64, requires_grad=True)
    found = []
    for run in (eager, checkpoint):
        (first,) = torch.autograd.grad(run(module, x).square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), x)[0])
    assert torch.equal(*found)


def test_the_minimal_one_refuses_second_derivatives():
    module, x = made(lambda: MODULES["MLP"](0.0)), torch.ones(2, 16, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(minimal_checkpoint(module, x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


@pytest.mark.parametrize("run", [minimal_checkpoint, checkpoint])
def test_a_parameter_that_is_not_used_gets_no_gradient(run):
    module = made(lambda: MODULES["MLP"](0.0))
    module.unused = nn.Parameter(torch.ones(3))
    assert same(results(module, run), results(module, eager))
    assert module.unused.grad is None


@pytest.mark.parametrize("run", [minimal_checkpoint, checkpoint])
def test_backward_may_come_twice(run):
    module, x = made(lambda: MODULES["MLP"](0.0)), torch.randn(2, 16, dtype=torch.float64, requires_grad=True)
    y = run(module, x).sum()
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    assert torch.equal(x.grad, 2 * once)


@pytest.mark.parametrize("run", BOTH)
def test_a_checkpoint_inside_of_a_checkpoint(run):
    outer, inner = (made(lambda: MODULES["MLP"](0.1)) for _ in range(2))
    two = nn.ModuleList([outer, inner])

    def both(run, x):
        return run(lambda x: outer(run(inner, outer(x)).sin()), x)

    found = [results(two, lambda _, x, run=run: both(run, x)) for run in (eager, BOTH[run])]
    assert same(*found)


def test_without_grad_nothing_is_kept_or_run_again():
    module, x = made(lambda: MODULES["MLP"](0.1)), torch.ones(3, 16, **FLOAT64)
    with torch.no_grad():
        assert checkpoint(module, x).grad_fn is None


# ------------------------------------------------------------------------------------- what each part is there for


def test_random_state():
    module = made(lambda: MODULES["MLP"](0.5))
    expected = results(module, eager)
    assert same(results(module, checkpoint), expected)
    for without in (Checkpoint(random_state=False), minimal_checkpoint):
        found = results(module, without)
        assert torch.equal(found[0], expected[0])  # forward is right, and nobody complains
        assert not torch.equal(found[1], expected[1])


def test_random_numbers_go_on_as_if_nothing_had_run_twice():
    module, after = made(lambda: MODULES["MLP"](0.5)), []
    for run in (eager, checkpoint, Checkpoint(random_state=False)):
        torch.manual_seed(SEED)
        y = run(module, torch.ones(3, 16, **FLOAT64)).sum()
        torch.rand(1)  # else the second run would end where the first did
        y.backward()
        after.append(torch.rand(1))
    assert after[0] == after[1] != after[2]


def test_the_random_state_is_in_cpu_memory():
    state = RandomState([])
    assert (state.cpu.nbytes, state.cpu.device.type, state.gpus) == (5056, "cpu", {})


class OnGPU(torch.Tensor):
    """As a tensor on the second GPU looks to a checkpoint."""

    is_cuda = True
    device = torch.device("cuda", 1)


def test_the_random_states_of_all_gpus_that_have_arguments(monkeypatch):
    states, restored = {0: "first", 1: "second"}, []
    monkeypatch.setattr(torch.cuda, "get_rng_state", states.get)
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, index: restored.append((index, state)))
    monkeypatch.setattr(torch.random, "fork_rng", lambda gpus: restored.append(gpus) or nullcontext())
    x = torch.ones(3, requires_grad=True).as_subclass(OnGPU)
    checkpoint(torch.exp, x).sum().backward()
    assert restored == [[1], (1, "second")]


def under_autocast(run):
    def running(module, x):
        with torch.autocast("cpu", torch.bfloat16):
            return run(module, x)

    return running


def test_autocast_state():
    module, x = made(lambda: MLP(16, "gelu")), torch.randn(4, 16)
    expected = results(module, under_autocast(eager), x)
    for run in EXACT.values():
        assert same(results(module, under_autocast(run), x), expected)
    in_float32 = results(module, under_autocast(minimal_checkpoint), x)
    assert torch.equal(in_float32[0], expected[0])
    assert not torch.equal(in_float32[1], expected[1])
    with pytest.raises(RuntimeError, match=r"the same tensors.*'torch.bfloat16'.*and \(\(4, 16\), 'torch.float32', 'c"):
        results(module, under_autocast(Checkpoint(autocast=False)), x)


def test_a_gpus_autocast():
    with SimulatedGPU("a100-80gb") as gpu:
        module, x = MLP(16, "gelu", device=gpu.device), torch.empty(4, 16, device=gpu.device)
        with torch.autocast("cuda", torch.bfloat16):
            y = checkpoint(module, x)
        y.sum().backward()  # else it would save other tensors than in forward
        with torch.autocast("cuda", torch.bfloat16):
            y = Checkpoint(autocast=False)(module, x)
        with pytest.raises(RuntimeError, match="must save the same tensors"):
            y.sum().backward()


def test_autocast_that_was_off_is_off_again():
    state = AutocastState()
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False), state.restored():
        assert not torch.is_autocast_enabled("cpu")
        assert torch.is_autocast_cache_enabled()
    assert not torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        state = AutocastState()
    with state.restored():
        assert not torch.is_autocast_cache_enabled()
    module, x = made(lambda: MLP(16, "gelu")), torch.randn(4, 16, requires_grad=True)
    found = []
    for run in (eager, checkpoint):
        y = run(module, x).sum()
        with torch.autocast("cpu", torch.bfloat16):
            found.append(torch.autograd.grad(y, x)[0])
    assert torch.equal(*found)


class Scaled(nn.Linear):
    """Takes and returns what the minimal one cannot."""

    def forward(self, x, how=None, *, scale=1.0, shift=None):
        y = super().forward(x * scale).exp()
        y = y if shift is None else y * shift
        return {"sum": y.sum(), "parts": [y.sin(), how]} if how == "several" else y


ARGUMENTS = {
    "a keyword argument": ((), {"scale": 3.0}, "unexpected keyword argument 'scale'"),
    "a tensor as a keyword argument": ((), {"shift": torch.full((4,), 2.0, **FLOAT64)}, "unexpected keyword"),
    "an argument that is no tensor": (("other",), {}, "positional arguments? but 3 were given"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments(case):
    args, kwargs, complaint = ARGUMENTS[case]
    module = made(lambda: Scaled(4, 4, **FLOAT64))
    x = torch.randn(3, 4, dtype=torch.float64)

    def called(run):
        return lambda module, x: run(module, x, *args, **kwargs)

    for run in EXACT.values():
        assert same(results(module, called(run), x), results(module, called(eager), x))
    with pytest.raises(TypeError, match=complaint):
        called(minimal_checkpoint)(module, x)


def test_a_function_of_integers():
    module = nn.Embedding(5, 3)
    checkpoint(module, torch.tensor([1, 2])).sum().backward()
    assert module.weight.grad.sum() == 6
    y = minimal_checkpoint(module, torch.tensor([1, 2])).sum()
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        y.backward()


def test_several_outputs():
    module = made(lambda: Scaled(4, 4, **FLOAT64))

    def called(run):
        def running(module, x):
            found = run(module, x, "several")
            assert found["parts"][1] == "several"
            return found["sum"] + found["parts"][0]

        return running

    x = torch.randn(3, 4, dtype=torch.float64)
    for run in EXACT.values():
        assert same(results(module, called(run), x), results(module, called(eager), x))

    class Two(nn.Linear):
        def forward(self, x):
            return super().forward(x), x.exp()

    one, other = minimal_checkpoint(Two(4, 4, **FLOAT64), x.requires_grad_())
    with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
        (one + other).sum().backward()


def test_tensors_that_the_function_does_not_name():
    class Outside(nn.Linear):
        def forward(self, x):
            return super().forward(x) * gain

    gain = torch.full((4,), 2.0, requires_grad=True)
    module, x = Outside(4, 4), torch.ones(3, 4)
    minimal_checkpoint(module, x).sum().backward()
    assert module.weight.grad is not None
    assert gain.grad is None  # which nobody notices
    checkpoint(module, x).sum().backward()
    assert gain.grad is not None
    with pytest.raises(TypeError, match="module must be an nn.Module, to know its parameters: got <function.*try `che"):
        minimal_checkpoint(lambda x: x * gain, x)


class Products(TorchDispatchMode):
    """Counts the Linears' products in forward."""

    def __init__(self):
        super().__init__()
        self.n = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.n += func is torch.ops.aten.addmm.default
        return func(*args, **(kwargs or {}))


def products_in_backward(run, module, x):
    y = run(module, x).sum()
    with Products() as products:
        y.backward()
    return products.n


def flops_in_backward(run, module, x):
    y = run(module, x).sum()
    with FlopCounterMode(display=False) as flops:
        y.backward()
    return flops.get_total_flops()


@pytest.mark.parametrize("run", BOTH)
def test_early_stop(run):
    """Nothing in backward needs the result of the last product, which has as many FLOPs as the first."""
    module, x = MLP(16, "gelu"), torch.randn(3, 16, requires_grad=True)
    to_the_end = Checkpoint(early_stop=False)
    assert products_in_backward(BOTH[run], module, x) == 1
    for way in (to_the_end, minimal_checkpoint, reentrant_checkpoint):
        assert products_in_backward(way, module, x) == 2
    product = 2 * 3 * 16 * 64
    without = flops_in_backward(eager, module, x)
    assert flops_in_backward(BOTH[run], module, x) == without + product
    assert flops_in_backward(to_the_end, module, x) == without + 2 * product


# ------------------------------------------------------------------------------------------------------------- guards


@pytest.mark.parametrize("run", BOTH)
def test_an_argument_changed_in_place_is_noticed(run):
    x = torch.ones(3, requires_grad=True) * 2
    y = BOTH[run](lambda x: x.sin().exp(), x).sum()
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize(
    ("early_stop", "then", "complaint"),
    [
        (True, lambda x: x.sin(), "it saved 3 tensors in forward, and 1 in backward"),
        (False, lambda x: x.sin().sin().sin().sin(), r"saved nothing as number 3 in forward, and \(\(3,\), 'torch.fl"),
        (True, lambda x: x.sum().sin().sin(), r"saved \(\(3,\), 'torch.float32', 'cpu'\) as number 0 in forward, and"),
        (True, lambda x: x.double().sin().sin().sin(), "and .*'torch.float64'.* in backward; what it depends on"),
    ],
)
def test_a_function_that_does_something_else_the_second_time(early_stop, then, complaint):
    functions = iter([lambda x: x.sin().sin().sin(), then])
    y = Checkpoint(early_stop=early_stop)(lambda x: next(functions)(x), torch.ones(3, requires_grad=True)).sum()
    with pytest.raises(RuntimeError, match=f"a checkpointed function must save the same tensors.*{complaint}"):
        y.backward()


def test_an_error_of_the_function_is_its_own():
    def fails(x):
        if torch._C._current_graph_task_id() != -1:
            raise KeyError("again")
        return x.sin()

    with pytest.raises(KeyError, match="again"):
        checkpoint(fails, torch.ones(3, requires_grad=True)).sum().backward()


def test_what_nobody_needs_is_not_kept():
    """Of three tensors that were saved: that of exp() has lost its node, and one that was used is let go."""
    left = []

    def function(x):
        x.exp()
        y = x.sin()
        y.register_hook(lambda gradient: left.append(len(regions[0]().recomputed)))
        return y.sin()

    with watched_regions() as regions:
        checkpoint(function, torch.ones(3, requires_grad=True)).sum().backward()
    assert left == [1]


def test_what_was_computed_again_is_let_go_when_it_was_used_though_the_graph_stays():
    with watched_regions() as regions:
        y = checkpoint(lambda x: x.sin().sin(), torch.ones(3, requires_grad=True)).sum()
        for _ in range(2):
            y.backward(retain_graph=True)
            assert not regions[0]().recomputed


@contextmanager
def watched_regions():
    """The regions that are made meanwhile, by weak reference."""
    regions, original = [], Region.__init__

    def noting(region, *args):
        regions.append(weakref.ref(region))
        original(region, *args)

    Region.__init__ = noting
    try:
        yield regions
    finally:
        Region.__init__ = original


@pytest.mark.parametrize("run", [checkpoint, Checkpoint(early_stop=False)])
def test_a_region_goes_with_backward_or_with_its_graph(run):
    """Without waiting for the garbage collector: in the second run, nodes whose outputs they keep themselves too."""
    module = made(lambda: nn.Sequential(nn.Tanh(), nn.Softmax(-1), nn.Linear(4, 4), nn.Tanh(), nn.Tanh()))
    gc.collect()
    gc.disable()
    try:
        with watched_regions() as regions:
            for _ in range(2):
                run(module, torch.ones(4, requires_grad=True) * 2).sum().backward()
            y = run(module, torch.ones(4, requires_grad=True))
            assert [region() is None for region in regions] == [True, True, False]
            del y
            assert regions[2]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("run", BOTH)
def test_what_saved_tensor_hooks_see_of_it(run):
    """The argument, which the second run begins with; nothing of what is inside."""
    module, x = MLP(16, "gelu"), torch.ones(3, 16, requires_grad=True)
    with SavedTensorContext(ignored_tensors=module.parameters()) as saved:
        y = BOTH[run](module, x * 2)
    assert saved.saved_tensor_mem == 3 * 16 * 4
    y.sum().backward()
    assert saved.saved_tensor_mem == 0
