"""More cases in the form of cases.py: indexing with several lists, at random from a fixed seed, and what resembles it.

Lists of 32 and 64 bits, on the GPU and the CPU, masks, views and lists that widen each other; in dimensions that follow
each other and that do not; read, written, added up, and differentiated.
"""

import random

import torch

CASES = {}


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "t4")
    CASES[function.__name__] = function
    return function


def _list(env, rng, size, shape):
    """A list of positions below `size`, of this shape: as it is, every second of another, 32-bit, or on the CPU."""
    form = rng.choice(["plain", "plain", "plain", "strided", "int32", "cpu"])
    dtype = torch.int32 if form == "int32" else torch.int64
    device = "cpu" if form == "cpu" else env.device
    if form == "strided":
        return torch.zeros(*shape, 2, dtype=dtype, device=device)[..., 0]
    return torch.zeros(shape, dtype=dtype, device=device)


def _indices(env, rng, x):
    """One to three of x's dimensions indexed, by lists that widen to one shape, or one by a mask on the CPU."""
    if rng.random() < 0.1:
        n_dims = rng.randint(1, min(2, x.dim()))
        mask = torch.zeros(x.shape[:n_dims], dtype=torch.bool)
        mask.view(-1)[: rng.randint(1, 3)] = True
        return (mask,)
    shapes = rng.choice([[(4,)], [(3, 1), (5,)], [(3, 1), (1, 5)], [(2, 3), (3,)], [(4,), (4,), (4,)], [(), (6,)]])
    dims = sorted(rng.sample(range(x.dim()), min(len(shapes), x.dim())))
    found = [slice(None)] * (dims[-1] + 1)
    for dim, shape in zip(dims, shapes):
        found[dim] = _list(env, rng, x.shape[dim], shape)
    return tuple(found)


def _tensor(env, rng, **options):
    shape = [rng.randint(2, 24) for _ in range(rng.randint(1, 4))]
    x = torch.zeros(
        shape, device=env.device, dtype=rng.choice([torch.float32, torch.bfloat16, torch.float64]), **options
    )
    return x.transpose(0, -1) if rng.random() < 0.2 else x


@case
def indexed(env):
    rng = random.Random(21)
    for i in range(200):
        x = _tensor(env, rng)
        kept = x[_indices(env, rng, x)]
        env.mark(f"read {i}")
        del x, kept


@case
def indexed_and_differentiated(env):
    rng = random.Random(22)
    for i in range(150):
        x = _tensor(env, rng, requires_grad=True)
        x[_indices(env, rng, x)].sum().backward()
        env.mark(f"read and differentiated {i}")
        del x


@case
def written_by_index(env):
    rng = random.Random(23)
    for i in range(200):
        x = _tensor(env, rng)
        indices = _indices(env, rng, x)
        if rng.random() < 0.5:
            x[indices] = rng.choice([1.0, -1e9])
        else:
            x[indices] = torch.zeros((), device=env.device, dtype=x.dtype).expand(x[indices].shape)
        env.mark(f"written {i}")
        del x, indices


@case
def added_up_by_index(env):
    rng = random.Random(24)
    for i in range(150):
        x = _tensor(env, rng)
        indices = [None if isinstance(one, slice) else one for one in _indices(env, rng, x)]
        values = torch.zeros_like(torch.ops.aten.index(x, indices))
        torch.ops.aten.index_put_(x, indices, values, True)
        env.mark(f"added up {i}")
        del x, indices, values


@case
def rolled(env):
    rng = random.Random(25)
    for i in range(60):
        x = _tensor(env, rng)
        dims = rng.sample(range(x.dim()), rng.randint(0, x.dim()))
        kept = torch.roll(x, [rng.randint(-3, 3) for _ in dims], dims) if dims else torch.roll(x, 2)
        env.mark(f"rolled {i}")
        del x, kept


@case
def compared_and_turned(env):
    """Whether two tensors are equal; the size and the angle of complex numbers; rows looked up by views."""
    for n in (3, 64, 3000):
        x, y = torch.zeros(n, 8, device=env.device), torch.zeros(n, 8, device=env.device)
        for name, other in {"itself": x, "another": y, "its half": x[: n // 2], "its turn": x.view(8, n).t()}.items():
            torch.equal(x, other)
            env.mark(f"compared with {name}, {n}")
        for dtype in (torch.complex64, torch.complex128):
            z = torch.zeros(n, 8, dtype=dtype, device=env.device, requires_grad=True)
            for name, function in {"size": torch.abs, "angle": torch.angle}.items():
                function(z).sum().backward()
                z.grad = None
                function(z.detach().t())
                env.mark(f"{name} of {dtype}, {n}")
        weight, boxes = (
            torch.zeros(10, 4, device=env.device),
            torch.zeros(8, n, 4, dtype=torch.int64, device=env.device),
        )
        for name, indices in {
            "column": boxes[:, :, 0],
            "turned": boxes[..., 0].t(),
            "rows": boxes[:, : n // 2, 1],
        }.items():
            torch.nn.functional.embedding(indices, weight)
            env.mark(f"looked up {name}, {n}")


@case
def indexed_with_turned_lists(env):
    """Lists of positions that lie in another order, on either device, of 32 and 64 bits."""
    rng = random.Random(27)
    for i in range(60):
        x = _tensor(env, rng, requires_grad=True)
        shape = [rng.randint(1, 5) for _ in range(rng.randint(2, 3))]
        device = rng.choice([env.device, env.device, "cpu"])
        dtype = rng.choice([torch.int64, torch.int64, torch.int32])
        turned = torch.zeros(shape, dtype=dtype, device=device).transpose(0, -1)
        others = [torch.zeros(turned.shape, dtype=torch.int64, device=env.device)] * rng.randint(0, x.dim() - 1)
        lists = [turned, *others]
        rng.shuffle(lists)
        x[tuple(lists)].sum().backward()
        env.mark(f"read and differentiated {i}")
        del x, turned, others, lists
