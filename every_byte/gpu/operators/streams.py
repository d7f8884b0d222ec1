"""What a program tells the allocator of CUDA's streams: that another one uses a tensor."""

import torch

from .registry import Call, returns, takes

aten = torch.ops.aten


@returns(aten.record_stream.default)
def recorded(tensor: torch.Tensor, stream: torch.Stream) -> None:
    """Nothing."""


@takes(aten.record_stream.default)
def note_the_use(call: Call) -> None:
    """The tensor's block will wait for that stream, once it is freed.

    Source: recordStream in c10/cuda/CUDACachingAllocator.cpp.
    """
    tensor, stream = call.args
    call.memory.record_stream(tensor, stream.stream_id)
