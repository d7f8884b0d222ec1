"""More cases in the form of cases.py: many small calls, drawn at random from a fixed seed.

They hold the rules of every_byte/gpu/operators to the CUDA build for shapes that no model here happens to use.
"""

import copy
import gc
import itertools
import random
import struct

import torch
import torch.nn as nn
import torch.nn.functional as F

CASES = {}
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "h100", "t4", "rtx3090")
    CASES[function.__name__] = function
    return function


def _size(rng, most):
    """Sizes of every scale, powers of two and odd ones."""
    n = 2 ** rng.uniform(0, most)
    return max(1, int(n) if rng.random() < 0.5 else 2 ** round(n).bit_length() // 2)


def _reduction(env, rng):
    """One sum or mean of a tensor that may be transposed, sliced or expanded."""
    shape = [_size(rng, 22 / (1 + n)) for n in [rng.randint(0, 3)] for _ in range(n + 1)]
    x = torch.empty(shape, device=env.device, dtype=rng.choice(DTYPES))
    form = rng.choice(["as it is", "transposed", "sliced", "expanded", "offset"])
    if form == "transposed" and x.dim() > 1:
        x = x.transpose(*rng.sample(range(x.dim()), 2))
    elif form == "sliced" and x.shape[-1] > 2:
        x = x[..., 1 : x.shape[-1] // 2 + 1]
    elif form == "offset" and x.shape[0] > 4:
        x = x[rng.randint(1, 3) :]
    elif form == "expanded":
        x = x[:1].expand(_size(rng, 12), *x.shape[1:])
    reduce = rng.choice([torch.sum, torch.mean])
    if rng.random() < 0.2:
        return reduce(x)
    dims = rng.sample(range(x.dim()), rng.randint(1, x.dim()))
    return reduce(x, dim=dims, keepdim=rng.random() < 0.5)


@case
def reductions(env):
    rng = random.Random(1)
    for i in range(400):
        kept = _reduction(env, rng)
        env.mark(f"reduction {i}")
        del kept


@case
def reductions_to_pairs(env):
    """Those that take several numbers along, as a value and its place: an accumulator of up to 16 bytes."""
    rng = random.Random(11)
    reduce = {
        "var": torch.var, "std": torch.std, "var_mean": torch.var_mean, "argmax": torch.argmax, "argmin": torch.argmin,
    }  # fmt: skip
    for i in range(300):
        n_dims = rng.randint(1, 3)
        shape = [_size(rng, 23 / n_dims) for _ in range(n_dims)]
        x = torch.empty(shape, device=env.device, dtype=rng.choice(DTYPES))
        if x.dim() > 1 and rng.random() < 0.3:
            x = x.transpose(*rng.sample(range(x.dim()), 2))
        name = rng.choice([*reduce, "max", "min"])
        dim = rng.randrange(x.dim())
        if name in reduce:
            kept = reduce[name](x) if rng.random() < 0.3 else reduce[name](x, dim)
        else:
            kept = getattr(torch, name)(x, dim)
        env.mark(f"{name} {i}")
        del kept


@case
def large_reductions(env):
    """More than 2**31 bytes: PyTorch cuts the work until 32-bit offsets suffice."""
    for i, (shape, dtype, dims) in enumerate(
        [
            ((40_000, 32_768), torch.bfloat16, 0),
            ((40_000, 32_768), torch.bfloat16, 1),
            ((40_000, 32_768), torch.float32, 0),
            ((3, 40_000, 16_384), torch.float16, (0, 1)),
            ((70_001, 16_385), torch.bfloat16, 0),
            ((5, 700_001, 513), torch.bfloat16, (0, 2)),
            ((1_300_000_000,), torch.bfloat16, 0),
        ]
    ):
        x = torch.empty(shape, device=env.device, dtype=dtype)
        y = x.sum(dims)
        env.mark(f"sum {i}")
        del x, y


ACTIVATIONS = {
    "ReLU": nn.ReLU(), "ReLU6": nn.ReLU6(), "LeakyReLU": nn.LeakyReLU(), "ELU": nn.ELU(), "CELU": nn.CELU(),
    "SELU": nn.SELU(), "GELU": nn.GELU(), "GELU tanh": nn.GELU("tanh"), "SiLU": nn.SiLU(), "Mish": nn.Mish(),
    "Sigmoid": nn.Sigmoid(), "LogSigmoid": nn.LogSigmoid(), "Tanh": nn.Tanh(), "Tanhshrink": nn.Tanhshrink(),
    "Softplus": nn.Softplus(), "Softsign": nn.Softsign(), "Softshrink": nn.Softshrink(), "Hardshrink": nn.Hardshrink(),
    "Hardtanh": nn.Hardtanh(), "Hardswish": nn.Hardswish(), "Hardsigmoid": nn.Hardsigmoid(),
    "Threshold": nn.Threshold(0.1, 0.0), "RReLU": nn.RReLU(), "Identity": nn.Identity(),
    "LeakyReLU in place": nn.LeakyReLU(inplace=True), "ReLU in place": nn.ReLU(inplace=True),
    "SiLU in place": nn.SiLU(inplace=True), "ELU in place": nn.ELU(inplace=True),
    "Mish in place": nn.Mish(inplace=True), "Hardswish in place": nn.Hardswish(inplace=True),
    "Hardtanh in place": nn.Hardtanh(inplace=True), "RReLU in place": nn.RReLU(inplace=True),
    "Threshold in place": nn.Threshold(0.1, 0.0, inplace=True), "Hardsigmoid in place": nn.Hardsigmoid(inplace=True),
    "PReLU": nn.PReLU(), "PReLU by channel": nn.PReLU(2), "Softmax": nn.Softmax(-1), "Softmax first": nn.Softmax(0),
    "LogSoftmax": nn.LogSoftmax(-1), "LogSoftmax middle": nn.LogSoftmax(1), "Softmin": nn.Softmin(-1),
    "Softmax2d": nn.Softmax2d(),
}  # fmt: skip


@case
def activations(env):
    """Each activation inside an MLP, forward and backward, with and without dropout, in two types."""
    rng = random.Random(2)
    for (name, act), dropout, dtype in itertools.product(ACTIVATIONS.items(), (0.0, 0.1), DTYPES[:2]):
        b, s, d = _size(rng, 3), _size(rng, 6), _size(rng, 8)
        act = nn.PReLU(s) if name == "PReLU by channel" else copy.deepcopy(act)
        mlp = nn.Sequential(nn.Linear(d, 4 * d), act, nn.Linear(4 * d, d), nn.Dropout(dropout)).to(env.device, dtype)
        x = torch.empty(b, s, d, device=env.device, dtype=dtype, requires_grad=rng.random() < 0.5)
        y = mlp(x)
        env.mark(f"{name} {dropout} {dtype} forward")
        y.backward(torch.empty_like(y))
        env.mark(f"{name} {dropout} {dtype} backward")
        del mlp, x, y


@case
def softmaxes(env):
    """Softmax and log_softmax over any dimension of tensors that may lie transposed, and their gradients."""
    rng = random.Random(5)
    for i in range(60):
        x = torch.empty([_size(rng, 8) for _ in range(rng.randint(1, 4))], device=env.device, dtype=rng.choice(DTYPES))
        x = x.transpose(0, -1) if rng.random() < 0.5 else x
        function, dim = rng.choice([F.softmax, F.log_softmax]), rng.randrange(x.dim())
        y = function(x.requires_grad_(), dim)
        env.mark(f"softmax {i} forward")
        gradient = torch.empty_like(y)
        if rng.random() < 0.5:
            gradient = torch.empty(y.shape[::-1], device=env.device, dtype=y.dtype).permute(*reversed(range(y.dim())))
        y.backward(gradient)
        env.mark(f"softmax {i} backward")
        del x, y, gradient


@case
def linears(env):
    """Stacks of Linears over inputs of one to four dimensions, contiguous or not, some frozen."""
    rng = random.Random(3)
    for i in range(80):
        dims, width = rng.randint(1, 4), [_size(rng, 9) for _ in range(4)]
        dtype = rng.choice(DTYPES[:3])
        layers = [nn.Linear(a, b, bias=rng.random() < 0.5) for a, b in itertools.pairwise(width)]
        model = nn.Sequential(*layers).to(env.device, dtype)
        for layer in layers[:-1]:
            layer.requires_grad_(rng.random() < 0.7)
        x = torch.empty(*[_size(rng, 5) for _ in range(dims - 1)], width[0], device=env.device, dtype=dtype)
        trained = rng.random() < 0.5
        if dims > 2 and trained:
            x = x.transpose(0, 1)
        y = model(x.requires_grad_(trained))
        env.mark(f"linears {i} forward")
        loss = rng.choice([torch.sum, torch.mean])(y) if rng.random() < 0.5 else F.mse_loss(y, torch.empty_like(y))
        loss.backward()
        env.mark(f"linears {i} backward")
        del layers, layer, model, x, y, loss


class TwiceAndThrice(torch.autograd.Function):
    """A backward in Python that adds two tensors nobody else sees: an addition that is not the engine's."""

    @staticmethod
    def forward(ctx, x):
        return x * 5

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2 + gradient * 3


SUMS = {
    "residual": lambda h: h + F.gelu(h),
    "two branches": lambda h: F.gelu(h) + F.silu(h),
    "three branches": lambda h: F.gelu(h) + F.silu(h) + F.relu(h),
    "itself": lambda h: h + h,
    "product with itself": lambda h: h * h,
    "square of a matrix": lambda h: h @ h @ h,
    "transposed": lambda h: h.t().relu() + h.relu(),
    "expanded": lambda h: h.sum(0, keepdim=True).expand(64, 64) + h,
    "custom": lambda h: TwiceAndThrice.apply(h) + F.silu(h),
}


@case
def sums_of_gradients(env):
    """Two gradients that meet: autograd adds in place only into one that nobody else holds."""
    for name, branch in SUMS.items():
        for way in ("sum", "given", "retained", "hooked", "twice"):
            x = torch.empty(64, 64, device=env.device, requires_grad=True)
            h = x * 2
            kept = []
            if way == "retained":
                h.retain_grad()
            if way == "hooked":
                h.register_hook(kept.append)
            y = branch(branch(h))
            gradient = torch.empty_like(y) if way == "given" else None
            env.mark(f"{name} {way} forward")
            if gradient is None:
                y.sum().backward(retain_graph=way == "twice")
                if way == "twice":
                    y.sum().backward()
            else:
                y.backward(gradient)
            env.mark(f"{name} {way} backward")
            del x, h, y, gradient, kept


OPTIMIZERS = {
    "SGD": torch.optim.SGD, "Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW, "Adamax": torch.optim.Adamax,
    "Adagrad": torch.optim.Adagrad, "RMSprop": torch.optim.RMSprop, "NAdam": torch.optim.NAdam,
    "Adadelta": torch.optim.Adadelta, "RAdam": torch.optim.RAdam, "ASGD": torch.optim.ASGD, "Rprop": torch.optim.Rprop,
}  # fmt: skip


@case
def optimizers(env):
    """Three steps of each optimizer in each of its forms, from parameters that were moved after it was made."""
    momentum = {"SGD": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}}
    forms = [{}, {"foreach": True}, {"foreach": False}, {"fused": True}]
    for (name, cls), form, extra in itertools.product(OPTIMIZERS.items(), forms, (False, True)):
        if "fused" in form and name not in ("SGD", "Adam", "AdamW"):
            continue
        if extra and name not in ("SGD", "Adam", "AdamW"):
            continue
        model = nn.Sequential(nn.Linear(37, 300), nn.ReLU(), nn.Linear(300, 11))
        more = ({"amsgrad": True} if name != "SGD" else momentum["SGD"]) if extra else {}
        model.to(env.device)
        optimizer = cls(model.parameters(), lr=0.1, **form, **more)
        for step in range(3):
            model(torch.empty(8, 37, device=env.device)).sum().backward()
            optimizer.step()
            env.mark(f"{name} {form} {more} step {step}")
            optimizer.zero_grad(set_to_none=step != 1)
            env.mark(f"{name} {form} {more} zero_grad {step}")
        del model, optimizer
        gc.collect()  # an optimizer lies in a reference cycle


READ_BY_OPTIMIZERS = (
    0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    0.0, 0.0, 0.10000000149011612, 1.0, 1.0, 0.10000000149011612, 1.0, 1.0, 0.10000000149011612, 1.0, 1.0,
    0.10000000149011612, 1.0, 1.0, 0.09999924898147583, 1.0, 2.0, 0.09999924898147583, 1.0, 2.0,
    0.09999924898147583, 1.0, 2.0, 0.09999924898147583, 1.0, 2.0, 0.09999849647283554, 1.0, 3.0,
    0.09999849647283554, 1.0, 3.0, 0.09999849647283554, 1.0, 3.0, 0.09999849647283554, 1.0, 3.0,
)  # fmt: skip
"""The numbers that ASGD and others keep on the GPU and read, in order: averaging begins when such a one is not 1."""

optimizers.answers = lambda: [f"4 {struct.pack('<f', number).hex()}" for number in READ_BY_OPTIMIZERS]


@case
def transfers(env):
    """Making, filling, copying and converting tensors."""
    rng = random.Random(4)
    for i in range(60):
        shape = [_size(rng, 8) for _ in range(rng.randint(1, 3))]
        make = rng.choice([torch.empty, torch.zeros, torch.ones, torch.randn, torch.rand])
        if rng.random() < 0.5:
            x = make(shape, device=env.device)
        else:
            x = make(shape).to(env.device, dtype=rng.choice(DTYPES))
        x = x.transpose(0, -1) if rng.random() < 0.5 else x
        kept = [x.to(rng.choice(DTYPES)), x.contiguous(), x.clone(), x.reshape(-1), torch.zeros_like(x), x * 2 + 1]
        env.mark(f"transfer {i}")
        x += 1
        x.copy_(kept[2])
        kept.append(x.flatten(0).sum())
        env.mark(f"transfer {i} in place")
        del x, kept


@case
def orderings(env):
    """Running sums, sort, argsort and topk along any dimension of tensors that may lie transposed; their gradients."""
    rng = random.Random(7)
    for i in range(150):
        dtype = rng.choice([*DTYPES, torch.int64, torch.bool, torch.int32])
        x = torch.zeros([_size(rng, 9) for _ in range(rng.randint(1, 3))], device=env.device, dtype=dtype)
        x = x.transpose(0, -1) if rng.random() < 0.4 else x
        x = x[::2] if rng.random() < 0.2 else x
        dim = rng.randrange(-1, x.dim())
        kept = [x.cumsum(dim), x.cumsum(dim, dtype=torch.float32), x.sort(dim), x.argsort(dim, descending=True)]
        env.mark(f"ordering {i}")
        kept.append(x.sort(dim=dim, stable=True))
        if dtype is not torch.bool:
            kept += [
                x.topk(rng.randint(1, x.shape[dim]), dim, sorted=rng.random() < 0.5),
                x.topk(1, dim, largest=False),
            ]
        env.mark(f"ordering {i} topk")
        del x, kept
    for i in range(40):
        x = torch.zeros(
            [_size(rng, 20 / (1 + n)) for n in [rng.randint(0, 2)] for _ in range(n + 1)], device=env.device
        )
        x.requires_grad_()
        y = x.cumsum(-1)
        env.mark(f"gradient {i} cumsum")
        y.backward(torch.ones_like(y))
        env.mark(f"gradient {i} cumsum backward")
        values, indices = x.topk(max(1, x.shape[-1] // 400))
        values.backward(torch.ones_like(values))
        env.mark(f"gradient {i} topk")
        del x, y, values, indices


ROWS = (1, 20, 21, 40, 41, 80, 81, 199, 200, 799, 800, 4000, 4001)
LENGTHS = (400, 800, 3000, 5000, 8000, 10_000, 20_000)


@case
def shared_rows(env):
    """topk over rows that several thread blocks share from some length on, and running sums of one long row."""
    for rows, length, more in itertools.product(ROWS, LENGTHS, (-1, 0, 1777)):
        x = torch.empty(rows, length + more, device=env.device, dtype=torch.bfloat16)
        values, indices = x.topk(5)
        env.mark(f"{rows} rows of {length + more}")
        del x, values, indices
    for shape, dtype in itertools.product(((3, 50_257), (1, 2**20), (7, 300_000), (50, 150_000)), DTYPES):
        x = torch.empty(shape, device=env.device, dtype=dtype)
        values, indices = x.topk(50)
        env.mark(f"{shape} {dtype}")
        del x, values, indices
    for n, dtype in itertools.product((61_440, 61_441, 14_337, 122_881, 368_641, 10_000_001), DTYPES):
        y = torch.empty(n, device=env.device, dtype=dtype).cumsum(0)
        env.mark(f"sum of {n} {dtype}")
        del y


@case
def norms_of_single_elements(env):
    """Along dimensions of one element, and others, in the input's type and in a wider one, by both names."""
    rng = random.Random(8)
    for i in range(60):
        shape = [rng.choice([1, _size(rng, 10)]) for _ in range(rng.randint(1, 3))]
        dims = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
        x = torch.empty(shape, device=env.device, dtype=rng.choice(DTYPES))
        x = x.transpose(0, -1) if rng.random() < 0.4 else x
        wider = rng.choice([None, torch.float32]) if x.dtype != torch.float64 else None
        p = rng.choice([1, 2, 3, 0.5, float("inf")])
        y = torch.linalg.vector_norm(x, p, dims, keepdim=rng.random() < 0.5, dtype=wider)
        env.mark(f"vector_norm {i}")
        z = x.norm(p, dims, dtype=wider)
        env.mark(f"norm {i}")
        del x, y, z


@case
def clamped_between_numbers(env):
    """Integers between numbers of a wider type and of their own, by each name; what leaves its type alone."""
    rng = random.Random(9)
    types = torch.int64, torch.int32, torch.uint8, torch.int16, torch.float16, torch.float32
    for number in range(40):
        dtype = rng.choice(types)
        shape = [_size(rng, 10) for _ in range(rng.randint(1, 3))]
        x = torch.zeros(shape, device=env.device, dtype=dtype)
        x = x.transpose(0, -1) if rng.random() < 0.4 else x
        low, high = rng.choice([(0, None), (None, 3), (0, 3), (0.5, None), (None, 2.5), (0, 2.5), (False, None)])
        y = x.clamp(min=low, max=high)
        env.mark(f"clamp {number}")
        if high is None:
            z = x.clamp_min(low)
        elif low is None:
            z = x.clamp_max(high)
        else:
            z = torch.nn.functional.hardtanh(x, low, high) if dtype.is_floating_point else x.clip(low, high)
        env.mark(f"by another name {number}")
        del x, y, z


@case
def draws_of_gammas(env):
    rng = random.Random(58)
    for i in range(40):
        shape = tuple(rng.choice([1, 3, 7, 64, 3001]) for _ in range(rng.choice([1, 2, 2, 3])))
        if torch.Size(shape).numel() > 10**6:
            continue
        x = torch.ones(shape, device=env.device, dtype=rng.choice([torch.float32, torch.float64, torch.float16]))
        x = x.requires_grad_(x.dtype != torch.float16)
        given = x.transpose(0, -1) if rng.random() < 0.4 else x
        draw = rng.choice([torch._sample_dirichlet, torch._standard_gamma, lambda a: torch.binomial(a, a)])
        y = draw(given)
        env.mark(f"draw {i} of {shape}, {x.dtype}")
        if y.requires_grad and draw is torch._standard_gamma:
            y.sum().backward()
            env.mark(f"backward {i}")
        del x, given, y


@case
def sums_of_wider_products(env):
    """Sums of a matrix and products of 16-bit factors that stay in float32, of one matrix and of batches."""
    rng = random.Random(64)
    wide = {"out_dtype": torch.float32}
    for number in range(60):
        dtype = rng.choice((torch.bfloat16, torch.float16))
        m, k, n = (rng.choice((1, 3, 17, 64, 1000)) for _ in range(3))
        left, right = (torch.empty(size, device=env.device, dtype=dtype) for size in ((m, k), (k, n)))
        left = rng.choice((left, left.mT.contiguous().mT, left[:, :1].expand(m, k)))
        right = rng.choice((right, right.mT.contiguous().mT))
        added = torch.empty((m, n), device=env.device)
        scales = rng.choice(({}, {"beta": 0}, {"alpha": 2}))
        env.mark(f"made {number}")
        y = torch.addmm(added, left, right, **wide, **scales)
        env.mark(f"addmm {number} of {m, k, n}, {dtype}")
        torch.addmm(added, left, right, out=added, **wide, **scales)
        env.mark(f"in place {number}")
        z = torch.baddbmm(added[None], left[None], right[None], **wide, **scales)
        env.mark(f"baddbmm {number}")
        w = torch.bmm(left.expand(3, m, k), right.expand(3, k, n), **wide)
        env.mark(f"bmm {number}")
        del left, right, added, y, z, w


@case
def sums_into_given_tensors(env):
    """Sums, means and products along dimensions, written into tensors that are there."""
    rng = random.Random(65)
    for number in range(60):
        shape = [_size(rng, 20 / n) for n in [rng.randint(1, 4)] for _ in range(n)]
        dtype = rng.choice(DTYPES)
        x = torch.empty(shape, device=env.device, dtype=dtype)
        x = x.transpose(0, -1) if rng.random() < 0.4 else x
        dim, keepdim = rng.randrange(x.dim()), rng.random() < 0.5
        given = torch.empty_like(x.sum(dim, keepdim))
        env.mark(f"made {number}")
        torch.sum(x, dim, keepdim, out=given)
        env.mark(f"sum {number}")
        torch.mean(x, dim, keepdim, out=given)
        env.mark(f"mean {number}")
        torch.prod(x, dim, keepdim, out=given)
        env.mark(f"prod {number}")
        if dtype in (torch.float16, torch.bfloat16):
            wide = given.float()
            torch.sum(x, dim, keepdim, dtype=torch.float32, out=wide)
            env.mark(f"to float32 {number}")
            del wide
        del x, given


sums_of_wider_products.cards = ("a100", "h100", "rtx3090")  # a T4 multiplies no bfloat16 to float32
