"""The exercises of chapter 0: each answer is tried on the simulated GPU."""

from collections.abc import Callable, Iterable

import torch
from torch import nn

from ..layers import MLP
from ..simulated.gpu import SimulatedGPU
from ..start_experiments import SMALL_GPU, tensor_of
from ..units import MiB, exact, short
from .judge import check, check_function

NO_ANSWER = "No answer yet: put yours in place of None and run the cell again."
CROWDED_REQUEST = 12 * MiB
BLOCK_REQUESTS = tuple(
    {"n_bytes": n_bytes}
    for n_bytes in (4, 513, 1_000_000, MiB, MiB + 1, 10 * MiB - 1, 10 * MiB, 154_533_888, 11 * MiB, 11 * MiB - 512)
)


def vectors(answer: int | None) -> None:
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
    check(answer, truth, mistakes)


def what_is_left(answer: int | None) -> None:
    """Exercise 2: what is allocated when a program with a view and a clone has ended."""
    mistakes = {
        8 * MiB + 40_960: "x and z have no names any more: what still refers to their storages?",
        4 * MiB: "w is a clone, with a storage of its own.",
        40_960: "y is a view of x: it keeps the storage of x.",
        8 * MiB: "w is a clone: it does not keep z. And it has a storage of its own.",
        4 * MiB + 4_096: "w has ten rows.",
        12 * MiB: "y is a view; w is ten rows of z, not all.",
    }
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.empty(1024, 1024, device=gpu.device)
        y = x.t()
        z = x + 1
        w = z[:10].clone()
        del x, z
        truth = gpu.memory_allocated()
        del y, w
    check(answer, truth, mistakes)


def block_bytes(function: Callable[..., int | None]) -> None:
    """Exercise 3: the block that a fresh GPU gives to a request."""
    mistakes = {  # where two of them give the same number, the later one's hint is given
        "That is the segment, whole; what is left over of it is split off if it is worth it.": _segment,
        "From 10 MiB on the segment is cut to the request; is the rest worth a block of its own?": _rounded,
        "A rest of exactly 1 MiB stays.": lambda n_bytes: _block(n_bytes, MiB - 1),
        "A rest of more than 1 MiB is split off.": lambda n_bytes: _block(n_bytes, MiB + 512),
        "In the small pool any rest of 512 bytes or more is split off.": lambda n_bytes: (
            2 * MiB if n_bytes <= MiB else _block(n_bytes, MiB)
        ),
    }
    check_function(function, _accounted_block, BLOCK_REQUESTS, mistakes)


def crowded(gpu) -> dict[str, torch.Tensor]:
    """Six tensors, "a" to "f", in three segments of 20 MiB, with holes between them."""
    sizes = (("a", 6), ("", 5), ("b", 4), ("", 5), ("c", 9), ("", 2), ("d", 9), ("e", 9.5), ("f", 1.5), ("", 9))
    tensors = [(name, tensor_of(gpu, int(n_mib * MiB))) for name, n_mib in sizes]
    return {name: tensor for name, tensor in tensors if name}


def one_deletion(answer: str | None) -> None:
    """Exercise 4: the tensor of `crowded` without which 12 MiB fit."""
    if answer is None:
        print(NO_ANSWER)
        return
    with SimulatedGPU(SMALL_GPU) as gpu:
        tensors = crowded(gpu)
        if not isinstance(answer, str) or answer not in tensors:
            print(f"Not yet: the answer is the name of one tensor, one of {', '.join(tensors)}: got {answer!r}.")
            return
        n_bytes = tensors.pop(answer).nbytes
        free = [b["size"] for s in gpu.memory_snapshot() for b in s["blocks"] if b["state"] == "inactive"]
        largest = max(free)
        try:
            tensor_of(gpu, CROWDED_REQUEST)
        except torch.OutOfMemoryError:
            print(
                f"Not yet: {short(n_bytes)} come back with {answer!r}, but the largest free block is then "
                f"{short(largest)}, and {short(CROWDED_REQUEST)} are asked for."
            )
            return
    print(f"Right: {answer!r} has only {short(n_bytes)}, and lies between two holes: {short(largest)} in one piece.")


def program(gpu) -> dict[str, object]:
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


def what_holds(answer: Iterable[str] | None) -> None:
    """Exercise 5: the names of `program` that have to go before `hidden` does; no more than that."""
    if answer is None:
        print(NO_ANSWER)
        return
    if not isinstance(answer, Iterable):
        print(f"Not yet: the answer is a list of names: got {answer!r}.")
        return
    names = [answer] if isinstance(answer, str) else list(answer)
    with SimulatedGPU("a100-80gb") as gpu:
        known = set(program(gpu)) - {"gpu"}
    if unknown := set(names) - known:
        print(f"Not yet: the program has no name {', '.join(sorted(unknown))}: it has {', '.join(sorted(known))}.")
        return
    if _hidden_lives_without(names):
        gone = ", ".join(names) or "deleting any"
        print(f"Not yet: without {gone} the 33,554,432 bytes are still there: something else holds them.")
        return
    needless = [name for name in names if not _hidden_lives_without(other for other in names if other != name)]
    if needless:
        print(f"Not yet: they come back, but they would without deleting {needless[0]} too.")
        return
    print("Right: 33,554,432 bytes (32 MiB) come back, and not before both names are gone.")


def mended_loop(function: Callable[[nn.Module, list[torch.Tensor]], torch.Tensor | None]) -> None:
    """Exercise 6: the mean of an MLP's outputs over several batches, with no more memory at the peak than one needs."""
    few, many = _peak_of_loop(function, 2), _peak_of_loop(function, 8)
    goal = _peak_of_loop(_loop_without_graph, 8)
    if isinstance(few, str) or isinstance(many, str):
        print(few if isinstance(few, str) else many)
    elif many > few:
        print(
            f"Not yet: the peak is {exact(many)} with 8 batches and {exact(few)} with 2. Something of each batch stays "
            "until the end: what does `total` refer to?"
        )
    elif many > goal:
        print(
            f"Not yet: the peak no longer grows, but it is {exact(many)}, and {exact(goal)} are enough. What does the "
            "forward pass keep, for a backward that nobody calls?"
        )
    else:
        print(f"Right: the peak is {exact(many)}, with 2 batches or 8.")


def _rounded(n_bytes: int) -> int:
    return -(-n_bytes // 512) * 512


def _segment(n_bytes: int) -> int:
    if n_bytes <= MiB:
        return 2 * MiB
    return 20 * MiB if n_bytes < 10 * MiB else -(-n_bytes // (2 * MiB)) * 2 * MiB


def _block(n_bytes: int, largest_slack_bytes: int) -> int:
    """The rule with another limit to what may stay in a large block."""
    size, segment = _rounded(n_bytes), _segment(n_bytes)
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
        return sum(model(x).mean() for x in batches) / len(batches)


def _peak_of_loop(function: Callable, n_batches: int) -> int | str:
    """The peak above model and batches; or what is wrong with what the function did."""
    calls = []
    with SimulatedGPU("a100-80gb") as gpu:
        model = MLP(1024, "gelu", device=gpu.device)
        model.register_forward_hook(lambda module, inputs, output: calls.append(1))
        batches = [torch.empty(8, 512, 1024, device=gpu.device) for _ in range(n_batches)]
        gpu.load_libraries()
        before = gpu.memory_allocated()
        try:
            result = function(model, batches)
        except Exception as error:
            return f"Not yet: your function raised {type(error).__name__}: {error}"
        peak_bytes = gpu.max_memory_allocated() - before
    if result is None:
        return NO_ANSWER
    if len(calls) != n_batches:
        return f"Not yet: the model must see each batch once: it was called {len(calls)} times for {n_batches} batches."
    return peak_bytes
