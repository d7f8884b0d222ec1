"""Splits a Block or a GPT over ranks: tensor parallel, with or without sequence parallel, by PyTorch's own styles."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.utils import parametrize

from every_byte.gpu.ranks import is_real
from utils.layers import Block

from .gpt import GPT, Model, blocks_of

QKV = 3
"""Three matrices lie one below the other in the weight of qkv, and a rank has its heads of each."""


def tensor_parallel(model: Model, mesh: DeviceMesh, *, sequence: bool = False) -> Model:
    """Split a Block or a GPT over the ranks of a mesh: it keeps this rank's share of its weights, and is returned.

    A rank gets 1/t of the heads, of the MLP's hidden numbers and of the vocabulary. Everything in between (norms,
    dropout, the residual stream x) is whole on each rank or, with `sequence`, 1/t of the positions: a Block then takes
    and returns x[b, s/t, d]. A GPT takes the same tokens and targets on every rank; its logits are a DTensor, split
    over V. Each rank cuts its share out of its own copy, so all must make the same model from the same seed. They then
    draw the same numbers for dropout, each for its own heads and positions.

    Shapes: x[b, s, d] -> q, k, v[b, a/t, s, d/a], h[b, s, 4d/t] -> y[b, s, d]; logits[b, s, V/t]
    Raises: TypeError for another model; ValueError if the ranks do not divide the heads, the vocabulary or, when it
            runs, the positions; if their seeds differ; and for a model that is already split.
    Source: Korthikanti et al. 2022, section 4.2; `parallelize_module` of torch.distributed.tensor.parallel.
    """
    if not isinstance(model, Block | GPT):
        raise TypeError(f"model must be a Block or a GPT of this book: got {type(model).__name__}.")
    blocks: dict[str, Block]
    if isinstance(model, GPT):
        blocks = {f"blocks.{i}.": block for i, block in enumerate(blocks_of(model))}
    else:
        blocks = {"": model}
    _check(model, list(blocks.values()), mesh)
    plan = {prefix + name: style for prefix in blocks for name, style in _block_plan(sequence).items()}
    if isinstance(model, GPT):
        plan |= _gpt_plan(sequence)
    parallelize_module(model, mesh, plan, src_data_rank=None)
    for block in blocks.values():
        block.attention.n_heads //= mesh.size()
    if isinstance(model, GPT):
        model.head.weight = model.tokens.weight  # one again, after each was cut
        if sequence:
            model.register_forward_pre_hook(partial(_check_positions, mesh.size()))
    return model


def plain_shares(model: Model) -> Model:
    """Have a split model's parameters be plain tensors, this rank's shares, as DDP wants them; returns it.

    Its modules go on seeing the DTensors that they are shares of. Parameters have other names then.

    PyTorch's own `_pre_dp_module_transform` leaves a model without parameters after its first forward.

    Raises: TypeError for another model, as one that is sharded.
    """
    if type(model) not in (Block, GPT):
        raise TypeError(f"model must be a Block or a GPT that tensor_parallel has split: got {type(model).__name__}.")
    own: dict[nn.Parameter, nn.Parameter] = {}
    for name, whole in list(model.named_parameters(remove_duplicate=False)):
        if isinstance(whole, DTensor):
            module, _, key = name.rpartition(".")
            share = own.setdefault(whole, nn.Parameter(whole.to_local().detach(), whole.requires_grad))
            model.get_submodule(module).register_parameter(key, share)
            parametrize.register_parametrization(model.get_submodule(module), key, _Share(whole), unsafe=True)
    return model


def own_share(whole: torch.Tensor, mesh: DeviceMesh, dim: int, *, parts: int = 1) -> torch.Tensor:
    """This rank's share of a tensor that is split along `dim`; of a stack of several `parts`, its share of each.

    Shapes: whole[..., n, ...] -> [..., n/t, ...]
    """
    t, rank = mesh.size(), mesh.get_local_rank()
    return torch.cat([part.chunk(t, dim)[rank] for part in whole.chunk(parts, dim)], dim)


class _Share(nn.Module):
    """A rank's share of a tensor, seen as the DTensor that it is a share of."""

    def __init__(self, whole: DTensor) -> None:
        super().__init__()
        self.mesh, self.placements = whole.device_mesh, whole.placements

    def forward(self, share: torch.Tensor) -> DTensor:
        return DTensor.from_local(share, self.mesh, self.placements, run_check=False)


class _QKVParallel(ColwiseParallel):
    """As ColwiseParallel, but a rank's rows are those of its heads: some of q's, of k's and of v's."""

    def _partition_linear_fn(self, name: str, module: nn.Module, device_mesh: DeviceMesh) -> None:
        for key, parameter in list(module.named_parameters()):
            share = own_share(parameter.detach(), device_mesh, 0, parts=QKV)
            split = DTensor.from_local(share, device_mesh, [Shard(0)], run_check=False)
            module.register_parameter(key, nn.Parameter(split, requires_grad=parameter.requires_grad))


class _Whole(SequenceParallel):
    """Parameters and input are whole on each rank, and so is what each of them makes, all the same."""

    def __init__(self) -> None:
        super().__init__(use_local_output=True)
        self.sequence_sharding = (Replicate(),)  # type: ignore[assignment]  # PyTorch declares a Shard


class _OwnPositions(SequenceParallel):
    """Each rank has all positions' numbers, and looks up its own."""

    def __init__(self) -> None:
        super().__init__(sequence_dim=0, use_local_output=True)

    @staticmethod
    def _prepare_input_fn(
        sequence_sharding: Sequence[Placement],
        mod: nn.Module,
        inputs: tuple[torch.Tensor, ...],
        device_mesh: DeviceMesh,
    ) -> DTensor:
        whole = DTensor.from_local(inputs[0], device_mesh, [Replicate()], run_check=False)
        return whole.redistribute(placements=sequence_sharding)


def _block_plan(sequence: bool) -> dict[str, ParallelStyle]:
    """What enters qkv and up is whole; what leaves out and down is added up, over all ranks."""
    between: Placement = Shard(1) if sequence else Replicate()
    norm = SequenceParallel() if sequence else _Whole()
    return {
        "norm1": norm,
        "attention.qkv": _QKVParallel(input_layouts=between),
        "attention.out": RowwiseParallel(output_layouts=between),
        "norm2": norm,
        "mlp.up": ColwiseParallel(input_layouts=between),
        "mlp.down": RowwiseParallel(output_layouts=between),
    }


def _gpt_plan(sequence: bool) -> dict[str, ParallelStyle]:
    """Each rank looks up the tokens of its part of the vocabulary, and has their logits."""
    between: Placement = Shard(1) if sequence else Replicate()
    return {
        "tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=between),
        "positions": _OwnPositions() if sequence else _Whole(),
        "norm": SequenceParallel() if sequence else _Whole(),
        "head": ColwiseParallel(input_layouts=between, use_local_output=False),
    }


def _check(model: nn.Module, blocks: list[Block], mesh: DeviceMesh) -> None:
    t = mesh.size()
    is_split = any(isinstance(parameter, DTensor) for parameter in model.parameters())
    if is_split or any(map(parametrize.is_parametrized, model.modules())):  # as `plain_shares` has them
        raise ValueError("model must be whole: this one is split over ranks already; make it again.")
    for block in blocks:
        _check_divides(t, "n_heads", block.attention.n_heads, "heads")
    if isinstance(model, GPT):
        _check_divides(t, "vocabulary_size", model.tokens.num_embeddings, "tokens, unused ones at the end,")
    if is_real():
        seeds: list[Any] = [None] * t
        dist.all_gather_object(seeds, torch.initial_seed(), group=mesh.get_group())
        if len(set(seeds)) > 1:
            raise ValueError(
                "all ranks must make the same model: their seeds differ; call torch.manual_seed(0) on each before "
                "the model is made."
            )


def _check_divides(t: int, name: str, n: int, what: str) -> None:
    if n % t:
        fewer = max(k for k in range(1, t) if n % k == 0)
        raise ValueError(
            f"the number of ranks must divide {name}: got {t} ranks, {name}={n}; take {fewer} "
            f"{'rank' if fewer == 1 else 'ranks'}, or {-(-n // t) * t} {what} for {t}."
        )


def _check_positions(t: int, model: GPT, args: tuple[torch.Tensor, ...]) -> None:
    s = args[0].shape[1]
    if s % t:
        raise ValueError(
            f"the number of ranks must divide the positions, with sequence=True: got {t} ranks, s={s}; take "
            f"s={s // t * t or t}."
        )
