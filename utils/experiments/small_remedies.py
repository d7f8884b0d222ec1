"""The small remedies for a run that does not fit, each with what is requested of the GPU without it and with it."""

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks

from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.ledger import Ledger
from utils.contexts import SavedTensorContext
from utils.layers import check_positive
from utils.models.adapters import with_adapters
from utils.models.llama import SIZES, Llama

from .llama_step import LlamaStep
from .readings import requested
from .step_run import roomy_gpu, zeros_for_granted

Given: TypeAlias = tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]  # to a layer: x, and its positions' tables


@dataclass(frozen=True)
class Change:
    """What a remedy does to the bytes requested at some instant.

    Unit: bytes.
    """

    before_bytes: int
    after_bytes: int

    @property
    def saved_bytes(self) -> int:
        """What it saves; less than 0 where it takes more."""
        return self.before_bytes - self.after_bytes


def changed_step(without: dict[str, Any], with_it: dict[str, Any], **both: Any) -> dict[str, Change]:
    """What a setting of `LlamaStep` changes in the second step: at the "end of forward", and at the "peak".

    Raises: ValueError as `LlamaStep` does.
    """
    runs = [LlamaStep(**both | settings).run() for settings in (without, with_it)]
    instants = {
        "end of forward": [run.trace.position("step 2 forward") for run in runs],
        "peak": [run.peak for run in runs],
    }
    return {
        name: Change(*(Ledger.at(run.trace, at).requested_bytes for run, at in zip(runs, positions, strict=True)))
        for name, positions in instants.items()
    }


def set_to_none(model: str = "llama-3.2-1b", s: int = 2048) -> dict[str, Change]:
    """Gradients that are zeros between two steps, and gradients that are gone."""
    return changed_step({"sets_to_none": False}, {"sets_to_none": True}, model=model, s=s)


def logits_let_go(model: str = "llama-3.2-1b", s: int = 2048) -> dict[str, Change]:
    """A name that holds the logits till the next forward, and none."""
    return changed_step({"keeps_logits": True}, {"keeps_logits": False}, model=model, s=s)


def kept_by_layer(rank: int, names: Collection[str] = (), *, model: str = "llama-3-8b", s: int = 1024) -> int:
    """What one layer of a frozen Llama with adapters keeps for backward, in bfloat16; of rank 0, one that is trained.

    Counts: what two layers keep less what one keeps: the layer's input, and nothing of embedding, last norm and head.
            The layer before it has adapters, so that the input has a gradient.
    Unit:   bytes, for s tokens.
    """
    one, two = (_kept(rank, names, model, s, n_layers) for n_layers in (1, 2))
    return two - one


def _kept(rank: int, names: Collection[str], model: str, s: int, n_layers: int) -> int:
    with roomy_gpu("h200-141gb") as gpu:
        llama = Llama.from_name(model, n_layers=n_layers, context_length=s, device=gpu.device, dtype=torch.bfloat16)
        if rank:
            with_adapters(llama, rank, names)
        tokens = torch.zeros(1, s, dtype=torch.long, device=gpu.device)
        with SavedTensorContext(llama.parameters()) as saved:
            results = llama(tokens, tokens)
        kept_bytes = saved.saved_tensor_mem
        del results
        return kept_bytes


@dataclass(frozen=True)
class SavedElsewhere:
    """What one layer's forward gives `save_on_cpu` to keep, and what the GPU holds and needs with it and without.

    `packed_bytes`: each tensor as often as it is saved, of them `weights_bytes` parameters. `once_bytes`: storages
    once, without parameters. `held`: after forward, beside the layer's input, tables and output. `backward`: at most
    above what stood before forward.

    Unit: bytes.
    """

    packed_bytes: int
    weights_bytes: int
    once_bytes: int
    held: Change
    backward: Change


def saved_on_cpu(model: str = "llama-3-8b", s: int = 8192) -> SavedElsewhere:
    """`save_on_cpu` around one layer of a Llama in bfloat16, s tokens, whose input has a gradient.

    Counts: not what the host holds beside it.
    """
    with SimulatedGPU("h200-141gb") as gpu, zeros_for_granted():
        llama = Llama.from_name(model, n_layers=1, context_length=s, device=gpu.device, dtype=torch.bfloat16)
        x = torch.empty(1, s, SIZES[model]["d_model"], device=gpu.device, dtype=torch.bfloat16, requires_grad=True)
        given = x, llama.rotation(s, torch.bfloat16)
        sums = _packed(llama, given)
        gpu.load_libraries()
        readings = [_layer(gpu, llama.blocks[0], given, context) for context in (_nothing, save_on_cpu)]
    held, backward = (Change(*pair) for pair in zip(*readings, strict=True))
    return SavedElsewhere(*sums, held, backward)


def _packed(llama: Llama, given: Given) -> tuple[int, int, int]:
    """The bytes that the first layer's forward saves: all, of them weights, and storages once without weights."""
    packed: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        y = llama.blocks[0](*given)
    weights = {parameter.untyped_storage()._cdata for parameter in llama.parameters()}
    by_storage = [(tensor.untyped_storage(), tensor.nbytes) for tensor in packed]
    of_weights = [n_bytes for storage, n_bytes in by_storage if storage._cdata in weights]
    once = {storage._cdata: storage.nbytes() for storage, _ in by_storage if storage._cdata not in weights}
    del y
    return sum(n_bytes for _, n_bytes in by_storage), sum(of_weights), sum(once.values())


def _nothing() -> saved_tensors_hooks:
    return saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)


def _layer(
    gpu: GPU, layer: nn.Module, given: Given, context: Callable[[], AbstractContextManager[Any]]
) -> tuple[int, int]:
    """What stands after a layer's forward without its output, and the most in backward, above what stood before."""
    before = requested(gpu)
    with context():
        y = layer(*given)
    held_bytes = requested(gpu) - before - y.nbytes
    gpu.reset_peak_memory_stats()
    y.backward(torch.empty_like(y))
    most_bytes = requested(gpu, "peak") - before
    del y
    layer.zero_grad()
    given[0].grad = None
    return held_bytes, most_bytes


@dataclass(frozen=True)
class InChunks:
    """What PyTorch's own head and loss request above their inputs: kept, and at the most in forward and backward.

    Unit: bytes.
    """

    kept_bytes: int
    forward_bytes: int
    backward_bytes: int


def linear_cross_entropy(
    *, T: int, d: int, V: int, dtype: torch.dtype = torch.bfloat16, in_chunks: bool = True
) -> InChunks:
    """`F.linear_cross_entropy` on T rows, with `LinearCrossEntropyOptions()` if `in_chunks`, else as it is by default.

    Shapes: h[T, d], weight[V, d], targets[T] -> loss[]
    Raises: ValueError for sizes that are no positive integers.
    Source: torch/nn/modules/linear_cross_entropy.py.
    """
    check_positive(T=T, d=d, V=V)
    options = nn.LinearCrossEntropyOptions() if in_chunks else None
    with roomy_gpu("h200-141gb") as gpu:
        h, weight = (torch.empty(n, d, device=gpu.device, dtype=dtype, requires_grad=True) for n in (T, V))
        targets = torch.zeros(T, dtype=torch.long, device=gpu.device)
        gpu.load_libraries()
        before = requested(gpu)
        gpu.reset_peak_memory_stats()
        loss = F.linear_cross_entropy(h, weight, targets, options=options)
        kept_bytes, forward_bytes = requested(gpu) - before, requested(gpu, "peak") - before
        gpu.reset_peak_memory_stats()
        loss.backward()
        return InChunks(kept_bytes, forward_bytes, requested(gpu, "peak") - before)


def rows_of_liger(*, T: int, d: int, V: int) -> int:
    """How many rows Liger's fused linear cross entropy takes at a time: T / (V/d), rounded up to a power of two.

    Then a chunk's logits are about as many numbers as h.

    Raises: ValueError for sizes that are no positive integers.
    Source: `fused_linear_cross_entropy_forward` of Liger Kernel.
    """
    check_positive(T=T, d=d, V=V)
    ratio = -(-V // d)
    return 1 << (-(-T // ratio) - 1).bit_length()
