"""The exercises of chapter 0b: the simulated GPU tries each answer."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn

from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.units import MiB, exact
from utils.experiments.varying_lengths import replayed
from utils.layers import MLP

from .judge import NO_ANSWER, Verdict, check, not_yet, of_part, raised, right

Loop: TypeAlias = Callable[[nn.Module, list[torch.Tensor]], torch.Tensor | None]
LONGEST = 6720
MOST_CALLS = 20


def program(gpu: GPU) -> dict[str, object]:
    """A program that makes a tensor `hidden` of 32 MiB, deletes its name, and returns all its other names."""
    weight = torch.empty(1024, 1024, device=gpu.device, requires_grad=True)
    x = torch.empty(8192, 1024, device=gpu.device)
    hidden = torch.relu(x @ weight)
    shape = hidden.shape
    first = hidden[0].detach()
    mean = hidden.mean().detach()
    few = hidden[:8].detach().clone()
    losses = [hidden.square().mean()]
    del hidden
    return locals()


def what_holds(answer: Iterable[str] | None) -> Verdict:
    """Exercise 1: the names of `program` that must go before `hidden` does, and no more than those."""
    if answer is None:
        return NO_ANSWER
    names = [answer] if isinstance(answer, str) else list(answer) if isinstance(answer, Iterable) else [answer]
    if not all(isinstance(name, str) for name in names):
        return not_yet(f"the answer is a list of names: got {answer!r}.")
    names = list(dict.fromkeys(names))
    with SimulatedGPU("a100-80gb") as gpu:
        known = set(program(gpu)) - {"gpu"}
    if unknown := set(names) - known:
        return not_yet(f"the program has no name {', '.join(sorted(unknown))}: it has {', '.join(sorted(known))}.")
    if _hidden_lives_without(names):
        gone = ", ".join(names) or "nothing"
        return not_yet(f"with {gone} deleted, the 33,554,432 bytes are still allocated: something else holds them.")
    needless = [name for name in names if not _hidden_lives_without(other for other in names if other != name)]
    if needless:
        return not_yet(f"the bytes do come back, but they would without deleting {needless[0]} too.")
    return right("33,554,432 bytes (32 MiB) come back once both names are gone, and not before.")


def fixed_loop(function: Loop) -> Verdict:
    """Exercise 2: the mean of an MLP's outputs over several batches, at the lowest peak that is possible."""
    wrong = _wrong_mean(function)
    if wrong is not None:
        return wrong
    few, many, goal = (_peak_of_loop(loop, n) for loop, n in ((function, 2), (function, 8), (_loop_without_graph, 8)))
    if many.n_bytes > few.n_bytes:
        return not_yet(
            f"the peak is {exact(many.n_bytes)} with 8 batches and {exact(few.n_bytes)} with 2, so something of each "
            "batch stays until the end. What does the running sum refer to?"
        )
    if many.n_bytes > goal.n_bytes:
        hint = (
            "What does forward keep for a backward that never comes?"
            if many.with_graph
            else "In its second iteration the loop has a name left from the first. Which one refers to something large?"
        )
        enough = f"and {exact(goal.n_bytes)} would be enough"
        return not_yet(f"the peak no longer grows, but it is {exact(many.n_bytes)}, {enough}. {hint}")
    return right(f"the peak is {exact(many.n_bytes)}, with 2 batches or with 8.")


def mixed_program(gpu: GPU) -> dict[str, torch.Tensor]:
    """A program in which a view, a clone, a product and several segments meet; what has a name at its end."""
    table = torch.empty(13, 1024, 1024, dtype=torch.uint8, device=gpu.device)
    row = table[0]
    x = torch.empty(300, 768, device=gpu.device)
    w = torch.empty(768, 768, device=gpu.device)
    y = x @ w
    few = y[:10].clone()
    del table, y
    return {"row": row, "x": x, "w": w, "few": few}


def both_counters(allocated: int | None, reserved: int | None) -> Verdict:
    """Exercise 3: what is allocated and what is reserved at the end of `mixed_program`."""
    if allocated is None or reserved is None:
        return NO_ANSWER
    with SimulatedGPU("a100-80gb") as gpu:
        _kept = mixed_program(gpu)
        of_blocks, of_segments = gpu.memory_allocated(), gpu.memory_reserved()
        workspace_bytes = gpu.spec.cublas_workspace_bytes
    blocks = {
        of_blocks - workspace_bytes: "The first product of a thread takes a workspace, which stays.",
        of_blocks + workspace_bytes: "The second workspace belongs to backward, and this program has no backward.",
        of_blocks - MiB: "The table's 13 MiB leave exactly 1 MiB of their segment, which stays (section 0.3).",
        of_blocks - MiB - workspace_bytes: "Two things are missing: the table's slack, and the product's workspace.",
        of_blocks - 14 * MiB: "row is a view of the table, and keeps its storage.",
        of_blocks - 13 * MiB: "row is a view: it keeps the whole storage of the table, not 1 MiB of it.",
        of_blocks + 300 * 768 * 4: "y is gone: few is a clone, and does not keep it.",
        of_blocks - 10 * 768 * 4: "few is a clone, with a storage of its own.",
    }
    segments = {
        of_segments - 2 * MiB: "Requests of up to 1 MiB come from segments of the small pool.",
        of_segments + 2 * MiB: "x, y and few fit into one segment of 2 MiB.",
        of_segments - 14 * MiB: "The table has a segment of its own, and a view keeps it in use.",
        of_segments + 20 * MiB: "w and the workspace fit into one segment of 20 MiB.",
        of_segments - 20 * MiB: "w and the workspace are above 1 MiB and below 10, so their segment has 20 MiB.",
        of_blocks: "That is what is allocated. Reserved counts whole segments.",
    }
    wrong = {
        "allocated": check(allocated, of_blocks, blocks),
        "reserved": check(reserved, of_segments, segments),
    }
    replies = [of_part(name, verdict).text for name, verdict in wrong.items() if not verdict]
    if replies:
        return not_yet(" And ".join(replies).replace("not yet: ", ""))
    return right(f"{exact(of_blocks)} in blocks, {exact(of_segments)} in segments.")


def passes(answer: str | None) -> Verdict:
    """Exercise 4: settings under which batches of up to LONGEST tokens pass, with at most MOST_CALLS driver calls."""
    if answer is None:
        return NO_ANSWER
    if not isinstance(answer, str):
        return not_yet(f"the answer is a string, as PYTORCH_ALLOC_CONF would have it: got {answer!r}.")
    try:
        replay = replayed(LONGEST, answer)
    except (ValueError, RuntimeError) as error:
        return not_yet(f"PyTorch refuses these settings: {str(error).removesuffix('.')}.")
    if not replay.fits:
        hint = ""
        if replay.settings.expandable_segments:
            hint = " Freed blocks fit again where sizes repeat. Which setting makes them repeat?"
        return not_yet(f"{replay.headline[0].lower()}{replay.headline[1:]}.{hint}")
    if replay.n_calls > MOST_CALLS:
        return not_yet(
            f"all {replay.n_requests} requests pass, but the driver is called {replay.n_calls} times, and {MOST_CALLS} "
            "calls are allowed. Which setting needs the fewest?"
        )
    return right(
        f"all {replay.n_requests} requests pass, and the driver is called {replay.n_calls} times. "
        f"{exact(replay.max_reserved_bytes)} are reserved at most."
    )


def _hidden_lives_without(names: Iterable[str]) -> bool:
    with SimulatedGPU("a100-80gb") as gpu:
        left = program(gpu)
        for name in names:
            left.pop(name)
        return any(event.operation == "aten::relu" for event in gpu.trace.live_at().values())


def _loop_without_graph(model: nn.Module, batches: list[torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        total: Any = sum(model(x).mean() for x in batches)  # a tensor, since there are batches
        mean: torch.Tensor = total / len(batches)
        return mean


@dataclass(frozen=True)
class _Peak:
    """How far a loop raised the allocated memory above model and batches, and whether its forwards built graphs."""

    n_bytes: int
    with_graph: bool


def _peak_of_loop(function: Loop, n_batches: int) -> _Peak:
    graphs: list[bool] = []
    with SimulatedGPU("a100-80gb") as gpu:
        model = MLP(1024, "gelu", device=gpu.device)
        model.register_forward_hook(lambda *_: graphs.append(torch.is_grad_enabled()))
        batches = [torch.empty(8, 512, 1024, device=gpu.device) for _ in range(n_batches)]
        gpu.load_libraries()
        before_bytes = gpu.memory_allocated()
        _result = function(model, batches)
        return _Peak(gpu.max_memory_allocated() - before_bytes, any(graphs))


def _wrong_mean(function: Loop) -> Verdict | None:
    """What is wrong with the function's value, found on the CPU with a small model; None if it is right."""
    torch.manual_seed(0)
    model = MLP(4, "gelu")
    shapes: list[torch.Size] = []
    batches = [torch.randn(3, 4) for _ in range(5)]
    expected = _loop_without_graph(model, batches)
    model.register_forward_hook(lambda module, inputs, output: shapes.append(inputs[0].shape))
    try:
        result = function(model, batches)
    except Exception as error:
        return not_yet(raised(error))
    if result is None:
        return NO_ANSWER
    if shapes != [x.shape for x in batches]:
        return not_yet(
            f"the model must see each batch once, and all of it: it was called {len(shapes)} times for 5 batches."
        )
    value = float(result.detach() if isinstance(result, torch.Tensor) else result)
    if not math.isclose(value, float(expected), rel_tol=1e-4, abs_tol=1e-6):
        return not_yet(f"it returns {value:.6f}, but the mean of the means is {float(expected):.6f}.")
    return None
