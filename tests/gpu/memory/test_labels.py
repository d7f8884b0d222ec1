"""Phases and modules of a simulated GPU's events, also after errors, in closures, hooks and recomputation."""

import contextlib
import threading

import pytest
import torch
from torch import nn
from torch.optim import optimizer as torch_optimizer
from torch.utils.checkpoint import checkpoint

from utils import SimulatedGPU


class Residual(nn.Module):
    """Does something between and after the modules that it calls."""

    def __init__(self, device):
        super().__init__()
        self.inner = nn.Linear(4, 4, bias=False, device=device)

    def forward(self, x):
        return self.inner(x.cos()).tan()


class Checkpointed(nn.Module):
    """Runs its part again in backward, and something of its own beside it."""

    def __init__(self, part, use_reentrant):
        super().__init__()
        self.part, self.use_reentrant = part, use_reentrant

    def forward(self, x):
        return checkpoint(lambda x: self.part(x).exp(), x, use_reentrant=self.use_reentrant)


def since(gpu, position):
    """Operation, module and phase of the allocations from there on."""
    events = gpu.trace.events[position:]
    return [(e.operation.removeprefix("aten::"), e.module, e.phase) for e in events if e.action == "alloc"]


def test_forward_and_backward_name_the_innermost_module(gpu):
    model = nn.Sequential(nn.Sigmoid(), Residual(gpu.device))
    x = torch.ones(4, 4, device=gpu.device, requires_grad=True)
    gpu.load_libraries()
    position = len(gpu.trace)
    model(x).sin().sum().backward()
    assert since(gpu, position) == [
        ("sigmoid", "0", "forward"),
        ("cos", "1", "forward"),
        ("mm", "1.inner", "forward"),
        ("tan", "1", "forward"),
        ("sin", "", ""),
        ("sum", "", ""),
        ("ones_like", "", ""),
        ("cos", "", "backward"),
        ("mul.Tensor", "", "backward"),
        *[(op, "1", "backward") for op in ("pow.Tensor_Scalar", "add.Scalar", "mul.Tensor")],
        ("mm", "1.inner", "backward"),
        ("mm", "1.inner", "backward"),
        ("mm", "1.inner", "backward"),
        *[(op, "1", "backward") for op in ("sin", "neg", "mul.Tensor")],
        ("sigmoid_backward", "0", "backward"),
    ]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpoint_names_what_it_runs_again(gpu, use_reentrant):
    model = nn.Sequential(nn.Identity(), Checkpointed(nn.Sequential(nn.Sigmoid()), use_reentrant))
    x = torch.ones(4, device=gpu.device, requires_grad=True)
    y = model(x).sum()
    position = len(gpu.trace)
    y.backward()
    seen = [label for label in since(gpu, position) if label[0] in ("sigmoid", "sigmoid_backward", "exp")]
    assert seen[0] == ("sigmoid", "1.part.0", "backward")
    assert seen[-1] == ("sigmoid_backward", "1.part.0", "backward")


def test_a_gradient_taken_in_forward_belongs_to_the_module_that_made_its_graph(gpu):
    class Penalty(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = nn.Sigmoid()

        def forward(self, x):
            return torch.autograd.grad(self.part(x).sum(), x)[0]

    position = len(gpu.trace)
    x = torch.ones(4, device=gpu.device, requires_grad=True)
    nn.Sequential(Penalty())(x)
    assert since(gpu, position)[-1] == ("sigmoid_backward", "0.part", "backward")


@pytest.mark.parametrize("form", [{}, {"foreach": False}, {"fused": True}])
def test_a_step_is_a_phase(gpu, form):
    w = torch.ones(4, device=gpu.device, requires_grad=True)
    optimizer = torch.optim.AdamW([w], **form)
    w.sum().backward()
    position = len(gpu.trace)
    optimizer.step()
    assert {phase for _, _, phase in since(gpu, position)} == {"step"}
    torch.ones(1, device=gpu.device)
    assert since(gpu, position)[-1] == ("ones", "", "")


def test_what_the_user_says_comes_first(gpu):
    model = nn.Sequential(nn.Sigmoid())
    x = torch.ones(4, device=gpu.device, requires_grad=True)
    with gpu.trace.in_phase("warm up"):
        position = len(gpu.trace)
        model(x).sum().backward()
    assert {phase for _, _, phase in since(gpu, position)} == {"warm up"}
    model(x)
    assert since(gpu, position)[-1] == ("sigmoid", "0", "forward")


def test_a_closure_is_not_the_step_that_calls_it(gpu):
    model = nn.Linear(2, 1, device=gpu.device)
    x = torch.ones(3, 2, device=gpu.device)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)

    def closure():
        optimizer.zero_grad()
        model(x).sum().backward()

    gpu.load_libraries()
    position = len(gpu.trace)
    optimizer.step(closure)
    phases = [phase for _, _, phase in since(gpu, position)]
    assert list(dict.fromkeys(phases)) == ["forward", "step", "backward"]
    assert phases[-1] == "step"


def test_a_step_inside_backward_is_a_step(gpu):
    w = torch.ones(4, device=gpu.device, requires_grad=True)
    optimizer = torch.optim.AdamW([w])
    w.register_post_accumulate_grad_hook(lambda _: optimizer.step())
    position = len(gpu.trace)
    w.sin().sum().backward()
    phases = [phase for _, _, phase in since(gpu, position)]
    assert list(dict.fromkeys(phases)) == ["", "backward", "step"]


def test_errors_leave_no_phase_behind(gpu):
    def fail(*_):
        raise ZeroDivisionError

    w = torch.ones(4, device=gpu.device, requires_grad=True)
    optimizer = torch.optim.SGD([w])
    for failing in (lambda: optimizer.step(fail), lambda: nn.Sequential(Failing(fail))(w)):
        with contextlib.suppress(ZeroDivisionError):
            failing()
        torch.ones(2, device=gpu.device)
        assert (gpu.trace.events[-2].action, gpu.trace.events[-2].phase) == ("alloc", "")
        assert gpu.trace.events[-1].phase == ""


class Failing(nn.Module):
    """Its forward fails."""

    def __init__(self, fail):
        super().__init__()
        self.fail = fail

    def forward(self, x):
        self.fail(x)


def test_another_thread_is_another_matter(gpu):
    """A module or an optimizer that runs on the CPU elsewhere says nothing about this thread."""
    entered, done = threading.Event(), threading.Event()

    def wait(_=None):
        entered.set()
        assert done.wait(300)

    thread = threading.Thread(target=lambda: torch.optim.SGD([torch.ones(1)]).step(wait))
    thread.start()
    assert entered.wait(300)
    torch.ones(2, device=gpu.device)
    done.set()
    thread.join()
    assert since(gpu, 0) == [("ones", "", "")]


def test_closing_takes_the_hooks_away():
    def hooks():
        before, after = torch_optimizer._global_optimizer_pre_hooks, torch_optimizer._global_optimizer_post_hooks
        calls = nn.modules.module
        return len(before), len(after), len(calls._global_forward_hooks), len(calls._global_forward_pre_hooks)

    start = hooks()
    gpu = SimulatedGPU()
    for _ in range(2):
        with gpu:
            assert hooks() == tuple(n + 2 for n in start)  # the labels' and the observer's
            nn.Sigmoid()(torch.ones(2, device=gpu.device))
        assert hooks() == start
    assert since(gpu, 0)[-1] == ("sigmoid", "", "forward")


def test_out_of_memory_is_told(gpu):
    """As PyTorch's own history tells it: after the segments that were given back, and with the size rounded up."""
    torch.empty(10**9, dtype=torch.uint8, device=gpu.device)
    position = len(gpu.trace)
    with pytest.raises(torch.OutOfMemoryError):
        nn.Sequential(Failing(lambda x: torch.empty(10**12 + 1, device=x.device)))(torch.ones(1, device=gpu.device))
    events = [(e.action, e.n_bytes, e.operation, e.module, e.phase) for e in gpu.trace.events[position + 2 :]]
    assert events[:2] == [
        ("segment_free", 1_000_341_504, "", "", "forward"),
        ("oom", 4_000_000_000_512, "aten::empty.memory_format", "0", "forward"),
    ]
