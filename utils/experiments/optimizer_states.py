"""What optimizers keep for a Llama's parameters: some of PyTorch's, simulated, and by the rules of two libraries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from every_byte.ledger.ledger import Ledger
from utils.models.llama import Llama

from .readings import requested
from .step_run import roomy_gpu, zeros_for_granted

_FEWEST = 4096  # elements of a parameter whose averages both libraries make smaller
_TABLE = {8: 256, 4: 16}  # float32 values that bits stand for


def _muon_and_adamw(model: Llama) -> list[torch.optim.Optimizer]:
    """Muon for the blocks' matrices, AdamW for embedding, head and norms, as Muon's author has it."""
    matrices = [p for p in model.blocks.parameters() if p.dim() == 2]
    taken = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in taken]
    return [torch.optim.AdamW(others, fused=True), torch.optim.Muon(matrices)]


def _one(make: Callable[..., torch.optim.Optimizer], model: Llama) -> list[torch.optim.Optimizer]:
    return [make(model.parameters())]


OPTIMIZERS: dict[str, Callable[[Llama], list[torch.optim.Optimizer]]] = {
    "AdamW": partial(_one, partial(torch.optim.AdamW, fused=True)),
    "SGD": partial(_one, partial(torch.optim.SGD, fused=True)),
    "SGD, momentum": partial(_one, partial(torch.optim.SGD, momentum=0.9, fused=True)),
    "Adafactor": partial(_one, torch.optim.Adafactor),
    "Muon, AdamW": _muon_and_adamw,
}


@dataclass(frozen=True)
class States:
    """What an optimizer keeps, and what its first step takes at the most meanwhile.

    Unit: bytes.
    """

    kept_bytes: int
    temporary_bytes: int


def states_of(optimizer: str, model: str = "llama-3-8b", dtype: torch.dtype = torch.bfloat16) -> States:
    """What one of OPTIMIZERS keeps for a Llama on a simulated GPU, whose gradients are there.

    Counts: fused optimizers' step counters too, 4 bytes a parameter; not the cuBLAS workspace.
    Raises: ValueError for an optimizer that is none of OPTIMIZERS.
    """
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer must be one of {'; '.join(OPTIMIZERS)}: got optimizer={optimizer!r}.")
    with roomy_gpu("h200-141gb") as gpu, zeros_for_granted():
        llama = Llama.from_name(model, device=gpu.device, dtype=dtype)
        for parameter in llama.parameters():
            parameter.grad = torch.empty_like(parameter)
        optimizers = OPTIMIZERS[optimizer](llama)
        gpu.load_libraries()
        before = requested(gpu)
        gpu.reset_peak_memory_stats()
        for each in optimizers:
            each.step()
        kept_bytes = Ledger.now(gpu).of(category="optimizer state").requested_bytes
        return States(kept_bytes, requested(gpu, "peak") - before - kept_bytes)


def sizes_of(model: str) -> list[int]:
    """How many elements each parameter of one of the public Llamas has."""
    return [parameter.numel() for parameter in Llama.from_name(model, device="meta").parameters()]


def bitsandbytes_states(sizes: Sequence[int]) -> int:
    """What bitsandbytes' 8-bit AdamW keeps for parameters of so many elements: two bytes each, and a scale for 256.

    Counts: parameters of fewer than 4,096 elements in float32; the two tables of 256 values once for all.
    Unit:   bytes.
    Source: `Optimizer2State.init_state` of bitsandbytes; held to it by tests/models/test_library_optimizers.py.
    """
    kept = sum(2 * n + 8 * -(-n // 256) if n >= _FEWEST else 8 * n for n in sizes)
    return kept + (2 * _TABLE[8] * 4 if any(n >= _FEWEST for n in sizes) else 0)


def torchao_states(sizes: Sequence[int], *, bits: int = 8, element_bytes: int = 2) -> int:
    """What torchao's AdamW of 8 or 4 bits keeps, with a scale for each 256 or 128 elements.

    Counts: as they are, in the parameter's type, the averages of parameters of fewer than 4,096 elements, and of those
            that blocks do not divide; two tables for each of the others.
    Unit:   bytes.
    Raises: ValueError for other bits.
    Source: `_AdamBase._new_buffer` of torchao.optim; held to it by tests/models/test_library_optimizers.py.
    """
    if bits not in _TABLE:
        raise ValueError(f"bits must be 8 or 4: got bits={bits}.")
    block = {8: 256, 4: 128}[bits]
    return sum(
        2 * n * bits // 8 + 8 * n // block + 2 * _TABLE[bits] * 4
        if n >= _FEWEST and n % block == 0
        else 2 * n * element_bytes
        for n in sizes
    )
