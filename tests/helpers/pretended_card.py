"""A pretended CUDA card, on any build of PyTorch: real autograd graphs over memory of the simulated allocator.

What PyTorch is asked of a card (counters, memory history, segments) it asks functions of `torch._C` that a build
without CUDA lacks. Inside of `pretended_card()` they are there, and answer for a `CachingAllocator`. A `CardTensor`
says that it lies on this card: for each storage that an operation makes, the allocator is asked, and the history gets
an entry with the names that C++ would have on its call stack, as far as `every_byte.ledger.frames` reads them.

Not as on a real card: operations allocate their results alone, no workspace; a backward runs on the thread that calls
it; autocast is that of the CPU, `torch.autocast("cpu")`. What a snapshot holds is as PyTorch 2.13 writes it.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.units import GiB

DEVICE = torch.device("cuda", 1)  # the second of two: what is said of the first must not count
ENGINE = "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)"
CAST = "at::autocast::cached_cast(c10::ScalarType, at::Tensor const&)"


class CardStorage:
    """As much of a storage as an observer asks for; its block is free when nothing refers to it any more."""

    device = DEVICE
    _keys = count(1)

    def __init__(self, card: "Card", n_bytes: int, frames: list[str]) -> None:
        self._cdata = next(self._keys)
        self._card, self._block = card, None
        self._take(n_bytes, frames)

    def _take(self, n_bytes: int, frames: list[str]) -> None:
        before, self._block = self._block, self._card.malloc(n_bytes, frames) if n_bytes else None
        if before is not None:
            self._card.free(before)

    def data_ptr(self) -> int:
        """Where it lies; nowhere when its card is gone, as an error may hold what has failed on another one."""
        return self._block.address if self._block and self._card.is_there else 0

    def resize_(self, n_bytes: int) -> None:
        """As PyTorch does: the new block is taken before the old one goes."""
        self._take(n_bytes, ["at::_ops::resize_::call("])

    def __del__(self) -> None:
        self._take(0, [])


class CardTensor(torch.Tensor):
    """A tensor on the card; its values lie in a CPU tensor, of which nobody else knows."""

    device = DEVICE
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, values: torch.Tensor, storage: CardStorage):
        like = values.shape, values.stride(), values.storage_offset()
        made = torch.Tensor._make_wrapper_subclass(cls, *like, dtype=values.dtype)
        made.on_cpu, made.on_card = values, storage
        return made

    def untyped_storage(self) -> CardStorage:
        return self.on_card

    def __repr__(self) -> str:
        return f"CardTensor({tuple(self.shape)})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        """Compute on the CPU; whatever lies in a new storage there lies in a new one here."""
        storages, known = {}, {}

        def on_cpu(x):
            if not isinstance(x, CardTensor):
                return x
            storages[x.on_cpu.untyped_storage()._cdata] = x.on_card
            known[id(x.on_cpu)] = x
            return x.on_cpu

        args, kwargs = tree_map(on_cpu, (args, kwargs or {}))
        card = next(iter(storages.values()))._card

        def on_card(x):
            if not isinstance(x, torch.Tensor) or id(x) in known:
                return known.get(id(x), x)
            storage = x.untyped_storage()
            if storage._cdata not in storages:
                storages[storage._cdata] = CardStorage(card, storage.nbytes(), stack_of(func))
            return CardTensor(x, storages[storage._cdata])

        return tree_map(on_card, func(*args, **kwargs))


def stack_of(func) -> list[str]:
    """What C++ would have on its call stack where an operator allocates, innermost first."""
    name, overload = func._schema.name.removeprefix("aten::"), func._schema.overload_name
    frames = [f"at::_ops::{name}{'_' if overload else ''}{overload}::call(at::Tensor const&)"]
    if name == "_to_copy" and _is_in_autocast_s_kernel():
        frames.append(CAST)
    node = torch._C._current_autograd_node()
    if node is not None:
        called = node.name().rsplit("::", 1)[-1]
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            called = "PyNode"
        is_engine_s = name == "add" and not called.startswith("Add") and not torch.is_grad_enabled()
        if not is_engine_s:  # autograd adds gradients up when the node has returned
            frames.append(f"torch::autograd::generated::{called}::apply(std::vector<at::Tensor>&&)")
        frames.append(ENGINE)
    if threading.current_thread() is not threading.main_thread():
        frames.append("_bootstrap")
    return frames


def _is_in_autocast_s_kernel() -> bool:
    """Inside of autocast, and of an operator whose arguments it casts: there it is off."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting() > 0 and not torch.is_autocast_enabled("cpu")


class Card:
    """The card's allocator, its memory history, and what PyTorch is asked of them."""

    def __init__(self) -> None:
        self.entries: list[dict] = []
        self.is_there, self.is_recorded = True, False
        self.allocator = CachingAllocator(GiB, lambda *segment: self._note(*segment))
        self._frames: dict[int, list[str]] = {}
        self._other = CachingAllocator(GiB)
        self._other.malloc(12_345)

    def tensor(self, values: torch.Tensor) -> CardTensor:
        """As `values.to("cuda")`."""
        values = values.detach().clone()
        frames = ["at::_ops::_to_copy::call(at::Tensor const&)"]
        return CardTensor(values, CardStorage(self, values.untyped_storage().nbytes(), frames))

    def model(self, module: nn.Module) -> nn.Module:
        """As `module.to("cuda")`."""
        return moved(module, self.tensor)

    def malloc(self, n_bytes: int, frames: list[str] = ()):
        """A block, which the allocator does not free by itself."""
        try:
            block = self.allocator.malloc(n_bytes)
        except OutOfMemory as error:
            self._note("oom", None, n_bytes, frames)
            raise torch.OutOfMemoryError("CUDA out of memory.") from error
        self._frames[block.address] = frames
        self._note("alloc", block.address, n_bytes, frames)
        return block

    def free(self, block) -> None:
        frames = self._frames.pop(block.address)
        for action in ("free_requested", "free_completed"):
            self._note(action, block.address, block.requested_bytes, frames)
        self.allocator.free(block)

    def _note(self, action: str, address: int | None, n_bytes: int, frames: list[str] = ()) -> None:
        if self.is_recorded:
            about = {"size": n_bytes, "stream": 0, "time_us": len(self.entries), "pool_id": (0, 0)}
            where = {"device_free": 0} if address is None else {"addr": address}
            named = {"frames": [{"name": name, "filename": "??", "line": 0} for name in frames]}
            self.entries.append({"action": action} | where | about | ({} if action == "segment_free" else named))

    # what stands in torch._C

    def stats(self, index: int) -> dict:
        nested: dict = {}
        for key, value in (self.allocator if index == DEVICE.index else self._other).memory_stats().items():
            *path, name = key.split(".")
            inner = nested
            for part in path:
                inner = inner.setdefault(part, {})
            inner[name] = value
        return nested

    def reset_accumulated(self, index: int) -> None:
        self.allocator.reset_accumulated_memory_stats()

    def snapshot(self, _pool=None) -> dict:
        both = enumerate((self._other, self.allocator))
        segments = [segment | {"device": index} for index, one in both for segment in one.memory_snapshot()]
        other = {"action": "alloc", "addr": 1, "size": 7, "stream": 0, "time_us": 0, "frames": []}
        return {"segments": segments, "device_traces": [[other], list(self.entries)], "external_annotations": []}

    def record(self, enabled: str | None, *_settings) -> None:
        self.is_recorded = enabled is not None
        if not self.is_recorded:
            self.entries.clear()


def moved(module: nn.Module, place) -> nn.Module:
    """The module with its parameters and buffers where `place` puts them."""
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                part._parameters[name] = nn.Parameter(place(parameter.detach()), parameter.requires_grad)
        for name, buffer in part._buffers.items():
            part._buffers[name] = place(buffer)
    return module


@contextmanager
def pretended_card() -> Iterator[Card]:
    """A card on which `LiveGPU` works."""
    card = Card()
    answers = {
        "_cuda_memoryStats": card.stats,
        "_cuda_memorySnapshot": card.snapshot,
        "_cuda_record_memory_history": card.record,
        "_cuda_isHistoryEnabled": lambda: card.is_recorded,
        "_cuda_resetAccumulatedMemoryStats": card.reset_accumulated,
    }
    names = {
        "_initialized": True,
        "is_available": lambda: True,
        "device_count": lambda: DEVICE.index + 1,
        "current_device": lambda: DEVICE.index,
        "get_device_name": lambda device=None: "a pretended card",
        "synchronize": lambda device=None: None,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, answer in answers.items():
            patch.setattr(torch._C, name, answer, raising=False)
        for name, answer in names.items():
            patch.setattr(torch.cuda, name, answer)
        try:
            yield card
        finally:
            card.is_there = False
