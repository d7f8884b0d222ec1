"""What lets FSDP2 shard a model on a simulated GPU.

FSDP2 asks for the device by name and refuses parameters on `meta`, which it takes for parameters that are still to be
made. While a simulated GPU is open, `meta` is the GPU, with the streams of streams.py; unless that stands for "cuda".
Source: torch/distributed/fsdp/_fully_shard.
"""

import torch
from torch.distributed.fsdp._fully_shard import _fsdp_collectives, _fsdp_param_group, _fsdp_state, _fully_shard

from every_byte.gpu.memory.modes import attached, standing_for_cuda

from . import streams
from .replacing import Function, Undo, all_of, replaced


def shard_on_meta() -> Undo:
    """Make FSDP2 take a simulated GPU for what it is. Returns what undoes it."""

    def device_of(original: Function) -> Function:
        return lambda mesh: torch.device("meta") if _is_meta() else original(mesh)

    def streams_of(original: Function) -> Function:
        return lambda device_type: streams if device_type == "meta" and _is_meta() else original(device_type)

    def accepting(original: Function) -> Function:
        return lambda group: None if _is_meta() else original(group)

    askers = _fsdp_collectives, _fsdp_param_group, _fsdp_state
    handles = [replaced(module, "_get_device_handle", streams_of) for module in askers]
    device = replaced(_fully_shard, "_get_device_from_mesh", device_of)
    group = replaced(_fsdp_param_group.FSDPParamGroup, "_validate_no_meta_params", accepting)
    return all_of([*handles, device, group])


def _is_meta() -> bool:
    """Whether the open GPU is what a program knows as meta."""
    return bool(attached()) and standing_for_cuda() is None
