"""Small programs around a run that does not fit: PyTorch's own loss in chunks, validation, sums of losses, adapters of
some Linears, and activations in pinned memory."""

import random
from contextlib import nullcontext

import torch
import torch._dynamo  # if the loss in chunks imports it, amidst its work, that leaves cycles, which hold tensors
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import save_on_cpu

from utils.models.adapters import with_adapters
from utils.models.llama import Llama

CASES = {}
SMALL = {
    "vocabulary_size": 5_001, "context_length": 300, "d_model": 96, "n_layers": 2, "n_heads": 6, "n_kv_heads": 2,
    "d_mlp": 264,
}  # fmt: skip
SEED, N_DRAWN = 950, 24


def small(env, dtype=torch.bfloat16):
    """A Llama."""
    return Llama(**SMALL, device=env.device, dtype=dtype)


def batch(env, b=2, s=300):
    """Tokens and targets."""
    return (torch.randint(SMALL["vocabulary_size"], (b, s), device=env.device) for _ in range(2))


def linear_cross_entropy(env, dtype, **how):
    """`F.linear_cross_entropy` forward and backward: of several chunks of rows, and of sizes that do not divide."""
    for T, d, V in ((16, 8, 8), (700, 96, 5_001), (1024, 256, 32_000), (90, 64, 70)):
        for trained in ("both", "h", "weight", "none"):
            h = torch.empty(T, d, device=env.device, dtype=dtype, requires_grad=trained in ("both", "h"))
            weight = torch.empty(V, d, device=env.device, dtype=dtype, requires_grad=trained in ("both", "weight"))
            targets = torch.zeros(T, dtype=torch.long, device=env.device)
            loss = F.linear_cross_entropy(h, weight, targets, ignore_index=-1, **how)
            env.mark(f"{T} x {d} x {V}, {trained} forward")
            if trained != "none":
                loss.backward()
            env.mark(f"{T} x {d} x {V}, {trained} backward")
            del h, weight, targets, loss


def chunks_drawn(env):
    """The same in chunks, as programs may ask for them."""
    rng = random.Random(SEED)
    for number in range(N_DRAWN):
        T, d, V = rng.randint(1, 600), rng.randint(1, 130), rng.randint(2, 3_000)
        dtype = rng.choice([torch.bfloat16, torch.bfloat16, torch.float16, torch.float32])
        policy = rng.choice(["auto", "accurate", "balanced", "compact"])
        kept = {"options": nn.LinearCrossEntropyOptions(acc_policy=policy)}
        if rng.random() < 0.5:
            kept["linear_bias"] = torch.empty(V, device=env.device, dtype=dtype, requires_grad=rng.random() < 0.7)
        if rng.random() < 0.3:
            kept["weight"] = torch.empty(V, device=env.device, dtype=dtype)
        reduction = rng.choice(["mean", "sum", "none"])
        h, weight = (torch.empty(n, d, device=env.device, dtype=dtype, requires_grad=True) for n in (T, V))
        loss = F.linear_cross_entropy(
            h, weight, torch.zeros(T, dtype=torch.long, device=env.device), reduction=reduction, **kept
        )
        env.mark(f"{number} forward")
        loss.sum().backward()
        env.mark(f"{number} backward")
        del h, weight, loss, kept


def wider_products(env):
    """Products whose result is wider than their factors, of matrices that cuBLAS reads where they lie, or does not."""
    for dtype in (torch.bfloat16, torch.float16):
        for m, k, n in ((64, 48, 32), (7, 3, 5), (1, 9, 1), (300, 1, 77)):
            left, right = (torch.empty(size, device=env.device, dtype=dtype) for size in ((m, k), (k, n)))
            wide = torch.empty(m, n, device=env.device)
            for x, y in ((left, right), (left.mT.contiguous().mT, right), (left[:, :1].expand(m, k), right)):
                env.mark(f"{dtype}, {tuple(x.shape)}")
                z = torch.mm(x, y, out_dtype=torch.float32)
                torch.mm(x, y, out_dtype=torch.float32, out=wide)
                env.mark(f"{dtype}, {tuple(x.shape)} product")
                del x, y, z


def validation(env, keeps_graph):
    """A list of losses, each on the GPU."""
    model, losses = small(env), []
    env.mark("model")
    for number in range(4):
        with nullcontext() if keeps_graph else torch.no_grad():
            losses.append(model(*batch(env))[1])
        env.mark(f"batch {number}")
    env.mark("all")


def summed_losses(env, detached):
    """`total_loss += loss` in each step of training."""
    model = small(env)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    total_loss = 0.0
    env.mark("model")
    for step in range(4):
        _, loss = model(*batch(env))
        loss.backward()
        total_loss += loss.detach() if detached else loss
        env.mark(f"step {step} backward")
        optimizer.step()
        optimizer.zero_grad()
        env.mark(f"step {step} zero_grad")


def adapters(env, names, rank):
    """Two steps of a model of which these Linears have adapters."""
    model = with_adapters(small(env), rank, names)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], fused=True)
    env.mark("model")
    for step in range(2):
        _, loss = model(*batch(env))
        env.mark(f"step {step} forward")
        loss.backward()
        env.mark(f"step {step} backward")
        optimizer.step()
        optimizer.zero_grad()
        env.mark(f"step {step} zero_grad")


def pinned_activations(env):
    """What is kept for backward, in pinned memory of the host meanwhile; where there is none, in other memory."""
    model = small(env)
    env.mark("model")
    for step in range(2):
        with save_on_cpu(pin_memory=True):
            _, loss = model(*batch(env))
        env.mark(f"step {step} forward")
        loss.backward()
        env.mark(f"step {step} backward")


def add(name, case):
    """Enter a case."""
    case.cudnn_sdp, case.cards = False, ("a100", "h100")
    CASES[f"fit_{name}"] = case


for dtype in (torch.bfloat16, torch.float32):
    short = str(dtype).removeprefix("torch.")
    add(f"linear_cross_entropy_{short}", lambda env, dtype=dtype: linear_cross_entropy(env, dtype))
    add(
        f"linear_cross_entropy_{short}_chunks",
        lambda env, dtype=dtype: linear_cross_entropy(env, dtype, options=nn.LinearCrossEntropyOptions()),
    )
add("linear_cross_entropy_drawn", chunks_drawn)
add("wider_products", wider_products)
add("validation_with_graphs", lambda env: validation(env, keeps_graph=True))
add("validation", lambda env: validation(env, keeps_graph=False))
add("summed_losses", lambda env: summed_losses(env, detached=False))
add("summed_losses_detached", lambda env: summed_losses(env, detached=True))
add("adapters_q_v", lambda env: adapters(env, ("q", "v"), 8))
add("adapters_down", lambda env: adapters(env, ("down",), 3))
add("pinned_activations", pinned_activations)
