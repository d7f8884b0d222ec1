"""The experiments of chapter 0: small programs whose bytes can be counted by hand."""

from dataclasses import replace

import torch

from every_byte.gpu.memory.specs import find_spec
from every_byte.units import MiB

_A100 = find_spec("a100-80gb")
SMALL_GPU = replace(_A100, name="a100-64mib", total_bytes=_A100.context_bytes + 64 * MiB)
"""An A100 whose memory ends 64 MiB behind the CUDA context: small enough to be filled, and drawn."""


def tensor_of(gpu, n_bytes: int) -> torch.Tensor:
    """A tensor of so many bytes, one for each element. Raises: RuntimeError, PyTorch's own, for fewer than 0."""
    return torch.empty(n_bytes, dtype=torch.uint8, device=gpu.device)


class CounterTable:
    """What counters of a GPU say after each step of a program, as a table.

    Counts: the functions of `gpu` named in `counters`, each of which gives bytes.
    Raises: ValueError for a counter that a GPU does not have.
    """

    def __init__(self, gpu, *counters: str) -> None:
        self._gpu = gpu
        self._counters = counters or ("memory_allocated",)
        if unknown := [name for name in self._counters if not hasattr(gpu, name)]:
            raise ValueError(f"counters must be functions of a GPU, as memory_allocated: got {unknown[0]!r}.")
        self.rows: list[tuple[str, tuple[int, ...]]] = []

    def note(self, step: str) -> None:
        """Read all counters now."""
        self.rows.append((step, tuple(getattr(self._gpu, counter)() for counter in self._counters)))

    def __str__(self) -> str:
        names = [counter.replace("memory_", "") for counter in self._counters]
        left = max(len(step) for step, _ in self.rows)
        lines = [" " * left + "".join(f"{name:>15}" for name in names)]
        lines += [f"{step:{left}}" + "".join(f"{n_bytes:>15,d}" for n_bytes in row) for step, row in self.rows]
        return "\n".join(lines)


def two_by_two(gpu) -> dict[str, int]:
    """`memory_allocated` after each line of a program that multiplies one 2x2 matrix by itself and goes back.

    Unit:   bytes.
    """
    readings = {"(nothing yet)": gpu.memory_allocated()}
    x = torch.ones(2, 2, device=gpu.device, requires_grad=True)
    readings["x = torch.ones(2, 2)"] = gpu.memory_allocated()
    y = x @ x
    readings["y = x @ x"] = gpu.memory_allocated()
    g = torch.ones(2, 2, device=gpu.device)
    readings["g = torch.ones(2, 2)"] = gpu.memory_allocated()
    y.backward(g)
    readings["y.backward(g)"] = gpu.memory_allocated()
    return readings


def fragmented(gpu) -> dict[str, torch.Tensor]:
    """The odd ones of twelve tensors of 5 MiB, "0" to "11", made one after the other; the even ones are gone."""
    tensors = {str(n): tensor_of(gpu, 5 * MiB) for n in range(12)}
    return {name: tensor for name, tensor in tensors.items() if int(name) % 2}
