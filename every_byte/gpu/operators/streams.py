"""What a program tells the allocator of CUDA's streams: that another one uses a tensor."""

import torch
from torch import Tensor

from .registry import Call, allocates, returns

aten = torch.ops.aten


@returns(aten.record_stream.default)
def recorded(tensor: Tensor, stream: torch.Stream) -> None:
    """Nothing."""


@allocates(aten.record_stream.default)
def note_the_use(call: Call) -> None:
    """The tensor's block will wait for that stream, once it is freed.

    Source: recordStream in c10/cuda/CUDACachingAllocator.cpp.
    """
    tensor, stream = call.args
    if stream.device.type != "meta" or stream.stream_id > call.memory.streams.n_made:
        raise RuntimeError(
            f"record_stream needs a stream of the tensor's own GPU, {call.memory.spec.name}: got {stream}; make it "
            "there, by gpu.Stream()."
        )
    call.memory.record_stream(tensor, stream.stream_id)
