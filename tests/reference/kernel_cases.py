"""More cases in the form of cases.py: what experts, alignments and lists ask for, at random from a fixed seed.

Products of groups of matrices; losses of alignments, margins and probabilities; quantiles and histograms; numbers that
fill; Python lists as indices where hooks see saved tensors; autocast asked by a device's type.
"""

import contextlib
import random

import torch
from torch.nn import functional as F

CASES = {}


def case(*cards):
    def register(function):
        function.cudnn_sdp, function.cards = False, cards
        CASES[function.__name__] = function
        return function

    return register


@case("a100", "h100", "b200")
def groups_multiplied(env):
    """With cuBLAS's workspaces there: groups of which the sizes are values, zeros, ask for none."""
    rng = random.Random(51)
    a = torch.zeros(4, 4, device=env.device, requires_grad=True)
    (a @ a).sum().backward()
    for i in range(40):
        dtype = rng.choice([torch.bfloat16, torch.bfloat16, torch.float32, torch.float16])
        n = 16 // dtype.itemsize
        groups, rows, inner, columns = rng.randint(1, 9), *(n * rng.randint(1, 60) for _ in range(3))
        kind = rng.choice(["rows", "rows", "turned", "whole", "terms", "columns"])
        shapes = {
            "rows": [(rows, inner), (groups, inner, columns)],
            "turned": [(rows, inner), (groups, columns, inner)],
            "whole": [(groups, rows, inner), (groups, inner, columns)],
            "terms": [(rows, inner), (inner, columns)],
            "columns": [(groups, rows, inner), (inner, columns)],
        }
        x, weight = (torch.zeros(*s, device=env.device, dtype=dtype, requires_grad=True) for s in shapes[kind])
        ends = None if kind == "whole" else torch.zeros(groups, device=env.device, dtype=torch.int32)
        is_cast = dtype == torch.float32 and rng.random() < 0.5
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=is_cast):
            y = torch._grouped_mm(x, weight.transpose(-2, -1) if kind == "turned" else weight, offs=ends)
        (y * y).sum().backward()
        env.mark(f"{kind} {i}")
        del x, weight, y, ends


@case("a100", "t4")
def sequences_aligned(env):
    rng = random.Random(52)
    for i in range(60):
        steps, rows, classes = rng.choice([1, 7, 50, 210]), rng.choice([1, 3, 16, 40]), rng.choice([2, 11, 70])
        longest = min(rng.choice([1, 4, 9]), steps)
        dtype = rng.choice([torch.float32, torch.float32, torch.float64])
        shape = (rows, steps, classes) if rng.random() < 0.3 else (steps, rows, classes)
        x = torch.zeros(*shape, device=env.device, dtype=dtype, requires_grad=True)
        inputs, targets = [steps] * rows, [longest] + [rng.randint(1, longest) for _ in range(rows - 1)]
        is_flat, device = rng.random() < 0.5, rng.choice([env.device, env.device, "cpu"])
        y = torch.ones(sum(targets) if is_flat else (rows, longest), dtype=torch.long, device=device)
        if how := rng.choice([None, torch.int64, torch.int32]):
            inputs, targets = torch.tensor(inputs, dtype=how), torch.tensor(targets, dtype=how)
        else:
            inputs, targets = tuple(inputs), tuple(targets)
        x_by_steps = x.transpose(0, 1) if shape[0] == rows and rows != steps else x.view(steps, rows, classes)
        reduction, zero_infinity = rng.choice(["mean", "sum", "none"]), rng.random() < 0.4
        loss = F.ctc_loss(x_by_steps.log_softmax(2), y, inputs, targets, 0, reduction, zero_infinity)
        loss.sum().backward()
        env.mark(f"alignment {i}")
        del x, x_by_steps, y, loss, inputs, targets


@case("a100", "t4")
def margins_and_probabilities(env):
    rng = random.Random(53)
    for i in range(80):
        rows, classes = rng.choice([1, 5, 300, 5000, 70000]), rng.choice([1, 3, 64])
        dtype = rng.choice([torch.float32, torch.float16, torch.bfloat16, torch.float64])
        is_turned = rng.random() < 0.3
        shape = (classes, rows) if is_turned else (rows, classes)
        x = torch.zeros(*shape, device=env.device, dtype=dtype, requires_grad=True)
        z = x.t() if is_turned else x
        reduction = rng.choice(["mean", "sum", "none"])
        weight = torch.ones(classes, device=env.device, dtype=dtype) if rng.random() < 0.4 else None
        kind = rng.choice(["one", "several", "probability"])
        if kind == "one":
            y = torch.zeros(rows, device=env.device, dtype=torch.long)
            loss = F.multi_margin_loss(z, y, p=rng.choice([1, 2]), weight=weight, reduction=reduction)
        elif kind == "several":
            y = torch.zeros(*z.shape, device=env.device, dtype=torch.long)
            loss = F.multilabel_margin_loss(z, y, reduction=reduction)
        else:
            y = torch.zeros(*z.shape, device=env.device, dtype=dtype)
            loss = F.binary_cross_entropy(z.sigmoid(), y, weight, reduction=reduction)
        (loss.sum() if reduction == "none" else loss).backward()
        env.mark(f"{kind} {i}")
        del x, z, y, loss, weight


@case("a100", "t4")
def quantiles_and_histograms(env):
    rng = random.Random(54)
    for i in range(60):
        dtype = rng.choice([torch.float32, torch.float64])
        shape = [rng.randint(1, 16) for _ in range(rng.randint(1, 3))]
        x = torch.zeros(*shape, device=env.device, dtype=dtype, requires_grad=rng.random() < 0.6)
        z = x.transpose(0, -1) if rng.random() < 0.3 else x
        q = rng.choice(
            [0.3, torch.zeros((), device=env.device, dtype=dtype), torch.zeros(3, device=env.device, dtype=dtype)]
        )
        options = {"dim": rng.randrange(-1, len(shape)), "keepdim": rng.random() < 0.5} if rng.random() < 0.7 else {}
        options["interpolation"] = rng.choice(["linear", "lower", "higher", "midpoint", "nearest"])
        y = rng.choice([torch.quantile, torch.nanquantile])(z, q, **options)
        if y.requires_grad:
            y.sum().backward()
        env.mark(f"quantile {i}")
        torch.histc(z.detach(), rng.randint(1, 200), 0, rng.choice([0, 9]))
        env.mark(f"histogram {i}")
        del x, y, z, q


LEAST = torch.finfo(torch.float32).min


def _filled(name, x, mask, value):
    if name == "in place":
        return (x * 1).masked_fill_(mask, value)
    if name == "padded":
        return F.pad(x, (1, 1), value=value)
    if name == "scattered":
        return (x * 1).scatter(0, torch.zeros(2, 6, dtype=torch.long, device=x.device), value)
    if name == "a number on the CPU":
        return (x * 1).masked_fill(mask, torch.tensor(value))
    return {"filled": (x * 1).masked_fill, "chosen": lambda m, v: torch.where(m, v, x * 1)}[name](mask, value)


@case("a100", "t4")
def numbers_filled_in(env):
    """A number that does not fit its type is refused, after what has been allocated for it."""
    names = ("filled", "in place", "padded", "scattered", "a number on the CPU", "chosen")
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for name in names:
            for is_cast in (False, True):
                x = torch.zeros(4, 6, device=env.device, dtype=dtype, requires_grad=True)
                mask = torch.zeros(4, 6, dtype=torch.bool, device=env.device)
                with torch.autocast("cuda", dtype=torch.float16, enabled=is_cast), contextlib.suppress(RuntimeError):
                    _filled(name, x, mask, LEAST).sum().backward()
                env.mark(f"{name} {dtype} {is_cast}")
                del x, mask
        for make in (torch.full, lambda shape, value, **options: torch.zeros(3, **options).new_full(shape, value)):
            with contextlib.suppress(RuntimeError):
                make((3,), LEAST, dtype=dtype, device=env.device)
            env.mark(f"made {dtype}")


@case("a100", "t4")
def lists_under_hooks(env):
    def indexed(x):
        y = torch.tanh(x)
        y = torch.cat([y[:, [-2]] * 2, y[[1, 2], [3, 4]].unsqueeze(1).expand(-1, 1, -1).repeat(len(y) // 2, 1, 1)], 1)
        y[:, [0]] = 2.0
        return y

    hooks = {
        "identity": torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
        "on the CPU": torch.autograd.graph.save_on_cpu(),
        "none": contextlib.nullcontext(),
    }
    for name, hook in hooks.items():
        x = torch.zeros(8, 16, 4, device=env.device, requires_grad=True)
        with hook:
            y = indexed(x)
        y.sum().backward()
        env.mark(name)
        del x, y


@case("a100", "t4")
def autocast_asked_by_type(env):
    weight = torch.zeros(16, 16, device=env.device, requires_grad=True)
    kind = weight.device.type
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast(kind, dtype=dtype):
            x = torch.zeros(5, 16, device=env.device) @ weight
            answers = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind) == dtype
            torch.zeros(1 + sum(answers), device=env.device)
            with torch.autocast(kind, enabled=False):
                y = x.float() @ weight
                torch.zeros(1 + torch.is_autocast_enabled(kind), device=env.device)
        y.sum().backward()
        env.mark(str(dtype))
        weight.grad = None
        del x, y
