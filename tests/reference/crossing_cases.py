"""Cases about what crosses between the CPU and the GPU: transfers, new tensors, modules that are converted."""

import gc
import io
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F

CASES = {}


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "h100")
    CASES[function.__name__] = function
    return function


LAYOUTS = {
    "as it is": lambda x: x,
    "transposed": lambda x: x.t(),
    "every other": lambda x: x[:, ::2],
    "a row, expanded": lambda x: x[:1].expand(40, -1),
}


@case
def crossings(env):
    """Copies in both directions, of one type or converting, blocking or not, of tensors that lie in every way."""
    types = (torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32), (torch.float32, torch.float32)
    for (name, lie), (one, other), waits in itertools.product(LAYOUTS.items(), types, (False, True)):
        setting = f"{name} {one} {other} {waits}"
        there = lie(torch.ones(40, 60, dtype=one)).to(env.device, other, non_blocking=waits)
        env.mark(f"{setting} to the GPU")
        here = lie(torch.ones(40, 60, dtype=one, device=env.device)).to("cpu", other, non_blocking=waits)
        env.mark(f"{setting} to the CPU")
        del there, here
        if "expanded" in name:
            continue
        target = lie(torch.empty(40, 60, dtype=one, device=env.device))
        target.copy_(torch.ones(target.shape, dtype=other), non_blocking=waits)
        env.mark(f"{setting} into the GPU")
        target.copy_(torch.ones(target.shape[::-1], dtype=other).t(), non_blocking=waits)
        env.mark(f"{setting} into the GPU, from a transposed one")
        torch.empty(target.shape, dtype=other).copy_(target, non_blocking=waits)
        env.mark(f"{setting} into the CPU")
        del target


@case
def new_tensors(env):
    """Tensors made of Python's numbers, and like others that lie elsewhere."""
    x = torch.ones(5, 7, device=env.device)
    kept = [torch.tensor([1.0, 2.0, 3.0], device=env.device), torch.tensor(3, device=env.device)]
    env.mark("tensor")
    kept += [torch.as_tensor([[1, 2], [3, 4]], device=env.device), x.new_tensor([0.5] * 300)]
    env.mark("as_tensor, new_tensor")
    kept += [torch.zeros_like(torch.ones(300), device=env.device), torch.ones(3).new_zeros(500, device=env.device)]
    env.mark("like a tensor on the CPU")
    kept += [torch.empty_like(x, device="cpu"), nn.BatchNorm1d(300, device=env.device), x[[0, 2]], x[:, [1, 1, 1]]]
    env.mark("a module, lists as indices")
    kept += [torch.tensor(0.0) + x.sum(), torch.tensor(2.0) / x.mean(), x * 1j, x.to(torch.bool).sum(), x.long().sum()]
    env.mark("numbers on the CPU, other types")
    kept += [x.sum(dtype=torch.float64), F.softmax(x.half(), -1, dtype=torch.float32), x.bool().float().mean()]
    env.mark("sums and softmax in another type")
    kept += [x.expand(3, 5, 7).transpose(0, 2).reshape(-1, 5)[:, :1].expand(-1, 5) @ x[:, :1].expand(5, 9)]
    env.mark("a product of which both factors are copied")
    del kept


@case
def conversions(env):
    """Modules that move while a view or a graph of their parameters is alive, and change their type on the GPU."""
    for dtype in (torch.float32, torch.bfloat16):
        model = nn.Sequential(nn.Linear(37, 148), nn.ReLU(), nn.Linear(148, 37), nn.LayerNorm(37))
        view, graph = model[0].weight.t(), model[2](torch.ones(3, 148))
        calls = []
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(calls.append)
        model.to(env.device)
        env.mark(f"{dtype} moved")
        model(torch.ones(8, 37, device=env.device)).sum().backward()
        assert len(calls) == 6
        env.mark(f"{dtype} backward")
        model.to(dtype)
        env.mark(f"{dtype} converted")
        model.to_empty(device=env.device)
        env.mark(f"{dtype} emptied")
        model.cpu()
        env.mark(f"{dtype} back")
        del model, view, graph, calls, p


PRINTED = {
    "a number": (lambda make: make(()), torch.float32),
    "one element": (lambda make: make(1), torch.float32),
    "a vector": (lambda make: make(7), torch.float32),
    "none": (lambda make: make(0, 3), torch.float32),
    "a matrix": (lambda make: make(5, 8), torch.float32),
    "1000 elements": (lambda make: make(1000), torch.float32),
    "1001 elements": (lambda make: make(1001), torch.float32),
    "a large matrix": (lambda make: make(40, 50), torch.float32),
    "a wide matrix": (lambda make: make(4, 3000), torch.float32),
    "three dimensions": (lambda make: make(30, 5, 60), torch.float32),
    "transposed": (lambda make: make(5, 8).t(), torch.float32),
    "large, transposed": (lambda make: make(40, 50).t(), torch.float32),
    "every other": (lambda make: make(40)[::2], torch.float32),
    "expanded": (lambda make: make(1).expand(6, 4), torch.float32),
    "float64": (lambda make: make(6, 6), torch.float64),
    "float16": (lambda make: make(6, 6), torch.float16),
    "bfloat16, large": (lambda make: make(60, 60), torch.bfloat16),
    "int64": (lambda make: make(4, 4), torch.int64),
    "int64, large": (lambda make: make(50, 50), torch.int64),
    "uint8": (lambda make: make(3), torch.uint8),
    "bool": (lambda make: make(4, 2), torch.bool),
    "bool, large": (lambda make: make(2000), torch.bool),
    "complex": (lambda make: make(3, 3), torch.complex64),
}


@case
def printing(env):
    """Tensors of every size and type, printed, and made lists of Python's numbers."""
    for name, (make, dtype) in PRINTED.items():
        x = make(lambda *shape, dtype=dtype: torch.zeros(*shape, dtype=dtype, device=env.device))
        env.mark(f"{name} made")
        repr(x)
        env.mark(f"{name} printed")
        x.tolist()
        env.mark(f"{name} listed")
        del x
    torch.set_printoptions(threshold=10**9)
    for n in (2000, 4096):
        x = torch.zeros(n, device=env.device)
        repr(x)
        env.mark(f"{n} elements printed in full")
    torch.set_printoptions(profile="default")
    model = nn.Linear(3, 2, device=env.device)
    str(model.weight)
    env.mark("a parameter")
    f"{model(torch.zeros(2, 3, device=env.device))} {model.bias.sum():.3f}"
    env.mark("a result, and a number in a formatted string")
    del x, model


@case
def assigned_data(env):
    """Parameters that get their data on another device, and in another type, by `p.data = ...`."""
    for dtype in (torch.float32, torch.bfloat16):
        model = nn.Sequential(nn.Linear(37, 148), nn.ReLU(), nn.Linear(148, 37), nn.LayerNorm(37))
        for p in model.parameters():
            p.data = p.data.to(env.device)
        env.mark(f"{dtype} on the GPU")
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(8, 37, device=env.device)).sum().backward()
        optimizer.step()
        env.mark(f"{dtype} step")
        optimizer.zero_grad()
        for p in model.parameters():
            p.data = p.data.to(dtype)
        env.mark(f"{dtype} converted")
        for p in model.parameters():
            p.data = p.data.cpu()
        env.mark(f"{dtype} on the CPU")
        del model, optimizer, p
        gc.collect()  # an optimizer lies in a reference cycle


@case
def files(env):
    """States of a model and its optimizer, saved from the GPU and loaded, to the GPU and to the CPU."""
    model = nn.Sequential(nn.Linear(37, 148), nn.ReLU(), nn.Linear(148, 37), nn.LayerNorm(37)).to(env.device)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(8, 37, device=env.device)).sum().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    env.mark("saved")
    for where in (None, "cpu"):
        file.seek(0)
        state = torch.load(file, map_location=where)
        env.mark(f"{where} read")
        model.load_state_dict(state["model"])
        env.mark(f"{where} model loaded")
        optimizer.load_state_dict(state["optimizer"])
        env.mark(f"{where} optimizer loaded")
        del state
    del model, optimizer
