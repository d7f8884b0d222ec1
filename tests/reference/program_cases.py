"""More cases in the form of cases.py: what programs do around their models, from fixed seeds.

Layers in evaluation, draws from probabilities, losses with logits, tensors that are copied deeply, gradients that hooks
keep, torch.func, and moves under inference_mode.
"""

import copy
import gc
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, vmap

CASES = {}
SEED = 300
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "h100")
    CASES[function.__name__] = function
    return function


def _without_gradients(rng):
    return rng.choice([torch.no_grad, torch.inference_mode])()


def _shape(rng):
    """Batch and length: now and then one, now and then more than a warp's softmax takes."""
    return rng.choice([1, rng.randint(1, 5)]), rng.choice([1, rng.randint(2, 90), rng.randint(1000, 1100)])


@case
def attention_in_evaluation(env):
    """nn.MultiheadAttention, each kind of mask, with and without the weights."""
    rng = random.Random(SEED + 1)
    for i in range(30):
        heads, (b, s), dtype = rng.choice([1, 2, 4]), _shape(rng), rng.choice(DTYPES)
        d = heads * rng.choice([5, 8, 10, 16, 36, 64])
        module = nn.MultiheadAttention(d, heads, batch_first=True, bias=rng.random() < 0.9).eval()
        module.to(env.device, dtype)
        x = torch.empty(b, s, d, device=env.device, dtype=dtype)
        options = {"need_weights": rng.random() < 0.5, "average_attn_weights": rng.random() < 0.5}
        mask = rng.choice(["", "keys", "queries", "both", "heads", "float"])
        if mask in ("keys", "both"):
            options["key_padding_mask"] = torch.zeros(b, s, device=env.device, dtype=torch.bool)
        if mask in ("queries", "both"):
            options["attn_mask"] = torch.zeros(s, s, device=env.device, dtype=torch.bool)
        if mask == "heads":
            options["attn_mask"] = torch.zeros(b * heads, s, s, device=env.device, dtype=torch.bool)
        if mask == "float":
            options["attn_mask"] = torch.zeros(s, s, device=env.device, dtype=dtype)
        env.mark(f"attention {i} {mask} begins")
        with _without_gradients(rng):
            y, weights = module(x, x, x, **options)
        env.mark(f"attention {i} {mask}")
        del module, x, y, weights, options


@case
def layers_in_evaluation(env):
    """nn.TransformerEncoderLayer and nn.TransformerDecoderLayer."""
    rng = random.Random(SEED + 2)
    for i in range(25):
        heads, (b, s), dtype = rng.choice([2, 4, 6]), _shape(rng), rng.choice(DTYPES)
        d = heads * rng.choice([8, 16, 24])
        options = dict(activation=rng.choice(["relu", "gelu"]), batch_first=True, norm_first=rng.random() < 0.5)
        kind = rng.choice([nn.TransformerEncoderLayer, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
        layer = kind(d, heads, rng.randint(3, 3 * d), **options).to(env.device, dtype).eval()
        x = torch.empty(b, s, d, device=env.device, dtype=dtype)
        pads = torch.zeros(b, s, device=env.device, dtype=torch.bool)
        future = torch.zeros(s, s, device=env.device, dtype=torch.bool)
        with _without_gradients(rng):
            if kind is nn.TransformerDecoderLayer:
                y = layer(x, x[:, : max(1, s // 2)])
            else:
                y = layer(x, *rng.choice([(), (), (future,), (None, pads), (future, pads)]))
        env.mark(f"layer {i}")
        del layer, x, y, pads, future


@case
def draws(env):
    """multinomial over few and many, the least and the largest."""
    rng = random.Random(SEED + 3)
    for i in range(40):
        n, b = rng.choice([rng.randint(2, 50), rng.randint(1000, 60_000)]), rng.choice([0, 1, rng.randint(1, 9)])
        x = torch.empty(*([b, n] if b else [n]), device=env.device, dtype=rng.choice(DTYPES))
        kept = [x.multinomial(rng.choice([1, 1, 2, min(n, 100)])), x.multinomial(1, replacement=True)]
        env.mark(f"draws {i}")
        kept += [x.aminmax(), x.argmax(-1) // 7, torch._is_all_true(x > 0), torch._is_any_true(x > 0)]
        env.mark(f"draws {i} extremes")
        del x, kept


@case
def losses_with_logits(env):
    """Binary cross entropy with weights of each kind, and Huber's loss, of inputs that may lie transposed."""
    rng = random.Random(SEED + 4)
    for i in range(40):
        shape, dtype = [rng.randint(1, 200) for _ in range(rng.randint(1, 3))], rng.choice(DTYPES)
        x = torch.empty(shape, device=env.device, dtype=dtype, requires_grad=True)
        y = x.transpose(0, -1) if rng.random() < 0.4 else x
        target = torch.empty(y.shape, device=env.device, dtype=dtype)
        options = {"reduction": rng.choice(["mean", "sum", "none"])}
        for name in ("weight", "pos_weight"):
            if rng.random() < 0.4:
                options[name] = torch.empty(y.shape[-1], device=env.device, dtype=dtype)
        loss = F.binary_cross_entropy_with_logits(y, target, **options)
        env.mark(f"logits {i} forward")
        loss.sum().backward()
        env.mark(f"logits {i} backward")
        loss = F.huber_loss(y, target, reduction=options["reduction"])
        env.mark(f"huber {i} forward")
        loss.sum().backward()
        env.mark(f"huber {i} backward")
        del x, y, target, loss, options, name


@case
def writes_at_positions(env):
    """index_copy of each dimension, index_fill, products added in place, images cut into patches."""
    rng = random.Random(SEED + 5)
    for i in range(30):
        shape, dtype = [rng.randint(1, 40) for _ in range(rng.randint(1, 4))], rng.choice(DTYPES)
        dim = rng.randrange(len(shape))
        n = rng.randint(1, shape[dim])
        x = torch.empty(shape, device=env.device, dtype=dtype, requires_grad=rng.random() < 0.5)
        index = torch.zeros(n, dtype=torch.int64).to(env.device)
        sizes = [n if d == dim else size for d, size in enumerate(shape)]
        values = torch.empty(sizes[::-1], device=env.device, dtype=dtype).permute(*reversed(range(len(sizes))))
        values.requires_grad_(rng.random() < 0.5)
        for write in ("index_copy", "index_copy_"):
            y = getattr(x * 1, write)(dim, index, values)
            env.mark(f"{write} {i}")
            if y.requires_grad:
                y.sum().backward()
            env.mark(f"{write} {i} backward")
        y = y.detach().index_fill_(dim, index, 1.0)
        a, b = (torch.empty(rng.randint(1, 20), 7, device=env.device, dtype=dtype) for _ in "ab")
        y = torch.empty(len(a), len(b), device=env.device, dtype=dtype).addmm_(a, b.t(), alpha=0.5)
        env.mark(f"product {i}")
        y = F.pixel_unshuffle(torch.empty(2, 3, 8, 8, device=env.device, dtype=dtype), 4)
        y = F.pixel_shuffle(y, 2)
        env.mark(f"patches {i}")
        del x, y, a, b, values, index


@case
def deep_copies(env):
    """Tensors that share a storage, with gradients, and the state of an optimizer."""
    base = torch.empty(2001, device=env.device)
    tensors = {"slice": base[3:7], "end": base[5:], "all": base, "leaf": torch.ones(5, device=env.device)}
    tensors["leaf"].requires_grad_().grad = torch.ones(5, device=env.device)
    copied = copy.deepcopy(tensors)
    env.mark("tensors")
    del tensors, base
    env.mark("copies alone")
    model = nn.BatchNorm1d(70).to(env.device)
    other = copy.deepcopy(model)
    env.mark("module with buffers")
    for options in ({}, {"fused": True, "amsgrad": True}, {"foreach": False}):
        optimizer = torch.optim.AdamW(model.parameters(), **options)
        for p in model.parameters():
            p.grad = torch.empty_like(p)
        optimizer.step()
        state = copy.deepcopy(optimizer.state_dict())
        env.mark(f"state {options}")
        optimizer.load_state_dict(state)
        env.mark(f"state {options} loaded")
        del optimizer, state, p
        gc.collect()  # an optimizer lies in a reference cycle
    del copied, other


@case
def kept_gradients(env):
    """Hooks that keep gradients, which autograd must not add to in place then."""
    kept = []
    for keeps in (False, True):
        norm, linear = nn.LayerNorm(50).to(env.device), nn.Linear(50, 50).to(env.device)
        if keeps:
            norm.register_full_backward_hook(lambda module, inputs, outputs: kept.append(inputs[0]))
            linear.register_full_backward_hook(lambda module, inputs, outputs: kept.append(outputs[0]))
        for i in range(2):
            h = torch.empty(30, 50, device=env.device, requires_grad=True) * 2
            h = F.silu(h) + F.gelu(norm(h)) if i else F.gelu(norm(h)) + F.silu(h)
            (linear(h) + h.relu()).sum().backward()
            env.mark(f"{keeps} {i}")
            kept.clear()
        del norm, linear, h


class Attending(nn.Module):
    """A block whose attention torch.func sees."""

    def __init__(self, d):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(d, 3 * d), nn.Linear(d, d), nn.LayerNorm(d)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (2, -1)).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return F.log_softmax(x + self.out(y), -1)


def _settled(env, name):
    """Mark this instant when all have let go of the graph: Python's modules, which were imported on the way, and the
    thread that ran backward, which takes a moment."""
    gc.collect()
    if env.device.type == "cuda":
        time.sleep(1)
    env.mark(name)


@case
def functional(env):
    """torch.func: a model called with other weights, its gradient, and one gradient for each sample."""
    rng = random.Random(SEED + 6)
    for i in range(6):
        d, dtype = 2 * rng.choice([8, 16, 64]), rng.choice(DTYPES)
        model = Attending(d).to(env.device, dtype)
        weights = {name: p.detach() for name, p in model.named_parameters()}
        x = torch.empty(rng.randint(1, 4), rng.randint(2, 90), d, device=env.device, dtype=dtype)
        y = functional_call(model, weights, (x,))
        env.mark(f"called {i}")
        gradients = grad(lambda w, a, m=model: functional_call(m, w, (a,)).sum())(weights, x)
        _settled(env, f"gradient {i}")
        del model, y, gradients, weights, x
    linear = nn.Linear(7, 3).to(env.device)
    weights = {name: p.detach() for name, p in linear.named_parameters()}
    each = vmap(grad(lambda w, a: functional_call(linear, w, (a,)).square().sum()), in_dims=(None, 0))
    gradients = each(weights, torch.empty(9, 7, device=env.device))
    _settled(env, "each sample")
    del gradients


@case
def moves_in_inference(env):
    """Tensors that cross, change their type or are made of numbers under inference_mode."""
    rng = random.Random(SEED + 7)
    with torch.inference_mode():
        for i in range(20):
            x = torch.zeros(rng.randint(1, 50), rng.randint(1, 50))
            y = x.to(env.device)
            kept = [y, x.to(env.device, rng.choice(DTYPES)), x.half().to(env.device, non_blocking=True)]
            kept += [x.half().type_as(y), y.half().type_as(x), y.to("cpu", torch.float64), y.t().cpu(), y.double()]
            env.mark(f"moves {i}")
            kept += [torch.tensor([1.0, 2.0], device=env.device), torch.as_tensor([1, 2], device=env.device)]
            kept += [y.new_tensor([3.0]), F.one_hot(torch.zeros(5, dtype=torch.int64, device=env.device), 9)]
            env.mark(f"made {i}")
            del x, y, kept
