"""Kernels in Triton: of the Liger Kernel, and written here, tuned, and registered as operators."""

import torch
import triton
import triton.language as tl
from liger_kernel.transformers import (
    LigerCrossEntropyLoss,
    LigerFusedLinearCrossEntropyLoss,
    LigerGEGLUMLP,
    LigerLayerNorm,
    LigerRMSNorm,
    LigerSwiGLUMLP,
)
from marked_steps import noise, same, steps, tokens
from torch import nn
from torch.nn import functional as F


class _Sizes:
    """What the Liger Kernel reads of a model's configuration."""

    hidden_size, intermediate_size, hidden_act = 512, 1408, "silu"


class _Block(nn.Module):
    def __init__(self, norm, mlp):
        super().__init__()
        self.norm, self.mlp = norm(512), mlp(_Sizes())

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class _Model(nn.Module):
    def __init__(self, norm=LigerRMSNorm, mlp=LigerSwiGLUMLP, fused=True):
        super().__init__()
        self.fused = fused
        self.embedding = nn.Embedding(8000, 512)
        self.blocks = nn.Sequential(*(_Block(norm, mlp) for _ in range(2)))
        self.head = nn.Linear(512, 8000, bias=False)
        self.loss = LigerFusedLinearCrossEntropyLoss() if fused else LigerCrossEntropyLoss()

    def forward(self, x, y):
        x = self.blocks(self.embedding(x)).flatten(0, 1)
        return self.loss(self.head.weight, x, y.flatten()) if self.fused else self.loss(self.head(x), y.flatten())


def _liger(**kwargs):
    def program():
        dtype = kwargs.pop("dtype", torch.float32)
        model = _Model(**kwargs).cuda().to(dtype)
        yield from steps(model, model, same(tokens(4, 256, n=8000), tokens(4, 256, n=8000)))

    return program


liger_in_bfloat16 = _liger(dtype=torch.bfloat16)
liger_in_float32 = _liger()
liger_with_its_loss_alone = _liger(fused=False)
liger_with_layer_norm_and_geglu = _liger(norm=LigerLayerNorm, mlp=LigerGEGLUMLP)


@triton.jit
def _scaled(x, y, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * scale, at < n)


def _scale(x, scale, kernel=_scaled):
    y = torch.empty_like(x)
    kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), scale, BLOCK=1024)
    return y


class _Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return _scale(x, scale)

    @staticmethod
    def backward(ctx, gradient):
        return _scale(gradient, ctx.scale), None


def _mlp_that_scales(scale):
    model = nn.Sequential(nn.Linear(512, 2048), nn.Linear(2048, 512)).cuda()
    yield from steps(
        lambda x, y: F.mse_loss(model[1](scale(model[0](x))), y), model, same(noise(256, 512), noise(256, 512))
    )


def a_kernel_of_ones_own():
    yield from _mlp_that_scales(lambda x: _Scale.apply(x, 0.5))


@torch.library.custom_op("every_byte_tests::halved", mutates_args=(), device_types="cuda")
def _halved(x: torch.Tensor) -> torch.Tensor:
    scratch = torch.empty(x.numel(), device=x.device, dtype=torch.float64)
    del scratch
    return _scale(x, 0.5)


_halved.register_fake(torch.empty_like)
_halved.register_autograd(lambda ctx, gradient: torch.ops.every_byte_tests.halved(gradient))


def an_operator_of_ones_own():
    yield from _mlp_that_scales(torch.ops.every_byte_tests.halved)


@triton.autotune([triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 2048})], key=["n"])
@triton.jit
def _tuned(x, y, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * scale, at < n)


def _tuned_scale(x):
    y = torch.empty_like(x)
    _tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), 0.5)
    return y


def a_tuned_kernel():
    torch.cuda.Event.elapsed_time = lambda *_: (
        1.0
    )  # the stand-in for CUDA has no clock, and this process no other program
    for n in (1000, 1000, 5000, 1000):
        x = noise(n)
        y = _tuned_scale(x)
        yield f"{n} made"
        del x, y
        yield f"{n} gone"
