"""More cases in the form of cases.py: which copies of weights autocast keeps and for how long; contexts in contexts."""

import gc
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F

CASES = {}
HALF = (torch.float16, torch.bfloat16)
MANNERS = ({}, {"cache_enabled": False})


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "h100")
    CASES[f"autocast_{function.__name__}"] = function
    return function


def _weight(env, *shape, grad=True, dtype=torch.float32):
    return nn.Parameter(torch.empty(shape, device=env.device, dtype=dtype), requires_grad=grad)


def _input(env, *shape, grad=False, dtype=torch.float32):
    return torch.empty(shape, device=env.device, dtype=dtype, requires_grad=grad)


@case
def weights_used_again(env):
    """One copy of a weight serves all products of a context, if the cache is on; its gradients meet there."""
    for to, manner in itertools.product(HALF, MANNERS):
        w, v, x = _weight(env, 70, 70), _weight(env, 70), _input(env, 30, 70, grad=True)
        with env.autocast(to, **manner):
            y = F.linear(x, w, v)
            env.mark(f"{to} {manner} once")
            y = F.linear(y, w, v)
            env.mark(f"{to} {manner} twice")
            y = y @ w + x @ w.t()
            env.mark(f"{to} {manner} transposed")
            y = F.linear(y, w[:50])
            env.mark(f"{to} {manner} in part")
        env.mark(f"{to} {manner} end")
        y.sum().backward()
        env.mark(f"{to} {manner} backward")
        del w, v, x, y


def _weights_of_kinds(env):
    base = torch.empty(70, 140, device=env.device)
    leaf_view = base[:, :70]
    leaf_view.requires_grad_()
    grown = _weight(env, 70, 70)
    return {
        "a parameter": _weight(env, 70, 70),
        "frozen": _weight(env, 70, 70, grad=False),
        "a tensor": _input(env, 70, 70),
        "a tensor with a gradient": _input(env, 70, 70, grad=True),
        "no leaf": grown * 1,
        "a view of a parameter": grown.t(),
        "a part of a parameter": _weight(env, 210, 70)[70:140],
        "a view that is a leaf": leaf_view,
        "a parameter over a view": nn.Parameter(base[:, 70:]),
        "transposed": nn.Parameter(torch.empty(70, 70, device=env.device).t()),
        "detached": grown.detach(),
        "detached, with a gradient": grown.detach().requires_grad_(),
        "data": grown.data,
        "in float16": _weight(env, 70, 70, dtype=torch.float16),
        "in bfloat16": _weight(env, 70, 70, dtype=torch.bfloat16),
        "in float64": _weight(env, 70, 70, dtype=torch.float64),
    }


@case
def what_is_kept(env):
    """Float32 leaves that require a gradient and are no views have a copy kept; all others are cast anew each time."""
    for to, manner in itertools.product(HALF, MANNERS):
        for kind, w in _weights_of_kinds(env).items():
            x = _input(env, 40, 70, dtype=torch.float64 if w.dtype == torch.float64 else torch.float32)
            with env.autocast(to, **manner):
                y = F.linear(x, w)
                env.mark(f"{to} {manner} {kind} once")
                y = F.linear(y, w)
                env.mark(f"{to} {manner} {kind} twice")
            env.mark(f"{to} {manner} {kind} end")
            if y.requires_grad:
                y.sum().backward()
            env.mark(f"{to} {manner} {kind} backward")
            del w, x, y


@case
def inputs_as_weights(env):
    """The rule asks for no weight: the same leaf in many places, in each position, has one copy."""
    for to in HALF:
        x, y, z = (_input(env, 50, 50, grad=True) for _ in "xyz")
        with env.autocast(to):
            u = x @ y
            u = torch.addmm(z, u, x) + torch.addmm(x, y, z)
            env.mark(f"{to} products")
            u = u + torch.bmm(x[None], y[None])[0] + torch.einsum("ij,jk->ik", z, x)
            env.mark(f"{to} batches")
            q, k, v = (a.view(1, 2, 50, 25) for a in (x, y, z))
            u = u.sum() + F.scaled_dot_product_attention(q, k, v).sum() + x.exp().sum() + y.softmax(-1).sum()
            env.mark(f"{to} others")
        env.mark(f"{to} end")
        u.backward()
        env.mark(f"{to} backward")
        del x, y, z, q, k, v, u


@case
def contexts_in_contexts(env):
    """Copies last until the outermost context ends, through inner ones that are off, on again, or without cache."""
    for to in HALF:
        w, v, x = _weight(env, 80, 80), _weight(env, 80, 80), _input(env, 20, 80)
        with env.autocast(to):
            y = F.linear(x, w)
            env.mark(f"{to} outermost")
            with env.autocast(to):
                y = F.linear(F.linear(y, w), v)
                env.mark(f"{to} inner")
            env.mark(f"{to} inner end")
            with env.autocast(to, enabled=False):
                y = F.linear(y.float(), w)
                env.mark(f"{to} off")
                with env.autocast(to):
                    y = F.linear(F.linear(y, w), v)
                    env.mark(f"{to} on again")
                y = F.layer_norm(y, (80,)) + y.exp()
                env.mark(f"{to} off again")
            with env.autocast(to, cache_enabled=False):
                y = F.linear(F.linear(y, w), v)
                env.mark(f"{to} without cache")
            y = F.linear(F.linear(y, w), v)
            env.mark(f"{to} outermost again")
        env.mark(f"{to} end")
        y.sum().backward()
        env.mark(f"{to} backward")
        with env.autocast(to, cache_enabled=False):
            y = F.linear(x, w)
            with env.autocast(to):
                y = F.linear(F.linear(y, w), w)
                env.mark(f"{to} with cache inside")
            env.mark(f"{to} with cache inside, end")
            y = F.linear(y, w)
            env.mark(f"{to} without cache again")
        del w, v, x, y


@case
def contexts_off(env):
    """A context that is off from the start, with another inside; and half-precision inputs within what is off."""
    for to in HALF:
        w, x = _weight(env, 60, 60), _input(env, 20, 60)
        with env.autocast(to, enabled=False):
            y = F.linear(x, w)
            env.mark(f"{to} off")
            with env.autocast(to):
                y = F.linear(F.linear(y, w), w)
                env.mark(f"{to} on inside")
            env.mark(f"{to} on inside, end")
            y = y.softmax(-1).sum() + F.linear(x, w).sum()
            env.mark(f"{to} off again")
        y.backward()
        env.mark(f"{to} backward")
        del w, x, y


@case
def two_types(env):
    """A context of the other half type inside: each of its weights is met there alone."""
    for outer, inner in (HALF, HALF[::-1]):
        w, v, x = _weight(env, 50, 50), _weight(env, 50, 50), _input(env, 20, 50)
        with env.autocast(outer):
            y = F.linear(x, w)
            with env.autocast(inner):
                y = F.linear(y, v)
                env.mark(f"{inner} inside")
            y = F.linear(y, w) + y.exp()
            env.mark(f"{outer} again")
        y.sum().backward()
        env.mark(f"{outer} backward")
        del w, v, x, y


@case
def two_types_of_one_weight(env):
    """The copy that is kept has the outer type: a product with it in the inner context is refused."""
    for outer, inner in (HALF, HALF[::-1]):
        w, x = _weight(env, 50, 50), _input(env, 20, 50)
        with env.autocast(outer):
            y = F.linear(x, w)
            with env.autocast(inner):
                try:
                    y = F.linear(x, w)
                except RuntimeError:
                    env.mark(f"{inner} refused")
            y = F.linear(y, w)
            env.mark(f"{outer} again")
        env.mark(f"{outer} end")
        del w, x, y


@case
def copies_that_outlive(env):
    """A graph keeps the copies after the context; what is dropped inside keeps its copy until the context ends."""
    for to, manner in itertools.product(HALF, MANNERS):
        kept = []
        for i in range(3):
            w, x = _weight(env, 90, 90), _input(env, 10, 90)
            with env.autocast(to, **manner):
                kept.append(F.linear(x, w))
            env.mark(f"{to} {manner} context {i}")
        del w, x
        env.mark(f"{to} {manner} names dropped")
        kept[1].sum().backward()
        env.mark(f"{to} {manner} backward of one")
        del kept
        env.mark(f"{to} {manner} graphs dropped")
        with env.autocast(to, **manner):
            for i in range(4):  # at an address that was in use before, there may be another weight
                w, x = _weight(env, 90, 90), _input(env, 10, 90)
                y = F.linear(x, w)
                del w, x, y
                env.mark(f"{to} {manner} dropped inside {i}")
            y = F.linear(_input(env, 10, 90), _weight(env, 90, 90))
            y.sum().backward()
            del y
            env.mark(f"{to} {manner} backward inside")
        env.mark(f"{to} {manner} end")


@case
def weights_that_change(env):
    """A copy stays what it was: after an optimizer's step, after new data, a new type, a gradient switched off."""
    for to in HALF:
        linear, x = nn.Linear(60, 60).to(env.device), _input(env, 10, 60)
        optimizer = torch.optim.SGD(linear.parameters(), lr=0.1)
        with env.autocast(to):
            linear(x).sum().backward()
            optimizer.step()
            env.mark(f"{to} step")
            linear(x).sum().backward()
            env.mark(f"{to} after the step")
            linear.weight.data = torch.empty(60, 60, device=env.device)
            linear(x).sum().backward()
            env.mark(f"{to} new data")
            linear.weight.requires_grad_(False)
            y = linear(x)
            env.mark(f"{to} frozen")
            linear.weight.requires_grad_()
            linear.half()
            y = y + linear(x)
            env.mark(f"{to} half")
            linear.float()
            y = y + linear(x)
            env.mark(f"{to} float again")
        env.mark(f"{to} end")
        del linear, optimizer, x, y
        gc.collect()  # an optimizer lies in a reference cycle


@case
def errors_and_ends(env):
    """An error leaves the context, and ends it; a context that is entered again starts afresh."""
    for to in HALF:
        w, x = _weight(env, 50, 50), _input(env, 20, 50)
        context = env.autocast(to)
        for i in range(2):
            with context:
                y = F.linear(x, w)
            env.mark(f"{to} entered {i}")
        try:
            with env.autocast(to), env.autocast(to):
                y = F.linear(x, w)
                raise KeyError
        except KeyError:
            env.mark(f"{to} error")
        assert not torch.is_autocast_enabled("cuda")
        with env.autocast(to):
            y = F.linear(x, w)
            torch.clear_autocast_cache()
            env.mark(f"{to} cleared")
            y = F.linear(y, w)
            env.mark(f"{to} cast again")
        del w, x, y
        env.mark(f"{to} end")


@case
def decorated(env):
    """A context as a decorator, and what a function asks of the context that it runs in."""
    for to in HALF:
        w, x = _weight(env, 50, 50), _input(env, 20, 50)

        @env.autocast(to)
        def forward(x, w=w, to=to):
            assert (torch.is_autocast_enabled("cuda"), torch.is_autocast_cache_enabled()) == (True, True)
            assert torch.get_autocast_dtype("cuda") == to
            x = x.to(torch.get_autocast_dtype("cuda")) if torch.is_autocast_enabled("cuda") else x
            return F.linear(F.linear(x, w), w)

        y = forward(x)
        env.mark(f"{to} forward")
        assert not torch.is_autocast_enabled("cuda")
        y.sum().backward()
        env.mark(f"{to} backward")
        del w, x, y, forward
