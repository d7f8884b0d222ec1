"""More cases in the form of cases.py: autocast's casts, operation by operation, from fixed seeds.

Each of PyTorch's lists (half precision, float32, float32 as the result's type, the widest type), what is on none of
them, mixed types, float64, integers, and numbers on the CPU.
"""

import itertools
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CASES = {}
SEED = 500
HALF = (torch.float16, torch.bfloat16)
DTYPES = (torch.float32, *HALF)


def case(function):
    function.cudnn_sdp, function.cards = False, ("a100", "h100")
    CASES[f"autocast_{function.__name__}"] = function
    return function


class Maker:
    """Makes tensors: of types drawn anew for each, as leaves or not, lying straight, transposed or in slices."""

    def __init__(self, env, rng, dtypes=DTYPES, forms=("", "", "copied", "transposed", "slice")):
        self.env, self.rng, self.dtypes, self.forms = env, rng, dtypes, forms
        self.made = []

    def __call__(self, *shape):
        rng, options = self.rng, {"device": self.env.device, "dtype": self.rng.choice(self.dtypes)}
        form = rng.choice(self.forms if len(shape) > 1 else self.forms[:3])
        if form == "transposed":
            x = torch.empty(*shape[:-2], shape[-1], shape[-2], **options).transpose(-1, -2)
        elif form == "slice":
            x = torch.empty(*shape[:-1], shape[-1] + 3, **options)[..., : shape[-1]]
        else:
            x = torch.empty(*shape, **options)
        x.requires_grad_(rng.random() < 0.8)
        self.made.append(x)
        return x * 1 if form == "copied" else x

    def integers(self, *shape):
        return torch.zeros(shape, device=self.env.device, dtype=torch.int64)

    def half(self, *shape):
        return torch.empty(shape, device=self.env.device, dtype=torch.get_autocast_dtype("cuda"))


def _backward(y, rng):
    way = rng.choice(["own", "expanded", "sum"])
    if way == "own":
        y.backward(torch.empty_like(y))
    elif way == "expanded":
        y.backward(torch.empty((), device=y.device, dtype=y.dtype).expand(y.shape))
    else:
        y.sum().backward()


def several(env, functions, seed, times, dtypes=DTYPES, promoted=False):
    """Each function under autocast of each half type, some times, and its gradient outside of the context."""
    rng = random.Random(SEED + seed)
    for name, function in functions.items():
        for i in range(times):
            to = HALF[i % 2]
            # what runs in the widest type takes no other half type than autocast's own
            t = Maker(env, rng, (torch.float32, to) if promoted else dtypes)
            n, m, k = (rng.randint(1, 70) for _ in range(3))
            with env.autocast(to):
                y = function(t, n, m, k)
                env.mark(f"{name} {to} {i} forward")
            env.mark(f"{name} {to} {i} end")
            if y.requires_grad:
                _backward(y, rng)
            env.mark(f"{name} {to} {i} backward")
            del t, y


IN_HALF_PRECISION = {
    "linear": lambda t, n, m, k: F.linear(t(n, k), t(m, k), t(m)),
    "linear of batches": lambda t, n, m, k: F.linear(t(3, n, k), t(m, k), t(m)),
    "linear without bias": lambda t, n, m, k: F.linear(t(2, n, k), t(m, k)),
    "linear of a vector": lambda t, n, m, k: F.linear(t(k), t(m, k), t(m)),
    "matmul": lambda t, n, m, k: t(n, k) @ t(k, m),
    "matmul of batches": lambda t, n, m, k: t(2, 3, n, k) @ t(2, 3, k, m),
    "matmul, folded": lambda t, n, m, k: t(3, n, k) @ t(k, m),
    "matmul, expanded": lambda t, n, m, k: t(n, k) @ t(3, k, m),
    "matmul with a vector": lambda t, n, m, k: t(n, k) @ t(k),
    "matmul of vectors": lambda t, n, m, k: t(k) @ t(k),
    "mm": lambda t, n, m, k: torch.mm(t(n, k), t(k, m)),
    "mm with itself": lambda t, n, m, k: (lambda x: torch.mm(x, x))(t(n, n)),
    "mv": lambda t, n, m, k: torch.mv(t(n, k), t(k)),
    "bmm": lambda t, n, m, k: torch.bmm(t(3, n, k), t(3, k, m)),
    "addmm": lambda t, n, m, k: torch.addmm(t(m), t(n, k), t(k, m)),
    "addmm, scaled": lambda t, n, m, k: torch.addmm(t(n, m), t(n, k), t(k, m), beta=0.5, alpha=2),
    "baddbmm": lambda t, n, m, k: torch.baddbmm(t(3, n, m), t(3, n, k), t(3, k, m)),
    "einsum": lambda t, n, m, k: torch.einsum("bik,bjk->bij", t(2, n, k), t(2, m, k)),
    "einsum of three": lambda t, n, m, k: torch.einsum("ik,kj,j->i", t(n, k), t(k, m), t(m)),
    "einsum, outer": lambda t, n, m, k: torch.einsum("i,j->ij", t(n), t(m)),
    "chain": lambda t, n, m, k: torch.linalg.multi_dot([t(n, k), t(k, m), t(m, 5)]),
    "prelu": lambda t, n, m, k: F.prelu(t(n, m), t(m)),
    "attention": lambda t, n, m, k: F.scaled_dot_product_attention(t(2, 3, n, 16), t(2, 3, m, 16), t(2, 3, m, 16)),
    "bilinear layer": lambda t, n, m, k: t(n, k) @ F.linear(t(m, k), t(k, k)).t(),
}  # fmt: skip


@case
def in_half_precision(env):
    """Matrix products and their relatives: every argument of float32, or of the other half type, is cast."""
    several(env, IN_HALF_PRECISION, 1, 4)


def _unary(name):
    return lambda t, n, m, k: getattr(torch, name)(t(n, m))


IN_FLOAT32 = {
    name: _unary(name)
    for name in (
        *("acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p"),
        *("reciprocal", "rsqrt", "sinh", "tan"),
    )
} | {
    "softplus": lambda t, n, m, k: F.softplus(t(n, m)),
    "power": lambda t, n, m, k: t(n, m).pow(2),
    "cube": lambda t, n, m, k: t(n, m) ** 3,
    "power of tensors": lambda t, n, m, k: t(n, m).pow(t(m)),
    "power of a number": lambda t, n, m, k: torch.pow(2.0, t(n, m)),
    "layer norm": lambda t, n, m, k: F.layer_norm(t(n, m), (m,), t(m), t(m)),
    "layer norm without bias": lambda t, n, m, k: F.layer_norm(t(2, n, m), (m,), t(m)),
    "layer norm alone": lambda t, n, m, k: F.layer_norm(t(n, m), (m,)),
    "RMS norm": lambda t, n, m, k: F.rms_norm(t(n, m), (m,), t(m)),
    "RMS norm alone": lambda t, n, m, k: F.rms_norm(t(2, n, m), (m,)),
    "negative log-likelihood": lambda t, n, m, k: F.nll_loss(t(n, m), t.integers(n)),
    "negative log-likelihood of maps": lambda t, n, m, k: F.nll_loss(t(2, m, n, 3).contiguous(), t.integers(2, n, 3)),
    "KL divergence": lambda t, n, m, k: F.kl_div(t(n, m), t(n, m), reduction="batchmean"),
    "L1": lambda t, n, m, k: F.l1_loss(t(n, m), t(n, m)),
    "L1, each": lambda t, n, m, k: F.l1_loss(t(n, m), t(n, m), reduction="none"),
    "smooth L1": lambda t, n, m, k: F.smooth_l1_loss(t(n, m), t(n, m)),
    "Huber": lambda t, n, m, k: F.huber_loss(t(n, m), t(n, m), reduction="sum"),
    "squares": lambda t, n, m, k: F.mse_loss(t(n, m), t(n, m)),
    "squares, each": lambda t, n, m, k: F.mse_loss(t(n, m), t(n, m), reduction="none"),
    "logits": lambda t, n, m, k: F.binary_cross_entropy_with_logits(t(n, m), t(n, m).detach()),
    "logits, weighted": lambda t, n, m, k: F.binary_cross_entropy_with_logits(
        t(n, m), t(n, m).detach(), t(m).detach(), pos_weight=t(m).detach()
    ),
    "cosine similarity": lambda t, n, m, k: F.cosine_similarity(t(n, m), t(n, m)),
    "cosine embedding": lambda t, n, m, k: F.cosine_embedding_loss(t(n, m), t(n, m), t.integers(n)),
    "margin ranking": lambda t, n, m, k: F.margin_ranking_loss(t(n), t(n), t.integers(n)),
    "hinge embedding": lambda t, n, m, k: F.hinge_embedding_loss(t(n, m), t.integers(n, m)),
    "Poisson": lambda t, n, m, k: F.poisson_nll_loss(t(n, m), t(n, m)),
    "log of sums of exponentials": lambda t, n, m, k: t(n, m).logsumexp(-1),
}  # fmt: skip


@case
def in_float32(env):
    """Exponentials, powers, norms and losses: half arguments are cast up."""
    several(env, IN_FLOAT32, 2, 4)


TO_FLOAT32 = {
    "softmax": lambda t, n, m, k: F.softmax(t(n, m), -1),
    "softmax over columns": lambda t, n, m, k: F.softmax(t(n, m, 3), 1),
    "softmax in float64": lambda t, n, m, k: F.softmax(t(n, m), -1, dtype=torch.float64),
    "softmax in half precision": lambda t, n, m, k: t.half(n, m).softmax(-1, dtype=torch.get_autocast_dtype("cuda")),
    "softmax, long": lambda t, n, m, k: F.softmax(t(5, 1024 + n), -1),
    "log softmax": lambda t, n, m, k: F.log_softmax(t(n, m), -1),
    "log softmax over rows": lambda t, n, m, k: F.log_softmax(t(n, m), 0),
    "sum": lambda t, n, m, k: t(n, m).sum(),
    "sum of columns": lambda t, n, m, k: t(n, m, 3).sum((0, 2), keepdim=True),
    "sum in half precision": lambda t, n, m, k: t(n, m).sum(-1, dtype=torch.float16),
    "sum of many": lambda t, n, m, k: t(n, m, 100).sum(),
    "product": lambda t, n, m, k: t(n, m).detach().prod(),
    "product of rows": lambda t, n, m, k: t(n, m).detach().prod(-1),
    "running sum": lambda t, n, m, k: t(n, m).cumsum(-1),
    "running sum of columns": lambda t, n, m, k: t(n, m).cumsum(0),
    "norm": lambda t, n, m, k: t(n, m).norm(),
    "norm of rows": lambda t, n, m, k: t(n, m).norm(dim=-1, keepdim=True),
    "first norm": lambda t, n, m, k: t(n, m).norm(p=1),
    "vector norm": lambda t, n, m, k: torch.linalg.vector_norm(t(n, m), dim=-1),
    "largest": lambda t, n, m, k: torch.linalg.vector_norm(t(n, m), float("inf")),
    "matrix norm": lambda t, n, m, k: torch.linalg.matrix_norm(t(n, m)),
    "normalize": lambda t, n, m, k: F.normalize(t(n, m), dim=-1),
    "mean": lambda t, n, m, k: t(n, m).mean() + t(n, m).mean(-1).sum(),
    "variance": lambda t, n, m, k: t(n, m).var(-1),
    "softmin": lambda t, n, m, k: F.softmin(t(n, m), -1),
}  # fmt: skip


@case
def to_float32(env):
    """Softmax, sums, products, running sums, norms: the result is float32 unless a type is given."""
    several(env, TO_FLOAT32, 3, 4)


IN_THE_WIDEST = {
    "addcmul": lambda t, n, m, k: torch.addcmul(t(n, m), t(n, m), t(m), value=0.5),
    "addcdiv": lambda t, n, m, k: torch.addcdiv(t(n, m), t(n, 1), t(n, m)),
    "angle": lambda t, n, m, k: torch.atan2(t(n, m), t(n, m)),
    "dot": lambda t, n, m, k: torch.dot(t(n), t(n)),
    "index_put": lambda t, n, m, k: t(n, m).index_put((t.integers(3),), t(m)),
    "tensordot": lambda t, n, m, k: torch.tensordot(t(n, k), t(k, m), 1),
    "scatter_add": lambda t, n, m, k: t(n, m).scatter_add(0, t.integers(1, m), t(1, m)),
}  # fmt: skip


@case
def in_the_widest(env):
    """Float32 if any argument is."""
    several(env, IN_THE_WIDEST, 4, 6, promoted=True)


ON_NO_LIST = {
    "cat": lambda t, n, m, k: torch.cat([t(n, m), t(k, m), t(n, m)]),
    "stack": lambda t, n, m, k: torch.stack([t(n, m), t(n, m)], 1),
    "add": lambda t, n, m, k: t(n, m) + t(m),
    "residual": lambda t, n, m, k: t(n, m) + F.linear(t(n, k), t(m, k)),
    "gate": lambda t, n, m, k: F.silu(F.linear(t(n, k), t(m, k))) * F.linear(t(n, k), t(m, k)),
    "activations": lambda t, n, m, k: F.relu(F.gelu(F.linear(t(n, k), t(m, k)))),
    "tanh": lambda t, n, m, k: torch.tanh(t(n, m)) * torch.sigmoid(t(n, m)),
    "square root": lambda t, n, m, k: t(n, m).sqrt() / t(n, m).abs(),
    "where": lambda t, n, m, k: torch.where(t(n, m) > 0, t(n, m), t(m)),
    "masked": lambda t, n, m, k: F.softmax((t(2, n, k) @ t(2, k, m)).masked_fill(t(n, m) > 0, float("-inf")), -1),
    "dropout": lambda t, n, m, k: F.dropout(F.linear(t(n, k), t(m, k)), 0.1),
    "embedding": lambda t, n, m, k: F.embedding(t.integers(5, k), t(n, m)),
    "embedding, then a product": lambda t, n, m, k: F.linear(F.embedding(t.integers(5), t(n, m)), t(k, m)),
    "gather": lambda t, n, m, k: t(n, m).gather(0, t.integers(1, m)),
    "largest": lambda t, n, m, k: t(n, m).amax(-1) + t(n, m).max(0)[0].sum(),
    "logarithm of sigmoid": lambda t, n, m, k: F.logsigmoid(t(n, m)),
    "glu": lambda t, n, m, k: F.glu(F.linear(t(n, k), t(2 * m, k))),
    "slice of a product": lambda t, n, m, k: F.linear(t(n, k), t(3 * m, k)).chunk(3, -1)[1] * t(n, m),
    "in place": lambda t, n, m, k: F.linear(t(n, k), t(m, k)).mul_(2).add_(t(n, m).detach()),
    "cast by hand": lambda t, n, m, k: F.linear(t(n, k), t(m, k)).float() * t(n, m).half(),
}  # fmt: skip


@case
def on_no_list(env):
    """What takes the types that it is given."""
    several(env, ON_NO_LIST, 5, 4)


COMPOSED = {
    "cross entropy": lambda t, n, m, k: F.cross_entropy(t(n, m), t.integers(n)),
    "cross entropy, each": lambda t, n, m, k: F.cross_entropy(t(n, m), t.integers(n), reduction="none"),
    "cross entropy of logits": lambda t, n, m, k: F.cross_entropy(F.linear(t(n, k), t(m, k)), t.integers(n)),
    "cross entropy of positions": lambda t, n, m, k: F.cross_entropy(t(2, m, n), t.integers(2, n)),
    "cross entropy, smoothed": lambda t, n, m, k: F.cross_entropy(t(n, m), t.integers(n), label_smoothing=0.1),
    "cross entropy, probabilities": lambda t, n, m, k: F.cross_entropy(t(n, m), t(n, m).detach()),
    "cross entropy, ignored": lambda t, n, m, k: F.cross_entropy(t(n, m), t.integers(n), ignore_index=0),
    "cross entropy in float32": lambda t, n, m, k: F.cross_entropy(
        F.linear(t(n, k), t(m, k)).float(), t.integers(n), reduction="sum"
    ),
    "norm by hand": lambda t, n, m, k: (
        lambda x: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)
    )(t(n, m)),
    "RMS norm by hand": lambda t, n, m, k: (
        lambda x: (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x)
    )(F.linear(t(n, k), t(m, k))),
    "softmax by hand": lambda t, n, m, k: (lambda e: e / e.sum(-1, keepdim=True))(torch.exp(t(n, m))),
    "norm, then a product": lambda t, n, m, k: F.linear(F.layer_norm(t(2, n, k), (k,), t(k), t(k)), t(m, k), t(m)),
    "GELU by hand": lambda t, n, m, k: (lambda x: 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x.pow(3)))))(
        F.linear(t(n, k), t(m, k))
    ),
    "attention by hand": lambda t, n, m, k: (
        F.dropout(F.softmax(t(2, 3, n, 16) @ t(2, 3, 16, m) / 4, -1), 0.1) @ t(2, 3, m, 16)
    ),
}  # fmt: skip


@case
def composed(env):
    """Operators made of several: cross entropy in all its forms, norms and attention spelled out."""
    several(env, COMPOSED, 6, 4)


@case
def gradients_across(env):
    """Gradients that lie transposed, as a transposed result hands them on."""
    functions = {name: f for name, f in (IN_FLOAT32 | COMPOSED).items() if "norm" in name} | {
        name: functions[name] for functions, name in ((IN_HALF_PRECISION, "linear"), (IN_FLOAT32, "exp"))
    }
    rng = random.Random(SEED + 10)
    for (name, function), to in itertools.product(functions.items(), HALF):
        t = Maker(env, rng)
        n, m, k = (rng.randint(2, 70) for _ in range(3))
        with env.autocast(to):
            y = function(t, n, m, k).transpose(-1, -2)
        if y.requires_grad:
            y.backward(torch.empty_like(y, memory_format=torch.contiguous_format))
        env.mark(f"{name} {to}")
        del t, y


@case
def float64(env):
    """float64 stays as it is, and is no reason to promote."""
    functions = IN_HALF_PRECISION | IN_FLOAT32 | TO_FLOAT32 | COMPOSED
    several(env, {name: functions[name] for name in list(functions)[::3]}, 7, 2, dtypes=(torch.float64,))


@case
def integers(env):
    """Integers and booleans are never cast; what makes a floating-point number of them does so by its own rule."""
    for to in HALF:
        x = torch.zeros(40, 30, dtype=torch.int64, device=env.device)
        with env.autocast(to):
            kept = [x.sum(), x.sum(-1), x.cumsum(0), (x > 0).sum(), x.prod(), x.pow(2), x.exp(), x.float().exp()]
            env.mark(f"{to} sums")
            kept += [torch.cat([x, x]), x.index_put((x[0, :2],), x[:2]), x.scatter_add(0, x[:1], x[:1])]
            env.mark(f"{to} moves")
            kept += [x.rsqrt(), torch.atan2(x, x), x.bool().float().mean(), F.one_hot(x[0], 5), x + 1.5, x.half() * 2]
            env.mark(f"{to} numbers")
        del kept
        env.mark(f"{to} end")


@case
def attention(env):
    """scaled_dot_product_attention of float32 and mixed arguments, on each backend, with masks of each type."""
    rng = random.Random(SEED + 8)
    backends = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    for i in range(48):
        to, backend = HALF[i % 2], backends[i % 3]
        t = Maker(env, rng, forms=("", "", "copied"))
        b, h, d = rng.randint(1, 3), rng.choice([1, 2, 4]), rng.choice([8, 16, 64, 80, 128])
        causal, s_q = rng.random() < 0.3, rng.randint(1, 200)
        s_k = s_q if causal else rng.randint(1, 200)
        options = {"dropout_p": rng.choice([0.0, 0.1]), "is_causal": causal, "scale": rng.choice([None, 0.3])}
        if backend is not SDPBackend.FLASH_ATTENTION and not causal:
            mask = rng.choice(["", "bool", "float32", "half"])
            if mask:
                dtype = {"bool": torch.bool, "float32": torch.float32, "half": to}[mask]
                options["attn_mask"] = torch.empty(s_q, s_k, dtype=dtype, device=env.device)
        q, k, v = (t(b, s, h, d).transpose(1, 2) for s in (s_q, s_k, s_k))
        with env.autocast(to), sdpa_kernel([backend]):
            y = F.scaled_dot_product_attention(q, k, v, **options)
        env.mark(f"attention {i} {backend} forward")
        if y.requires_grad:
            _backward(y, rng)
        env.mark(f"attention {i} {backend} backward")
        del t, q, k, v, y, options


@case
def linears(env):
    """Stacks of Linears of mixed types, frozen ones among them, over inputs of one to four dimensions."""
    rng = random.Random(SEED + 9)
    for i in range(60):
        to, width = HALF[i % 2], [rng.randint(1, 90) for _ in range(4)]
        layers = [nn.Linear(*pair, bias=rng.random() < 0.6) for pair in zip(width, width[1:])]
        model = nn.Sequential(*layers).to(env.device)
        for layer in layers:
            layer.to(rng.choice([torch.float32, torch.float32, *HALF])).requires_grad_(rng.random() < 0.7)
        shape = [rng.randint(1, 9) for _ in range(rng.randint(0, 3))]
        x = torch.empty(*shape, width[0], device=env.device, dtype=rng.choice(DTYPES))
        x = x.transpose(0, 1) if len(shape) > 1 and rng.random() < 0.5 else x
        x.requires_grad_(rng.random() < 0.5)
        with env.autocast(to):
            y = model(x)
            env.mark(f"linears {i} forward")
            loss = rng.choice([torch.sum, torch.mean, lambda y: F.mse_loss(y, torch.empty_like(y))])(y)
        env.mark(f"linears {i} loss")
        if loss.requires_grad:
            loss.backward()
        env.mark(f"linears {i} backward")
        del layers, layer, model, x, y, loss


@case
def without_a_cast(env):
    """In place and into given tensors nothing is cast; and the loss that autocast refuses."""
    for to in HALF:
        a, b, c = (torch.empty(40, 40, device=env.device, dtype=to) for _ in "abc")
        w = torch.empty(40, 40, device=env.device, requires_grad=True)
        with env.autocast(to):
            c.addmm_(a, b)
            env.mark(f"{to} products")
            c.exp_().sqrt_().pow_(2)
            torch.exp(a, out=b)
            c.add_(w.detach())
            env.mark(f"{to} in place")
            kept = [c.softmax(-1), c.new_zeros(7), torch.zeros_like(c), c.to(torch.float32), c.t().contiguous()]
            env.mark(f"{to} copies")
            try:
                F.binary_cross_entropy(c, a)
            except RuntimeError:
                env.mark(f"{to} refused")
            kept.append(F.binary_cross_entropy_with_logits(c, a))
            env.mark(f"{to} with logits")
        del a, b, c, w, kept
        env.mark(f"{to} end")


@case
def beside_the_cpu(env):
    """Tensors on the CPU are left alone; numbers of no dimension there meet tensors of the GPU; copies cross."""
    for to in HALF:
        here, there = nn.Linear(50, 60), nn.Linear(60, 50).to(env.device)
        with env.autocast(to):
            y = here(torch.ones(8, 50))
            assert y.dtype == torch.float32
            env.mark(f"{to} on the CPU")
            z = there(y.to(env.device))
            env.mark(f"{to} on the GPU")
            u = z * torch.tensor(2.0) + torch.tensor(1.0).exp() * there.weight.sum()
            u = torch.where(u > 0, u, torch.tensor(0.0)) + torch.where(z > 0, torch.tensor(1.0), z)
            u = u + torch.where(there.bias > 0, there.bias, torch.tensor(0.0))
            env.mark(f"{to} numbers")
            loss = u.sum() + F.layer_norm(z.detach().cpu(), (50,)).sum().to(env.device)
        env.mark(f"{to} end")
        loss.backward()
        env.mark(f"{to} backward")
        del here, there, y, z, u, loss


@case
def below(env):
    """Operators on no list, whose host code calls some that are: affine grids, and losses in inference mode."""
    rng = random.Random(SEED + 9)
    for to, i in itertools.product(HALF, range(6)):
        maker = Maker(env, rng, dtypes=(torch.float32, to), forms=("", "", "slice"))
        n, sizes = rng.randint(1, 40), [rng.randint(2, 60 if i % 2 == 0 else 20) for _ in range(2 + i % 2)]
        with env.autocast(to):
            theta = torch.empty(n, len(sizes), len(sizes) + 1, device=env.device, requires_grad=i % 3 > 0)
            grid = F.affine_grid(theta, (n, 3, *sizes), align_corners=rng.random() < 0.5)
            env.mark(f"{to} {i} grid {grid.dtype}")
            seen = F.grid_sample(maker(n, 3, *sizes), grid, align_corners=False)
            env.mark(f"{to} {i} sampled {seen.dtype}")
        if seen.requires_grad:
            seen.sum().backward()
        env.mark(f"{to} {i} backward")
        del theta, grid, seen, maker
        x = torch.empty(n, 10 * n, device=env.device, dtype=rng.choice(DTYPES))
        with env.autocast(to), torch.inference_mode():
            kept = [
                F.cross_entropy(x, torch.zeros(n, dtype=torch.int64, device=env.device), label_smoothing=i % 2 / 10),
                F.cosine_similarity(x, x), F.pairwise_distance(x, x), F.normalize(x), torch.dist(x, x),
                torch.renorm(x, 2, 0, 1.0), F.triplet_margin_loss(x, x, x), torch.kron(x[:2, :3], x),
            ]  # fmt: skip
        env.mark(f"{to} {i} in inference mode: {[y.dtype for y in kept]}")
        del kept, x
