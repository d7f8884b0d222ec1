"""The exercises of chapter 0: the simulated GPU tries each answer."""

from collections.abc import Callable

import torch

from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.rounding import round_size, segment_size
from every_byte.units import MiB, short
from utils.experiments.first_programs import SMALL_GPU, tensor_of

from .judge import NO_ANSWER, Verdict, check, check_function, not_yet, right

CROWDED_REQUEST = 12 * MiB
BLOCK_REQUESTS = tuple(
    {"n_bytes": n_bytes}
    for n_bytes in (4, 513, 1_000_000, MiB, MiB + 1, 10 * MiB - 1, 10 * MiB, 154_533_888, 11 * MiB, 11 * MiB - 512)
)


def vectors(answer: int | None) -> Verdict:
    """Exercise 1: what 48 bfloat16 vectors of 770 elements take."""
    mistakes = {
        48 * 770 * 2: "That is what the program requests. Each vector gets a block of its own.",
        48 * 770 * 4: "That is what float32 would request, without the rounding of each vector to whole blocks.",
        -(-48 * 770 * 2 // 512) * 512: "That is one tensor with all the elements. Each vector gets a block of its own.",
        48 * 512 * 3: "Three times 512 is 1,536 bytes, but a vector has 1,540.",
        48 * 512: "A vector has more than 512 bytes.",
        48 * 7 * 512: "That is float32. In bfloat16 an element has 2 bytes.",
        2048: "That is one vector. There are 48.",
    }
    with SimulatedGPU("a100-80gb") as gpu:
        _kept = [torch.empty(770, dtype=torch.bfloat16, device=gpu.device) for _ in range(48)]
        truth = gpu.memory_allocated()
    return check(answer, truth, mistakes)


def block_bytes(function: Callable[..., int | None]) -> Verdict:
    """Exercise 2: the block that a fresh GPU gives to a request."""
    mistakes = {  # where two of them give the same number, the later one's hint is given
        "That is the whole segment. Is what is left over large enough to be split off?": _segment,
        "From 10 MiB on the segment is made for the request. Is its remainder large enough to be split off?": (
            lambda n_bytes: round_size(n_bytes)
        ),
        "A remainder of exactly 1 MiB stays in the block.": lambda n_bytes: _block(n_bytes, MiB - 1),
        "A remainder of more than 1 MiB is split off.": lambda n_bytes: _block(n_bytes, MiB + 512),
        "In the small pool, any remainder of 512 bytes or more is split off.": lambda n_bytes: (
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
        largest = short(max(free))
        try:
            tensor_of(gpu, CROWDED_REQUEST)
        except torch.OutOfMemoryError:
            return not_yet(
                f"deleting {answer!r} frees {short(n_bytes)}, but the largest free block is then {largest}, and the "
                f"request is for {short(CROWDED_REQUEST)}."
            )
    return right(f"{answer!r} has only {short(n_bytes)}, but there is a hole on either side: {largest} in one piece.")


def emptied(gpu: GPU) -> dict[str, torch.Tensor]:
    """A program that lets go of most of what it made, and empties the cache; what has a name at its end."""
    a = tensor_of(gpu, 40 * MiB)
    b = tensor_of(gpu, 3 * MiB)
    c = tensor_of(gpu, 5 * MiB)
    d = tensor_of(gpu, 15 * MiB)
    row = a[: 1024 * 1024]
    del a, b, d
    gpu.empty_cache()
    return {"c": c, "row": row}


def seen_from_outside(answer: int | None) -> Verdict:
    """Exercise 4: what nvidia-smi shows for a process that has run `emptied`."""
    with SimulatedGPU("a100-80gb") as gpu:
        kept = emptied(gpu)
        free_bytes, total_bytes = gpu.mem_get_info()
        truth, reserved, allocated = total_bytes - free_bytes, gpu.memory_reserved(), gpu.memory_allocated()
    context, whole = truth - reserved, kept["row"].untyped_storage().nbytes()
    mistakes = {
        allocated: "That is what is allocated. From outside you see whole segments, and the context.",
        reserved: "That is what is reserved. The context is outside of it.",
        context + allocated: "A segment goes back only as a whole: c keeps all 20 MiB of its own.",
        context + whole: "c is still there, and keeps its segment.",
        context + reserved - whole: "row is a view, and keeps all 40 MiB of a.",
        truth + 16 * MiB: "No block of d's segment is in use, so empty_cache gave it back.",
        truth - context + 863 * MiB: "That is the published context of an A100. This one has the assumed 560 MiB.",
    }
    return check(answer, truth, mistakes)


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
