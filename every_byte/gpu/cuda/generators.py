"""Generators of random numbers on "cuda": a state to keep and to restore, and numbers that nobody draws."""

from dataclasses import dataclass

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


@dataclass
class _State:
    seed: int = 0
    offset: int = 0


class SimulatedGenerator(_of_pytorch):
    """A generator of "cuda": its state is CUDA's 16 bytes, a seed and how many numbers were drawn."""

    _cdata: int

    def __init__(self) -> None:
        GENERATORS[self._cdata] = self
        self._device, self._state = torch.device("cuda"), _State()

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
        self._state.seed, self._state.offset = int(seed) % (1 << 64), 0
        return self

    def initial_seed(self) -> int:
        """The seed it began from."""
        return self._state.seed

    def seed(self) -> int:
        """Begin anew from a seed by chance."""
        self.manual_seed(torch._C.default_generator.seed())
        return self._state.seed

    def get_offset(self) -> int:
        """How far it is."""
        return self._state.offset

    def set_offset(self, offset: int) -> "SimulatedGenerator":
        """Go on from there. Raises: RuntimeError, as PyTorch, for no multiple of 4."""
        if offset % 4:
            raise RuntimeError("offset must be a multiple of 4")
        self._state.offset = offset
        return self

    def get_state(self) -> torch.Tensor:
        """Seed and offset, as bytes on the CPU."""
        state = self._state.seed.to_bytes(8, "little") + self._state.offset.to_bytes(8, "little")
        return torch.frombuffer(bytearray(state), dtype=torch.uint8)

    def set_state(self, state: torch.Tensor) -> "SimulatedGenerator":
        """Go on as another one that had this state."""
        if state.numel() != _STATE_BYTES:
            raise RuntimeError(f"RNG state is wrong size: got {state.numel()} bytes, CUDA's has {_STATE_BYTES}.")
        if state.dtype is not torch.uint8 or state.is_cuda:
            raise TypeError("RNG state must be a torch.ByteTensor")
        numbers = bytes(state.tolist())
        self._state.seed, self._state.offset = (int.from_bytes(part, "little") for part in (numbers[:8], numbers[8:]))
        return self

    def graphsafe_get_state(self) -> "SimulatedGenerator":
        """Another one of the same state: what is told to one, the other knows."""
        return SimulatedGenerator.of(self._device).graphsafe_set_state(self)

    def graphsafe_set_state(self, state: torch._C.Generator) -> "SimulatedGenerator":
        """Share the state of another one from now on. Raises: TypeError, as PyTorch, for what is no generator."""
        if not isinstance(state, SimulatedGenerator):
            raise TypeError(f"expected a Generator, but got {type(state).__name__}")
        self._state = state._state
        return self

    def clone_state(self) -> "SimulatedGenerator":
        """Another one that goes on from here."""
        return SimulatedGenerator.of(self._device).set_state(self.get_state())


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
