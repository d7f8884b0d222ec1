"""Blocks of several shapes, each with another attention, whose operations the tests of policies record."""

import torch

from utils import Block

SHAPES = {
    "flash": dict(d=64, a=2, s=48, settings={}),
    "flash, dropout": dict(d=96, a=3, s=33, settings=dict(dropout_prob=0.1)),
    "explicit": dict(d=64, a=4, s=40, settings=dict(kind="explicit", context_length=50, dropout_prob=0.2)),
    "efficient": dict(d=64, a=2, s=48, settings=dict(dtype=torch.float32)),
}


def made(gpu, name: str, act_fn="gelu", b=3):
    shape = SHAPES[name]
    settings = dict(device=gpu.device, dtype=torch.bfloat16) | shape["settings"]
    block = Block(shape["d"], shape["a"], act_fn, **settings)
    x = torch.empty(b, shape["s"], shape["d"], device=gpu.device, dtype=settings["dtype"], requires_grad=True)
    return block, x
