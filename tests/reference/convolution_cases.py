"""More cases in the form of cases.py: what cuDNN takes part in, of which the stubs' says that it works in no memory.

Convolutions at random from a fixed seed, batch norm, and steps of small networks that have both. What cuDNN works in on
a card comes on top; all else is in order.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

CASES = {}
TYPES = (torch.float32, torch.float32, torch.bfloat16, torch.float16, torch.float64)
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100",)
    CASES[function.__name__] = function
    return function


def _lying(x, rng):
    return x.to(memory_format=CHANNELS_LAST[x.dim()]) if x.dim() in CHANNELS_LAST and rng.random() < 0.5 else x


def _run(env, rng, layer, x, name):
    y = layer(x)
    if y.requires_grad:
        if rng.random() < 0.3:
            y.sum().backward()
        else:
            y.backward(_lying(torch.empty(y.shape, dtype=y.dtype, device=env.device), rng))
    env.mark(name)


def _convolution(rng, channels, n_dims):
    """A layer: plain, strided, dilated, in groups, a channel at a time, transposed."""
    groups = rng.choice([1, 1, min(2, channels), channels])
    size, options = rng.randint(1, 4), {"groups": groups, "bias": rng.random() < 0.6, "stride": rng.randint(1, 2)}
    if rng.random() < 0.2:
        kind = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)[n_dims - 1]
        options["padding"] = rng.randint(0, size - 1)
    else:
        kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[n_dims - 1]
        options |= {"padding": rng.randint(0, 2), "dilation": rng.randint(1, 2)}
    return lambda **where: kind(channels, groups * rng.randint(1, 3), size, **options, **where)


@case
def convolved(env):
    rng = random.Random(41)
    for i in range(260):
        n_dims, channels, dtype = rng.randint(1, 3), rng.choice([1, 4, 8, 32]), rng.choice(TYPES)
        layer = _convolution(rng, channels, n_dims)(dtype=dtype, device=env.device)
        if n_dims > 1 and rng.random() < 0.4:
            layer.to(memory_format=CHANNELS_LAST[n_dims + 2])
        if rng.random() < 0.2:
            layer.weight.requires_grad_(False)
        shape = (rng.randint(1, 3), channels, *(rng.randint(8, 12) for _ in range(n_dims)))
        x = _lying(torch.empty(shape, dtype=dtype, device=env.device), rng).detach().requires_grad_(rng.random() < 0.7)
        _run(env, rng, layer, x, f"{type(layer).__name__} {i}")
        del layer, x


@case
def normed_by_batch(env):
    rng = random.Random(42)
    for i in range(120):
        n_dims, dtype = rng.randint(1, 3), rng.choice(TYPES)
        shape = (rng.randint(2, 5), rng.choice([1, 4, 20]), *(rng.randint(1, 9) for _ in range(n_dims)))
        kind = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)[n_dims - 1]
        norm = kind(shape[1], affine=rng.random() < 0.8, track_running_stats=rng.random() < 0.8, device=env.device)
        norm.to(rng.choice([torch.float32, dtype])).requires_grad_(rng.random() < 0.8).train(rng.random() < 0.6)
        if dtype is torch.float64:
            norm.double()
        x = _lying(torch.empty(shape, dtype=dtype, device=env.device), rng).detach().requires_grad_(rng.random() < 0.8)
        _run(env, rng, norm, x, f"{kind.__name__} {i}")
        del norm, x


class Residual(nn.Module):
    """Two convolutions around a shortcut, as in a ResNet."""

    def __init__(self, channels, wider, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, wider, 3, stride, 1, bias=False), nn.BatchNorm2d(wider))
        self.second = nn.Sequential(nn.Conv2d(wider, wider, 3, 1, 1, bias=False), nn.BatchNorm2d(wider))
        self.shortcut = nn.Sequential(nn.Conv2d(channels, wider, 1, stride, bias=False), nn.BatchNorm2d(wider))

    def forward(self, x):
        y = self.second(F.relu(self.first(x), inplace=True))
        y += self.shortcut(x)
        return F.relu(y, inplace=True)


class Wide(nn.Module):
    """A layer of a ConvNeXt: each channel alone, then all channels of each place."""

    def __init__(self, channels):
        super().__init__()
        self.each = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.all = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, 2 * channels), nn.GELU())
        self.back = nn.Linear(2 * channels, channels)

    def forward(self, x):
        return x + self.back(self.all(self.each(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


class Skipping(nn.Module):
    """A U-Net of two levels."""

    def __init__(self, norm):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), norm(8), nn.ReLU())
        self.middle = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), norm(16), nn.ReLU())
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        y = self.down(x)
        return self.last(torch.cat([self.up(self.middle(y)), y], 1)).flatten(2).mean(2)


def _classifier(*body, channels):
    return nn.Sequential(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 4))


NETWORKS = {
    "resnet": lambda: _classifier(
        nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1), Residual(8, 8, 1), Residual(8, 16, 2), channels=16
    ),
    "convnext": lambda: _classifier(nn.Conv2d(3, 16, 4, 4), Wide(16), Wide(16), channels=16),
    "u-net": lambda: Skipping(nn.BatchNorm2d),
    "u-net of groups": lambda: Skipping(lambda channels: nn.GroupNorm(4, channels)),
}


@case
def networks(env):
    """Two steps of each, with channels first and last, in float32 and under autocast of both half types."""
    kept = []  # to the end: the order in which a module's parts go is not what this is about
    for name, make in NETWORKS.items():
        for form in (torch.contiguous_format, torch.channels_last):
            for half in (None, torch.bfloat16, torch.float16):
                model = make().to(env.device, memory_format=form)
                optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
                for step in range(2):
                    x = torch.randn(4, 3, 32, 32, device=env.device).to(memory_format=form)
                    with torch.autocast("cuda", half or torch.bfloat16, enabled=half is not None):
                        loss = F.cross_entropy(model(x), torch.zeros(4, dtype=torch.int64, device=env.device))
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    del x, loss
                    env.mark(f"{name}, {form}, {half}, step {step}")
                kept.append((model, optimizer))


@case
def convolved_twice(env):
    rng = random.Random(25)
    for i in range(24):
        groups, n_dims, is_transposed = rng.choice([1, 1, 1, 2, 4]), rng.choice([1, 2, 2, 2, 3]), rng.random() < 0.2
        into, out = groups * rng.randint(1, 4), groups * rng.randint(1, 4)
        x = _lying(torch.zeros(rng.randint(1, 4), into, *[rng.randint(5, 9)] * n_dims, device=env.device), rng)
        shape = (into, out // groups) if is_transposed else (out, into // groups)
        weight = torch.zeros(*shape, *[rng.randint(1, 3)] * n_dims, device=env.device, requires_grad=True)
        bias = torch.zeros(out, device=env.device, requires_grad=True) if rng.random() < 0.5 else None
        options = {"stride": rng.randint(1, 2), "padding": rng.randint(0, 1), "groups": groups}
        if not is_transposed:
            options["dilation"] = rng.choice([1, 1, 2])
        operator = getattr(F, f"conv{'_transpose' if is_transposed else ''}{n_dims}d")
        x.requires_grad_()
        y = operator(x, weight, bias, **options)
        leaves = [x, weight] + ([] if bias is None else [bias])
        gradients = torch.autograd.grad(y, leaves, torch.ones_like(y), create_graph=True)
        (y.mean() + sum([(g * g).sum() for g in gradients])).backward()
        env.mark(f"{i}, {x.dim()} dimensions, {groups} groups, {is_transposed}")
        del x, weight, bias, y, leaves, gradients


@case
def benchmarked(env):
    """That PyTorch empties the allocator's cache where cuDNN tries its kernels: by sizes, types, settings, passes."""
    cudnn = torch.backends.cudnn
    layers = {
        "plain": nn.Conv2d(3, 8, 3), "strided": nn.Conv2d(3, 8, 3, stride=2, bias=False), "1d": nn.Conv1d(3, 8, 3),
        "transposed": nn.ConvTranspose2d(3, 8, 3), "3d": nn.Conv3d(3, 8, 3), "by channel": nn.Conv2d(3, 3, 3, groups=3),
    }  # fmt: skip

    def step(name, layer, x):
        unused = torch.empty(16, 1 << 20, device=env.device)
        del unused
        loss = layer(x).sum()  # a recording has a mark before what is given back just then: so something comes between
        env.mark(f"{name}: forward")
        loss.backward()
        done = torch.zeros((), device=env.device)
        env.mark(f"{name}: backward")
        del done

    for name, layer in layers.items():
        layer.to(env.device)
        x = torch.zeros(2, 3, *[9] * (layer.weight.dim() - 2), device=env.device, requires_grad=True)
        with cudnn.flags(enabled=True, benchmark=False):
            step(f"{name}, as it was tried before", layer, x)
        with cudnn.flags(enabled=True, benchmark=True):
            step(f"{name}, again", layer, x)
            for turn in range(2):
                step(f"{name}, one image, {turn}", layer, x[:1])
                step(f"{name}, another start, {turn}", layer, x[1:])
            if x.dim() == 4:
                last = x.detach().to(memory_format=torch.channels_last).requires_grad_()
                step(f"{name}, channels last", layer, last)
            step(f"{name}, float16", layer.half(), x.half())
        with cudnn.flags(enabled=True, benchmark=True, deterministic=True):
            step(f"{name}, repeatable", layer, x.half())
        with cudnn.flags(enabled=True, benchmark=True, allow_tf32=False):
            step(f"{name}, without tf32", layer, x.half())
        env.mark(f"{name}: end")
