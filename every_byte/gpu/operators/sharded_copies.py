"""What FSDP2's copies between buffers and parameters allocate.

Source: aten/src/ATen/native/cuda/TensorShape.cu.
"""

from math import ceil, prod, sqrt

import torch
from torch.distributed.fsdp._fully_shard import _fsdp_collectives  # noqa: F401  (defines the operators)

from every_byte.gpu.memory.modes import attached
from every_byte.palette import Category

from .exchanges import note
from .launch.tensor_iterator import is_dense
from .launch.units import div_up
from .registry import Call, allocates

aten, fsdp = torch.ops.aten, torch.ops.fsdp
TILE_BYTES, BLOCK_THREADS, NUMBER_BYTES = 2048, 128, 8
OVERSUBSCRIBED = 2


@allocates(fsdp.all_gather_copy_in.default)
def copy_in(call: Call) -> None:
    """This rank's shares are copied to their place in the buffer, a view of it."""


@allocates(fsdp.split_with_sizes_copy.default, aten.split_with_sizes_copy.out)
def split_copy(call: Call) -> None:
    """Where and how much to copy, as numbers on the GPU: as many blocks work on a part as its size takes."""
    source, sizes = call.args[:2]
    dim, outputs = call.argument(2, "dim", 0), call.kwargs["out"]
    for tensor in outputs if call.func is fsdp.split_with_sizes_copy.default else ():
        note(call, tensor, Category.GATHERED_PARAMETERS)
    if not all(tensor.is_contiguous() and tensor.dtype == source.dtype for tensor in (source, *outputs)):
        return
    dim %= source.dim()
    row_bytes = prod(source.shape[dim + 1 :]) * source.element_size()
    parts, n_rows = [size * row_bytes for size in sizes], prod(source.shape[:dim])
    spec = call.memory.spec
    most = OVERSUBSCRIBED * (spec.multiprocessors * spec.threads_per_multiprocessor // BLOCK_THREADS)
    rounds = div_up(sum(div_up(part, TILE_BYTES) for part in parts) * n_rows, most)
    rounds = div_up(rounds, min(ceil(sqrt(rounds)), n_rows))
    blocks = sum(div_up(part, TILE_BYTES * rounds) for part in parts)
    call.allocate_and_free(NUMBER_BYTES * (4 * len(parts) + 1 + blocks))


@allocates(fsdp.chunk_cat.default, aten._chunk_cat.out)
def concatenate_chunks(call: Call) -> None:
    """The same for gradients, which are padded to shares of one size; those that are converted otherwise are padded
    one by one, which is not modelled."""
    tensors, dim, n_chunks = call.args[:3]
    out = call.argument(3, "out")
    for tensor in tensors if call.func is fsdp.chunk_cat.default else ():
        note(call, tensor, Category.GRADIENTS)
    converts = tensors[0].dtype != out.dtype
    if not all(map(is_dense, tensors)) or converts and (tensors[0].dtype, out.dtype) != (torch.bfloat16, torch.float32):
        attached()[-1].not_modelled(f"{call.func.name()} from {tensors[0].dtype} to {out.dtype}")
        return
    dim %= tensors[0].dim()
    rows = [div_up(x.shape[dim], n_chunks) for x in tensors]
    parts = [n * prod(x.shape[dim + 1 :]) * out.element_size() for n, x in zip(rows, tensors, strict=True)]
    blocks = sum(div_up(part, TILE_BYTES) for part in parts)
    call.allocate_and_free(NUMBER_BYTES * (6 * len(parts) + 2 + blocks))
