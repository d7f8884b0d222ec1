"""Generators of random numbers on "cuda": a state to keep and to restore, and numbers that nobody draws."""

import torch

from every_byte.gpu.memory.as_cuda import GENERATORS, parsed
from every_byte.gpu.memory.modes import standing_for_cuda
from every_byte.gpu.patches.replacing import Undo, replaced

from .naming import HERE, as_cuda, named

_STATE_BYTES = 16  # a seed and an offset, as CUDA's state has them
_of_pytorch = torch._C.Generator


class _IsGenerator(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, _of_pytorch)


class SimulatedGenerator(_of_pytorch):
    """A generator of "cuda": its state is CUDA's 16 bytes, a seed and how many numbers were drawn."""

    _cdata: int
    _seed, _offset = 0, 0
    _device = torch.device("cuda")

    def __init__(self) -> None:
        GENERATORS[self._cdata] = self

    @classmethod
    def of(cls, device: torch.device) -> "SimulatedGenerator":
        """A new one of that device."""
        made = cls()
        made._device = device
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]  # PyTorch's cannot be written either
        """Where its numbers are drawn, as it was said."""
        return self._device

    def manual_seed(self, seed: int) -> "SimulatedGenerator":
        """Begin anew from this seed."""
        self._seed, self._offset = int(seed) % (1 << 64), 0
        return self

    def initial_seed(self) -> int:
        """The seed it began from."""
        return self._seed

    def seed(self) -> int:
        """Begin anew from a seed by chance."""
        self.manual_seed(torch._C.default_generator.seed())
        return self._seed

    def get_offset(self) -> int:
        """How far it is."""
        return self._offset

    def set_offset(self, offset: int) -> None:  # type: ignore[override]  # PyTorch's returns itself
        """Go on from there."""
        self._offset = offset

    def get_state(self) -> torch.Tensor:
        """Seed and offset, as bytes on the CPU."""
        state = self._seed.to_bytes(8, "little") + self._offset.to_bytes(8, "little")
        return torch.frombuffer(bytearray(state), dtype=torch.uint8)

    def set_state(self, state: torch.Tensor) -> None:  # type: ignore[override]  # PyTorch's returns itself
        """Go on as another one that had this state."""
        if state.numel() != _STATE_BYTES:
            raise RuntimeError(f"RNG state is wrong size: got {state.numel()} bytes, CUDA's has {_STATE_BYTES}.")
        if state.dtype is not torch.uint8 or state.is_cuda:
            raise TypeError("RNG state must be a torch.ByteTensor")
        numbers = bytes(state.tolist())
        self._seed, self._offset = (int.from_bytes(part, "little") for part in (numbers[:8], numbers[8:]))

    graphsafe_get_state = get_state  # type: ignore[assignment]  # PyTorch's is a generator
    graphsafe_set_state = set_state  # type: ignore[assignment]

    def clone_state(self) -> "SimulatedGenerator":
        """Another one that goes on from here."""
        made = SimulatedGenerator.of(self._device)
        made.set_state(self.get_state())
        return made


class Generator(metaclass=_IsGenerator):
    """`torch.Generator`, which knows "cuda" too."""

    def __new__(cls, device: torch.device | str | int = "cpu") -> torch._C.Generator:  # type: ignore[misc]  # PyTorch's
        """A generator of that device."""
        if standing_for_cuda() is not None and named(device) == HERE and (place := parsed(device)) is not None:
            return SimulatedGenerator.of(place)
        return _of_pytorch(device)


def generators() -> tuple[SimulatedGenerator, ...]:
    """One for each GPU of the machine."""
    return tuple(SimulatedGenerator.of(torch.device("cuda", index)) for index in range(as_cuda().n_devices))


def draw_on_cuda() -> Undo:
    """Let `torch.Generator("cuda")` make one. Returns what undoes it."""
    return replaced(torch, "Generator", lambda _original: Generator)
