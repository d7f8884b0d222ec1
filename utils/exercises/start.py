"""The exercises of chapter 0: each answer is tried on the simulated GPU."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import nn

from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.rounding import round_size, segment_size
from every_byte.units import MiB, exact, short
from utils.experiments.first_programs import SMALL_GPU, tensor_of
from utils.experiments.varying_lengths import replayed
from utils.layers import MLP

from .judge import NO_ANSWER, Verdict, check, check_function, not_yet, of_part, raised, right

Loop: TypeAlias = Callable[[nn.Module, list[torch.Tensor]], torch.Tensor | None]
CROWDED_REQUEST = 12 * MiB
LONGEST = 6720
MOST_CALLS = 20
BLOCK_REQUESTS = tuple(
    {"n_bytes": n_bytes}
    for n_bytes in (4, 513, 1_000_000, MiB, MiB + 1, 10 * MiB - 1, 10 * MiB, 154_533_888, 11 * MiB, 11 * MiB - 512)
)


def vectors(answer: int | None) -> Verdict:
    """Exercise 1: what 48 bfloat16 vectors of 770 elements take."""
    mistakes = {
        48 * 770 * 2: "That is what was requested; each vector has a block of its own.",
        48 * 770 * 4: "That is what float32 would request; and each vector has a block of its own.",
        -(-48 * 770 * 2 // 512) * 512: "That is one tensor of that many elements; each vector has a block of its own.",
        48 * 512 * 3: "Three blocks of 512 bytes hold 1,536 bytes; a vector has 1,540.",
        48 * 512: "A vector has more than 512 bytes.",
        48 * 7 * 512: "That is float32; bfloat16 has 2 bytes an element.",
        2048: "That is one vector.",
    }
    with SimulatedGPU("a100-80gb") as gpu:
        _kept = [torch.empty(770, dtype=torch.bfloat16, device=gpu.device) for _ in range(48)]
        truth = gpu.memory_allocated()
    return check(answer, truth, mistakes)


def block_bytes(function: Callable[..., int | None]) -> Verdict:
    """Exercise 2: the block that a fresh GPU gives to a request."""
    mistakes = {  # where two of them give the same number, the later one's hint is given
        "That is the segment, whole; what is left over of it is split off if it is worth it.": _segment,
        "From 10 MiB on the segment is cut to the request; is the rest worth a block of its own?": lambda n_bytes: (
            round_size(n_bytes)
        ),
        "A rest of exactly 1 MiB stays.": lambda n_bytes: _block(n_bytes, MiB - 1),
        "A rest of more than 1 MiB is split off.": lambda n_bytes: _block(n_bytes, MiB + 512),
        "In the small pool any rest of 512 bytes or more is split off.": lambda n_bytes: (
            2 * MiB if n_bytes <= MiB else _block(n_bytes, MiB)
        ),
    }
    return check_function(function, _accounted_block, BLOCK_REQUESTS, mistakes)


def crowded(gpu: GPU) -> dict[str, torch.Tensor]:
    """Six tensors, "a" to "f", in three segments of 20 MiB, with holes between them."""
    sizes = (("a", 6), ("", 5), ("b", 4), ("", 5), ("c", 9), ("", 2), ("d", 9), ("e", 9.5), ("f", 1.5), ("", 9))
    tensors = [(name, tensor_of(gpu, int(n_mib * MiB))) for name, n_mib in sizes]
    return {name: tensor for name, tensor in tensors if name}


def one_deletion(answer: str | None) -> Verdict:
    """Exercise 3: the tensor of `crowded` without which 12 MiB fit."""
    if answer is None:
        return NO_ANSWER
    with SimulatedGPU(SMALL_GPU) as gpu:
        tensors = crowded(gpu)
        if not isinstance(answer, str) or answer not in tensors:
            return not_yet(f"the answer is the name of one tensor, one of {', '.join(tensors)}: got {answer!r}.")
        n_bytes = tensors.pop(answer).nbytes
        free = [b["size"] for s in gpu.memory_snapshot() for b in s["blocks"] if b["state"] == "inactive"]
        largest = max(free)
        try:
            tensor_of(gpu, CROWDED_REQUEST)
        except torch.OutOfMemoryError:
            return not_yet(
                f"{short(n_bytes)} come back with {answer!r}, but the largest free block is then {short(largest)}, and "
                f"{short(CROWDED_REQUEST)} are asked for."
            )
    return right(f"{answer!r} has only {short(n_bytes)}, and lies between two holes: {short(largest)} in one piece.")


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
    """Exercise 4: the names of `program` that have to go before `hidden` does; no more than that."""
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
        gone = ", ".join(names) or "deleting any"
        return not_yet(f"without {gone} the 33,554,432 bytes are still there: something else holds them.")
    needless = [name for name in names if not _hidden_lives_without(other for other in names if other != name)]
    if needless:
        return not_yet(f"they come back, but they would without deleting {needless[0]} too.")
    return right("33,554,432 bytes (32 MiB) come back, and not before both names are gone.")


def mended_loop(function: Loop) -> Verdict:
    """Exercise 5: the mean of an MLP's outputs over several batches, with no more memory at the peak than one needs."""
    wrong = _wrong_mean(function)
    if wrong is not None:
        return wrong
    few, many, goal = (_peak_of_loop(loop, n) for loop, n in ((function, 2), (function, 8), (_loop_without_graph, 8)))
    if many.n_bytes > few.n_bytes:
        return not_yet(
            f"the peak is {exact(many.n_bytes)} with 8 batches and {exact(few.n_bytes)} with 2. Something of each "
            "batch stays until the end: what does the sum of the means refer to?"
        )
    if many.n_bytes > goal.n_bytes:
        hint = (
            "What does the forward pass keep, for a backward that nobody calls?"
            if many.with_graph
            else "At its second turn the loop still has a name of the first: which one refers to something large?"
        )
        enough = f"and {exact(goal.n_bytes)} are enough"
        return not_yet(f"the peak no longer grows, but it is {exact(many.n_bytes)}, {enough}. {hint}")
    return right(f"the peak is {exact(many.n_bytes)}, with 2 batches or 8.")


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
    """Exercise 6: what is allocated and what is reserved at the end of `mixed_program`."""
    if allocated is None or reserved is None:
        return NO_ANSWER
    with SimulatedGPU("a100-80gb") as gpu:
        _kept = mixed_program(gpu)
        of_blocks, of_segments = gpu.memory_allocated(), gpu.memory_reserved()
        workspace_bytes = gpu.spec.cublas_workspace_bytes
    blocks = {
        of_blocks - workspace_bytes: "The first product of a thread takes a workspace, and keeps it.",
        of_blocks + workspace_bytes: "A second workspace is backward's, and here is no backward.",
        of_blocks - MiB: "13 MiB are a request that leaves a rest of exactly 1 MiB in its segment (section 0.3).",
        of_blocks - MiB - workspace_bytes: "Two things are missing: the slack of the table, and what a product takes.",
        of_blocks - 14 * MiB: "row is a view of the table: it keeps its storage.",
        of_blocks - 13 * MiB: "row is a view: it keeps the whole storage of the table, not 1 MiB of it.",
        of_blocks + 300 * 768 * 4: "y is gone: few is a clone, and does not keep it.",
        of_blocks - 10 * 768 * 4: "few is a clone, with a storage of its own.",
    }
    segments = {
        of_segments - 2 * MiB: "Requests up to 1 MiB lie in segments of the small pool.",
        of_segments + 2 * MiB: "x, y and few fit into one segment of 2 MiB.",
        of_segments - 14 * MiB: "The table has a segment of its own, and a view keeps it in use.",
        of_segments + 20 * MiB: "w and the workspace fit into one segment of 20 MiB.",
        of_segments - 20 * MiB: "w and the workspace are above 1 MiB and below 10: they lie in a segment of 20 MiB.",
        of_blocks: "That is what is allocated; reserved counts segments, whole.",
    }
    wrong = {
        "allocated": check(allocated, of_blocks, blocks),
        "reserved": check(reserved, of_segments, segments),
    }
    said = [of_part(name, verdict).text for name, verdict in wrong.items() if not verdict]
    if said:
        return not_yet(" And ".join(said).replace("not yet: ", ""))
    return right(f"{exact(of_blocks)} in blocks, {exact(of_segments)} in segments.")


def passes(answer: str | None) -> Verdict:
    """Exercise 7: settings under which batches of up to LONGEST tokens pass, with at most MOST_CALLS of the driver."""
    if answer is None:
        return NO_ANSWER
    if not isinstance(answer, str):
        return not_yet(f"the answer is a text, as it would stand in PYTORCH_ALLOC_CONF: got {answer!r}.")
    try:
        replay = replayed(LONGEST, answer)
    except (ValueError, RuntimeError) as error:
        return not_yet(f"the text is refused: {str(error).removesuffix('.')}.")
    if not replay.fits:
        hint = ""
        if replay.settings.expandable_segments:
            hint = " Freed blocks fit where sizes repeat: which setting makes them?"
        return not_yet(f"{replay.headline[0].lower()}{replay.headline[1:]}.{hint}")
    said = f"all {replay.n_requests} requests pass, and the driver is called {replay.n_calls} times"
    if replay.n_calls > MOST_CALLS:
        return not_yet(f"{said}; {MOST_CALLS} are allowed. Which setting calls it least?")
    return right(f"{said}. {exact(replay.max_reserved_bytes)} are reserved at most.")


def _segment(n_bytes: int) -> int:
    return segment_size(round_size(n_bytes))


def _block(n_bytes: int, largest_slack_bytes: int) -> int:
    """The rule with another limit to what may stay in a large block."""
    size, segment = round_size(n_bytes), _segment(n_bytes)
    return size if n_bytes <= MiB or segment - size > largest_slack_bytes else segment


def _accounted_block(n_bytes: int) -> int:
    with SimulatedGPU("a100-80gb") as gpu:
        _kept = tensor_of(gpu, n_bytes)
        return gpu.memory_allocated()


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
        return not_yet(f"the model must see each batch once, whole: it was called {len(shapes)} times for 5 batches.")
    value = float(result.detach() if isinstance(result, torch.Tensor) else result)
    if not math.isclose(value, float(expected), rel_tol=1e-4, abs_tol=1e-6):
        return not_yet(f"the value is {value:.6f} where the mean of the means is {float(expected):.6f}.")
    return None
