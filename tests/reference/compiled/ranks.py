"""Several GPUs under `torch.compile`, as one rank of two finds them: the others are PyTorch's `fake` process group."""

from contextlib import contextmanager

import torch
import torch.distributed as dist
from marked_steps import same, steps, tokens
from parts import GPT
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore


@contextmanager
def _two_ranks():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        yield
    finally:
        dist.destroy_process_group()


def _with_ddp(model):
    def exchanged(_state, bucket):  # the fake group's own has no result
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    ddp = DistributedDataParallel(model, device_ids=[0])
    ddp.register_comm_hook(None, exchanged)
    return ddp


def ddp_compiled():
    with _two_ranks():
        model = GPT(layers=3).cuda()
        yield from steps(torch.compile(_with_ddp(model)), model, same(tokens(3, 256), tokens(3, 256)))


def ddp_of_compiled_blocks():
    with _two_ranks():
        model = GPT(layers=3).cuda()
        for block in model.blocks:
            block.compile()
        yield from steps(_with_ddp(model), model, same(tokens(3, 256), tokens(3, 256)))


def fsdp2_of_compiled_blocks():
    with _two_ranks():
        model = GPT(layers=3).cuda()
        for block in model.blocks:
            block.compile()
            fully_shard(block)
        fully_shard(model)
        yield from steps(model, model, same(tokens(3, 256), tokens(3, 256)))
