"""The exercises of chapter 1: each answer is compared with a run on the simulated GPU."""

from collections.abc import Callable
from functools import cache

import torch

from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.units import exact
from utils.contexts import SavedTensorContext
from utils.experiments.first_programs import train_stack
from utils.formulas.phases import frozen_layers
from utils.layers import LinearStack

from .elementwise import ELEMENTS, INT64, differs, extra_bytes
from .judge import NO_ANSWER, Verdict, check, check_function, not_yet, of_part, raised, right

LAST_FROZEN_SETTINGS = (
    {"L": 200, "b": 64, "d": 100, "f": 101, "relu": True},
    {"L": 200, "b": 64, "d": 100, "f": 101, "relu": False},
    {"L": 3, "b": 5, "d": 7, "f": 1, "relu": False},
    {"L": 4, "b": 1, "d": 9, "f": 4, "relu": True},
)
WORKSPACE = find_spec("a100-80gb").cublas_workspace_bytes
ROWS = 8_704  # the block of a tensor of 7 x 300 in float32
RELEASED = "Backward has released what it kept, and nothing else holds x and y."


def product_and_exp(answer: int | None) -> Verdict:
    """Exercise 1: what (w * x).exp().sum() keeps if w alone is trained."""
    with SimulatedGPU("a100-80gb") as gpu:
        x, w = (torch.empty(1000, 1000, device=gpu.device, requires_grad=trained) for trained in (False, True))
        with SavedTensorContext([w]) as saved:
            loss = (w * x).exp().sum()
        truth = saved.saved_tensor_mem
        del loss
    one_more = truth * 3 // 2
    mistakes = {
        truth // 2: "Two operations each keep a tensor: the product and the exponential.",
        one_more: "Did you count w, which only the gradient of x would need? Or exp's input as well as its result?",
        truth * 2: "The product keeps one factor, and exp keeps its input or its result, not both.",
        truth // 4: "That is the number of elements. How many bytes does each take?",
    }
    return check(answer, truth, mistakes)


def names_and_graph(after_forward: int | None, after_backward: int | None) -> Verdict:
    """Exercise 2: what is allocated after the forward and after the backward of a program that deletes names."""
    with SimulatedGPU("a100-80gb") as gpu:
        w = torch.empty(300, 300, device=gpu.device, requires_grad=True)
        x = torch.empty(7, 300, device=gpu.device)
        h = x @ w
        y = h.exp()
        z = y.sin()
        del x, h, y
        loss = z.sum()
        forward_bytes = gpu.memory_allocated()
        loss.backward()
        backward_bytes = gpu.memory_allocated()
        del w, z, loss
    verdict = check(after_forward, forward_bytes, _of_forward(forward_bytes))
    if verdict:
        verdict = check(after_backward, backward_bytes, _of_backward(backward_bytes))
        if verdict:
            return right(f"{exact(forward_bytes)}, then {exact(backward_bytes)}.")
        return of_part("After backward", verdict)
    return of_part("After forward", verdict)


def _of_forward(truth: int) -> dict[int, str]:
    requested = 300 * 300 * 4 + 3 * 7 * 300 * 4 + 4
    one_fewer = truth - ROWS
    return {
        truth - WORKSPACE: "The first product takes a workspace, which stays (chapter 0b).",
        truth + ROWS: "One tensor too many. Nothing keeps h, and exp's result and sin's input are the same tensor.",
        one_fewer: "One tensor too few. x waits for w's gradient, y for the derivatives of exp and sin, z has a name.",
        truth - 2 * ROWS: "x and y have lost their names, but what else holds them?",
        requested: "That is what was requested. Round each tensor up to blocks of 512 bytes, and add the workspace.",
        requested + WORKSPACE: "That is what was requested, but the allocator hands out whole blocks of 512 bytes.",
        truth - 512: "The loss takes a block too.",
    }


def _of_backward(truth: int) -> dict[int, str]:
    weight = 360_448
    return {
        truth - WORKSPACE: "Backward runs on its own thread, which takes its own workspace.",
        truth - weight: "w has a gradient now.",
        truth - weight - WORKSPACE: "w has a gradient now, and the thread of backward has a workspace.",
        truth + 2 * ROWS: RELEASED,
        truth + ROWS: RELEASED,
        truth - ROWS: "z still has its name.",
    }


def last_frozen(function: Callable[..., int | None]) -> Verdict:
    """Exercise 3: what is kept if the last f layers are frozen."""
    mistakes = {
        "With ReLUs the gradient passes through the frozen layers, and each of their ReLUs keeps its result.": (
            lambda L, b, d, f, relu: (L + 2 - f) * b * d * 4
        ),
        "Without ReLUs a frozen layer keeps nothing.": lambda L, b, d, f, relu: (L + 2) * b * d * 4,
        "Count the batch too, because `first` is trained.": (
            lambda L, b, d, f, relu: (L + 1 if relu else L + 1 - f) * b * d * 4
        ),
        "Count the inputs of `first` and `last` too.": lambda L, b, d, f, relu: (L if relu else L - f) * b * d * 4,
    }
    return check_function(function, _kept_with_last_frozen, LAST_FROZEN_SETTINGS, mistakes)


def peak_moves(answer: int | None) -> Verdict:
    """Exercise 5: the smallest batch at which the peak of an iteration is not in the step."""
    if answer is None:
        return NO_ANSWER
    if not isinstance(answer, int) or isinstance(answer, bool) or not 1 <= answer <= 1024:
        return not_yet(f"the batch must be a whole number (an int) from 1 to 1,024: got {answer!r}.")
    here, before = _peak_phase(answer), _peak_phase(answer - 1) if answer > 1 else "step"
    if here == "step":
        return not_yet(f"with a batch of {answer}, the peak is still in the step.")
    if before != "step":
        return not_yet(f"with a batch of {answer}, the peak is in {here}, but that is true of {answer - 1} as well.")
    return right(f"from a batch of {answer} on, the peak is in {here}.")


def small_abs(function: Callable[[torch.Tensor], torch.Tensor] | None) -> Verdict:
    """Exercise 6: an absolute value that keeps 1 byte for each element."""
    if function is None or isinstance(function, type):
        return not_yet("pass your Function's `apply`, as in SmallAbs.apply.")
    try:
        complaint = _wrong_abs(function) or _large_abs(function)
    except Exception as error:
        complaint = raised(error)
    return not_yet(complaint) if complaint else right(f"it keeps {exact(ELEMENTS)}, one for each element.")


def _wrong_abs(function: Callable[[torch.Tensor], torch.Tensor]) -> str:
    x = torch.tensor([-2.0, 0.0, 3.0], dtype=torch.float64, requires_grad=True)
    y = function(x)
    if not torch.equal(y, x.abs()):
        return f"the values are wrong: for -2, 0, 3 it returns {y.tolist()}."
    y.sum().backward()
    gradient = None if x.grad is None else x.grad.tolist()
    if gradient != [-1.0, 0.0, 1.0]:
        return f"the gradient at -2, 0, 3 must be -1, 0, 1, as in PyTorch: got {gradient}."
    drawn = torch.tensor([-1.5, -0.3, 0.2, 4.0], dtype=torch.float64, requires_grad=True)
    return differs(function, drawn)


def _large_abs(function: Callable[[torch.Tensor], torch.Tensor]) -> str:
    n_bytes = extra_bytes(function)
    if n_bytes == ELEMENTS:
        return ""
    hint = {
        4 * ELEMENTS: "That is a tensor of the input's size and type. What does the derivative really use?",
        8 * ELEMENTS: INT64,
        0: "Nothing is kept besides the output, and the output has lost the sign.",
    }.get(n_bytes, "")
    return f"the gradient is right, but it keeps {exact(n_bytes)} for {ELEMENTS:,d} elements. {hint}".rstrip()


def _kept_with_last_frozen(L: int, b: int, d: int, f: int, relu: bool) -> int:
    with SimulatedGPU("a100-80gb") as gpu:
        stack = LinearStack(d, d, 10, L, relu=relu, frozen=frozen_layers("the last f", L=L, f=f), device=gpu.device)
        with SavedTensorContext(stack.parameters()) as saved:
            y = stack(torch.empty(b, d, device=gpu.device))
        return saved.saved_tensor_mem if y.requires_grad else 0


@cache
def _peak_phase(b: int) -> str:
    with SimulatedGPU("a100-80gb") as gpu:
        run = train_stack(gpu, b=b, n_iterations=2)
    return max(run.of(2), key=lambda row: row.peak_bytes).phase
