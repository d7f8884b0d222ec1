"""More cases in the form of cases.py: programs under autocast, from fixed seeds.

Gradients inside of a context and outside, no_grad, custom functions, checkpoints, accumulation, loss scaling, modules.
"""

import functools
import gc
import itertools
import random
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from every_byte.gpu.cases.programs import load_module

transformers = load_module(Path(__file__).with_name("transformer_cases.py"))
copies = load_module(Path(__file__).with_name("autocast_cache_cases.py"))
_weight, _input, MANNERS = copies._weight, copies._input, copies.MANNERS

CASES = {}
SEED = 600
HALF = (torch.float16, torch.bfloat16)


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "h100")
    CASES[f"autocast_{function.__name__}"] = function
    return function


def _mlp(d, dropout=0.0, norm=nn.LayerNorm):
    return nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), norm(3 * d), nn.Dropout(dropout), nn.Linear(3 * d, d))


# ------------------------------------------------------------------------------------------- gradients and surroundings


@case
def backward_inside(env):
    """Gradients computed within the context, whose operations it casts too, and outside of it."""
    for to, inside, way in itertools.product(HALF, (True, False), ("sum", "mean", "own", "twice")):
        model, x = _mlp(40).to(env.device), _input(env, 30, 40, grad=True)
        with env.autocast(to):
            y = model(x)
            loss = y.mean() if way == "mean" else y.sum()
            env.mark(f"{to} {inside} {way} forward")
            if inside:
                y.backward(torch.empty_like(y)) if way == "own" else loss.backward(retain_graph=way == "twice")
                env.mark(f"{to} {inside} {way} backward")
                if way == "twice":
                    loss.backward()
        if not inside:
            y.backward(torch.empty_like(y)) if way == "own" else loss.backward(retain_graph=way == "twice")
            env.mark(f"{to} {inside} {way} backward")
            if way == "twice":
                loss.backward()
        env.mark(f"{to} {inside} {way} end")
        del model, x, y, loss


@case
def gradients_of_gradients(env):
    """torch.autograd.grad, and a penalty on it, inside and outside."""
    for to, inside in itertools.product(HALF, (True, False)):
        w, v, x = _weight(env, 40, 60), _weight(env, 30, 40), _input(env, 50, 60, grad=True)
        with env.autocast(to):
            loss = F.linear(F.softplus(F.linear(x, w)), v).float().pow(2).mean()
            env.mark(f"{to} {inside} forward")
            if inside:
                (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        if not inside:
            (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
        env.mark(f"{to} {inside} gradient")
        with env.autocast(to):
            penalty = gradient.pow(2).sum()
        penalty.backward()
        env.mark(f"{to} {inside} backward")
        del w, v, x, loss, gradient, penalty


SURROUNDINGS = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


@case
def without_gradients(env):
    """no_grad and inference_mode inside of a context and around it, also before a step that is trained."""
    for to, (name, surrounding), manner in itertools.product(HALF, SURROUNDINGS.items(), MANNERS):
        model, x = _mlp(50, 0.1).to(env.device), _input(env, 30, 50)
        with surrounding(), env.autocast(to, **manner):
            y = model(model(x))
            env.mark(f"{to} {name} {manner} around")
        with env.autocast(to, **manner):
            with surrounding():
                y = model(x)
                env.mark(f"{to} {name} {manner} inside")
            env.mark(f"{to} {name} {manner} inside, end")
            del y
        with env.autocast(to, **manner):
            y = model(x)
            with surrounding():
                z = model(x)
                env.mark(f"{to} {name} {manner} after training")
        y.sum().backward()
        env.mark(f"{to} {name} {manner} backward")
        del model, x, y, z


@case
def validation_before_training(env):
    """What is cast under no_grad is not kept: the training in the same context casts anew, and has its gradients."""
    for to, (name, surrounding) in itertools.product(HALF, SURROUNDINGS.items()):
        model = nn.Sequential(nn.Linear(50, 50, bias=False), nn.ReLU(), nn.Linear(50, 1)).to(env.device)
        x = _input(env, 30, 50)
        with env.autocast(to):
            with surrounding():
                y = model(x)
                env.mark(f"{to} {name} validation")
            y = model(x)
            env.mark(f"{to} {name} training")
            with surrounding():
                y = y.detach() + model(x) if name == "no_grad" else y
                env.mark(f"{to} {name} validation again")
            y = model(x)
        env.mark(f"{to} {name} end")
        y.sum().backward()
        env.mark(f"{to} {name} backward")
        assert all(p.grad is not None for p in model.parameters())
        del model, x, y


class Scaled(torch.autograd.Function):
    """Casts nothing by itself: its backward runs in the context of its forward."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w.t(), x.t() @ gradient


class InFloat32(torch.autograd.Function):
    """Its arguments are cast to float32, and autocast is off inside."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w.t(), x.t() @ gradient


class InHalf(InFloat32):
    """Its arguments are cast to float16."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w


class Plain(torch.autograd.Function):
    """Knows nothing of autocast: inside of it, its products are cast; in its backward, they are what was saved."""

    @staticmethod
    def forward(ctx, x, w):
        y = x @ w
        ctx.save_for_backward(x, w, y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        x, w, y = ctx.saved_tensors
        gradient = gradient.float()
        return gradient @ w.t().float(), x.t().float() @ gradient


@case
def custom_functions(env):
    """Functions with custom_fwd and custom_bwd, inputs of each type, in the context and out of it."""
    rng = random.Random(SEED + 1)
    for i, function in itertools.product(range(6), (Scaled, InFloat32, InHalf, Plain)):
        to, inside = HALF[i % 2], rng.random() < 0.3
        n, k = rng.randint(2, 80), rng.randint(2, 80)
        x = _input(env, n, k, grad=rng.random() < 0.7, dtype=rng.choice([torch.float32, to]))
        w = _weight(env, k, k)
        name = f"{i} {function.__name__} {to}"
        with env.autocast(to, cache_enabled=rng.random() < 0.7):
            y = function.apply(x * 1, w)
            env.mark(f"{name} forward")
            y = function.apply(y, w).sum()
            env.mark(f"{name} again")
            if inside:
                y.backward()
        env.mark(f"{name} end")
        if not inside:
            y.backward()
        env.mark(f"{name} backward")
        del x, w, y
    x, w = _input(env, 30, 40), _weight(env, 40, 40)
    for function in (Scaled, InFloat32, InHalf, Plain):
        y = function.apply(x, w)
        y.sum().backward()
        env.mark(f"{function.__name__} without autocast")
        with torch.no_grad(), env.autocast(torch.bfloat16):
            y = function.apply(x, w)
            env.mark(f"{function.__name__} without gradients")


@case
def saved_tensors_elsewhere(env):
    """Hooks that move what the graph keeps, copies of weights among it, to the CPU; calls with other weights."""
    for to in HALF:
        model, x = _mlp(40).to(env.device), _input(env, 30, 40)
        with torch.autograd.graph.save_on_cpu(), env.autocast(to):
            y = model(x)
            env.mark(f"{to} saved")
        env.mark(f"{to} end")
        y.sum().backward()
        env.mark(f"{to} backward")
        others = {name: p.detach() for name, p in model.named_parameters()}
        with env.autocast(to):
            y = functional_call(model, others, (x,))
            env.mark(f"{to} other weights")
            y = functional_call(model, others, (y,))
            env.mark(f"{to} other weights, twice")
        del model, x, y, others
        env.mark(f"{to} dropped")


# ------------------------------------------------------------------------------------------------------ checkpoints

KINDS = {
    "reentrant": {"use_reentrant": True},
    "not reentrant": {"use_reentrant": False},
    "all of it": {"use_reentrant": False, "preserve_rng_state": False, "early_stop": False},
    "products kept": {
        "use_reentrant": False,
        "context_fn": functools.partial(
            create_selective_checkpoint_contexts, [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
        ),
    },
}


def _checkpoint_once():
    """The first checkpoint imports modules, which leaves reference cycles that hold the frames of the call."""
    checkpoint(torch.sin, torch.ones(1, requires_grad=True), use_reentrant=True)
    gc.collect()


@case
def checkpoints(env):
    """Each kind, with dropout and without, the cache on and off; backward inside the context and outside."""
    _checkpoint_once()
    for to, (kind, options), dropout in itertools.product(HALF, KINDS.items(), (0.0, 0.1)):
        for manner, inside in itertools.product(MANNERS, (False, True)):
            # there, the order of the gradients depends on how many nodes each thread has made before
            if kind == "reentrant" and inside and not manner:
                continue
            name = f"{to} {kind} {dropout} {manner} {inside}"
            model, head, x = _mlp(40, dropout).to(env.device), _weight(env, 40, 40), _input(env, 20, 40, grad=True)
            # selective checkpointing refuses a copy that was there in forward and is not in backward
            other = _mlp(40).to(env.device) if kind == "products kept" else model
            with env.autocast(to, **manner):
                y = checkpoint(model, F.linear(x, head), **options)
                y = checkpoint(other, y, **options)
                y = F.linear(y, head).sum()
                env.mark(f"{name} forward")
                if inside:
                    y.backward()
            env.mark(f"{name} end")
            if not inside:
                y.backward()
            env.mark(f"{name} backward")
            del model, other, head, x, y
            gc.collect()


@case
def products_kept(env):
    """Selective checkpoints of what PyTorch computes in place where no dispatch mode looks on."""
    _checkpoint_once()
    w, bias = _weight(env, 40, 40), _weight(env, 40)
    programs = {
        "linear, transposed": lambda x: F.linear(x.transpose(0, 1), w, bias),
        "attention in mathematics": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
        "smoothed": lambda x: F.cross_entropy(
            x[0], torch.zeros_like(x[0, :, 0], dtype=torch.int64), label_smoothing=0.1
        ),
        "gate": lambda x: F.dropout(F.silu(F.linear(x, w)) * F.linear(x, w, bias), 0.1),
    }
    for to, (name, program) in itertools.product((None, *HALF), programs.items()):
        x = _input(env, 3, 20, 40, grad=True)
        with sdpa_kernel([SDPBackend.MATH]):
            with env.autocast(to or torch.bfloat16, enabled=to is not None):
                y = checkpoint(program, x, **KINDS["products kept"])
                env.mark(f"{to} {name} forward")
            y.sum().backward()
            env.mark(f"{to} {name} backward")
        del x, y


@case
def checkpoints_and_contexts(env):
    """A context inside of what is recomputed, around one of two checkpoints, and a checkpoint in a checkpoint."""
    _checkpoint_once()
    for to, (kind, options) in itertools.product(HALF, list(KINDS.items())[:2]):
        model, x = _mlp(40).to(env.device), _input(env, 20, 40, grad=True)

        def cast_inside(x, model=model, to=to):
            with env.autocast(to):
                return model(x)

        def without(x, model=model, to=to):
            with env.autocast(to, enabled=False):
                return model(x.float())

        def nested(x, model=model, options=options):
            return checkpoint(model, x, **options) * x

        y = checkpoint(cast_inside, x, **options).float()
        env.mark(f"{to} {kind} inside")
        y = checkpoint(model, y, **options)
        with env.autocast(to):
            y = checkpoint(without, y, **options)
            env.mark(f"{to} {kind} off inside")
            y = checkpoint(nested, y, **options)
            env.mark(f"{to} {kind} nested")
        y.sum().backward()
        env.mark(f"{to} {kind} backward")
        del model, x, y, cast_inside, without, nested
        gc.collect()


# ---------------------------------------------------------------------------------------------------------- training


@case
def accumulation(env):
    """Micro-batches that share one context, and its copies, or have one each; clipping and loss scaling."""
    rng = random.Random(SEED + 2)
    for i in range(12):
        to, shared, inside = HALF[i % 2], rng.random() < 0.5, rng.random() < 0.5
        d = rng.randint(5, 120)
        model = nn.Sequential(nn.Embedding(50, d), _mlp(d, rng.choice([0.0, 0.1])), nn.Linear(d, 50)).to(env.device)
        form = rng.choice([{}, {"fused": True}, {"foreach": False}])
        optimizer = rng.choice([torch.optim.AdamW, torch.optim.SGD])(model.parameters(), lr=0.1, **form)
        scaler = torch.amp.GradScaler(env.device.type, enabled=rng.random() < 0.6)
        clip, to_none = rng.random() < 0.6, rng.random() < 0.6
        for step in range(2):
            tokens = torch.zeros(3, rng.randint(1, 6), rng.randint(1, 60), dtype=torch.int64, device=env.device)
            with env.autocast(to, enabled=shared):
                for part, batch in enumerate(tokens):
                    with env.autocast(to):
                        loss = F.cross_entropy(model(batch).flatten(0, 1), batch.flatten()) / 3
                        env.mark(f"{i} step {step} part {part} forward")
                        if inside:
                            scaler.scale(loss).backward()
                    if not inside:
                        scaler.scale(loss).backward()
                    env.mark(f"{i} step {step} part {part} backward")
                if clip:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                env.mark(f"{i} step {step} clip")
            scaler.step(optimizer)
            scaler.update()
            env.mark(f"{i} step {step} optimizer")
            optimizer.zero_grad(set_to_none=to_none)
            env.mark(f"{i} step {step} zero_grad")
        del model, optimizer, scaler, tokens, batch, loss
        gc.collect()  # an optimizer lies in a reference cycle


@case
def scaling(env):
    """GradScaler with unscale_ and clip_grad_norm_, each form of AdamW."""
    forms = ({}, {"foreach": False}, {"fused": True})
    for to, form, norm in itertools.product(HALF, forms, (nn.LayerNorm, nn.RMSNorm)):
        model = _mlp(60, norm=norm).to(env.device)
        optimizer, scaler = torch.optim.AdamW(model.parameters(), **form), torch.amp.GradScaler(env.device.type)
        name = f"{to} {form} {norm.__name__}"
        for step in range(2):
            x = _input(env, 30, 60)
            with env.autocast(to):
                loss = F.mse_loss(model(x), torch.empty_like(x))
            env.mark(f"{name} {step} forward")
            scaler.scale(loss).backward()
            env.mark(f"{name} {step} backward")
            scaler.unscale_(optimizer)
            size = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            env.mark(f"{name} {step} clip")
            scaler.step(optimizer)
            scaler.update()
            env.mark(f"{name} {step} step")
            optimizer.zero_grad()
        del model, optimizer, scaler, x, loss, size
        gc.collect()


@case
def attention_modules(env):
    """nn.MultiheadAttention trained and in evaluation, with and without its weights, with masks of each kind."""
    rng = random.Random(SEED + 3)
    for i in range(40):
        to, heads, width = HALF[i % 2], rng.choice([1, 2, 4]), rng.choice([8, 16, 40])
        options = {"dropout": rng.choice([0.0, 0.1]), "bias": rng.random() < 0.7, "batch_first": True}
        module = nn.MultiheadAttention(heads * width, heads, **options).to(env.device)
        module.train(rng.random() < 0.7)
        b, s, dtype = rng.randint(1, 4), rng.randint(1, 90), rng.choice([torch.float32, torch.float32, to])
        x = _input(env, b, s, heads * width, grad=rng.random() < 0.5, dtype=dtype)
        other = rng.choice([x, _input(env, b, s, heads * width)])
        call = {"need_weights": rng.random() < 0.5, "average_attn_weights": rng.random() < 0.5}
        mask = rng.choice(["", "", "bool", "float32", "half"])
        if mask:
            of = {"bool": torch.bool, "float32": torch.float32, "half": to}[mask]
            call["attn_mask"] = torch.zeros(s, s, device=env.device, dtype=of)
        if rng.random() < 0.2:
            call["key_padding_mask"] = torch.zeros(b, s, device=env.device, dtype=torch.bool)
        with torch.set_grad_enabled(module.training or rng.random() < 0.5), env.autocast(to):
            y, weights = module(x, other, other, **call)
            env.mark(f"{i} {mask} forward")
        env.mark(f"{i} {mask} end")
        if y.requires_grad:
            y.sum().backward()
        env.mark(f"{i} {mask} backward")
        del module, x, other, call, y, weights


@case
def transformer_layers(env):
    """nn.TransformerEncoderLayer and nn.TransformerDecoderLayer, trained and in evaluation."""
    rng = random.Random(SEED + 4)
    for i in range(24):
        to, heads, width = HALF[i % 2], rng.choice([1, 2, 4]), rng.choice([8, 16, 40])
        d = heads * width
        options = dict(activation=rng.choice(["relu", "gelu"]), batch_first=True, norm_first=rng.random() < 0.5)
        kind = rng.choice([nn.TransformerEncoderLayer, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
        layer = kind(d, heads, rng.randint(3, 3 * d), dropout=rng.choice([0.0, 0.1]), **options).to(env.device)
        layer.train(rng.random() < 0.7)
        x = _input(env, rng.randint(1, 4), rng.randint(2, 90), d, grad=rng.random() < 0.3)
        future = torch.zeros(x.shape[1], x.shape[1], device=env.device, dtype=torch.bool)
        masked = rng.random() < 0.4
        with torch.set_grad_enabled(layer.training or rng.random() < 0.3), env.autocast(to):
            if kind is nn.TransformerDecoderLayer:
                y = layer(x, x[:, : max(1, x.shape[1] // 2)], future if masked else None)
            else:
                y = layer(x, future if masked else None)
            env.mark(f"{i} {kind.__name__} forward")
        env.mark(f"{i} end")
        if y.requires_grad:
            y.sum().backward()
        env.mark(f"{i} backward")
        del layer, x, future, y


@case
def random_transformers(env):
    """The transformers of transformer_cases.py, gated ones and such with checkpoints, trained for two steps."""
    rng = random.Random(SEED + 5)
    for i in range(8):
        to, context = HALF[i % 2], rng.randint(8, 200)
        model = transformers.Transformer(rng, context).to(env.device, rng.choice([torch.float32] * 3 + [to]))
        form = rng.choice([{}, {"fused": True}, {"foreach": False}])
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **form)
        parts, clip, inside = rng.randint(1, 3), rng.random() < 0.5, rng.random() < 0.2
        for step in range(2):
            for part in range(parts):
                tokens = torch.zeros(rng.randint(1, 8), context, dtype=torch.int64).to(env.device)
                with env.autocast(to):
                    loss = model(tokens) / parts
                    env.mark(f"transformer {i} step {step} part {part} forward")
                    if inside:
                        loss.backward()
                if not inside:
                    loss.backward()
                env.mark(f"transformer {i} step {step} part {part} backward")
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            env.mark(f"transformer {i} step {step} optimizer")
            optimizer.zero_grad()
        del model, optimizer, tokens, loss
        gc.collect()
