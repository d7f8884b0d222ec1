"""Sees what FSDP2 and DDP exchange on a live GPU, and whose memory that is; and storages that are resized."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from every_byte.gpu.patches.backward import watch
from every_byte.gpu.patches.replacing import Changes, Function, Maker, Undo, all_of, replaced
from every_byte.palette import Category

_FSDP = "torch.distributed.fsdp._fully_shard._fsdp_collectives"
_Said = list[tuple[torch.Tensor, str]]
_Say = Callable[..., _Said]
"""Which tensors a call has, each with what it is."""


def _see_exchanges() -> Undo:
    """From now on note the tensors of these calls, as operators/exchanges.py does; returns what ends it."""
    if not dist.is_available():
        return lambda: None
    changes: list[tuple[object, str, Maker]] = [
        (torch, "split_with_sizes_copy", _of_fsdp(_gathered_in_parts)),
        (torch, "_chunk_cat", _of_fsdp(_chunks)),
        *((dist, name, _noting(_gathered)) for name in ("all_gather_single", "all_gather_into_tensor")),
        *((dist, name, _noting(_scattered)) for name in ("reduce_scatter_single", "reduce_scatter_tensor")),
        (dist, "all_reduce", _noting(_summed)),
    ]
    known = [change for change in changes if hasattr(*change[:2])]  # the names changed with PyTorch 2.13
    return all_of([replaced(*change) for change in known])


def _noting(say: _Say) -> Callable[[Function], Function]:
    """Note, when the call is through, what `say(*args, **kwargs)` says of its tensors."""

    def seeing(original: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            for recording in watch:
                if recording.memory.is_watched():
                    for tensor, category in say(*args, **kwargs):
                        recording.observer.note(tensor, category)
            return result

        return call

    return seeing


def _of_fsdp(say: _Say) -> Maker:
    """The same of calls from FSDP2's own code alone."""

    def seeing(original: Function) -> Function:
        noting = _noting(say)(original)

        def call(*args: Any, **kwargs: Any) -> Any:
            is_its_own = sys._getframe(1).f_globals.get("__name__") == _FSDP
            return (noting if is_its_own else original)(*args, **kwargs)

        return call

    return seeing


def _gathered_in_parts(*_args: Any, out: Sequence[torch.Tensor], **_kwargs: Any) -> _Said:
    return [(tensor, Category.GATHERED_PARAMETERS) for tensor in out]


def _chunks(tensors: Sequence[torch.Tensor], *_args: Any, **_kwargs: Any) -> _Said:
    return [(tensor, Category.GRADIENTS) for tensor in tensors]


def _gathered(output_tensor: torch.Tensor, *_args: Any, **_kwargs: Any) -> _Said:
    return [(output_tensor, Category.GATHERED_PARAMETERS)]


def _scattered(output: torch.Tensor, input: torch.Tensor, *_args: Any, **_kwargs: Any) -> _Said:
    return [(input, Category.GRADIENT_BUCKETS), (output, Category.GRADIENTS)]


def _summed(tensor: torch.Tensor, *_args: Any, **_kwargs: Any) -> _Said:
    """During backward it is gradients that are summed."""
    return [(tensor, Category.GRADIENT_BUCKETS)] if torch._C._current_graph_task_id() != -1 else []


def _see_resized_storages() -> Undo:
    """FSDP2 gives a parameter's storage back and takes it again, often at the same address: another allocation."""

    def seeing(original: Function) -> Function:
        def resize_(storage: torch.UntypedStorage, n_bytes: int) -> Any:
            for recording in watch:
                recording.memory.forget(storage)
            return original(storage, n_bytes)

        return resize_

    return replaced(torch.UntypedStorage, "resize_", seeing)


EXCHANGES = Changes([_see_exchanges, _see_resized_storages])
"""Open while a live GPU is recorded."""
