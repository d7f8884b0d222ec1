"""More cases in the form of cases.py: attention at random, from fixed seeds, on every backend.

They hold every_byte/gpu/operators/attention to the CUDA build: which kernel is taken, what it allocates, what it keeps.
The cases are recorded as those of operation_cases.py are; `choices` is what record_attention_choices.py asks.
"""

import random
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

CASES = {}
AMPERE = ("a100", "h100", "rtx3090")
CARDS = (*AMPERE, "t4")
HALF = (torch.bfloat16, torch.float16)
FLASH, EFFICIENT, MATH, CUDNN = "flash", "mem_efficient", "math", "cudnn"


def case(function, cards=CARDS):
    function.cudnn_sdp, function.cards = True, cards
    CASES[function.__name__] = function
    return function


def case_from_ampere_on(function):
    return case(function, AMPERE)


@contextmanager
def allowed(*backends):
    """These attention backends alone."""
    cuda = torch.backends.cuda
    before = {name: getattr(cuda, f"{name}_sdp_enabled")() for name in (FLASH, EFFICIENT, MATH, CUDNN)}
    for name in before:
        getattr(cuda, f"enable_{name}_sdp")(name in backends)
    try:
        yield
    finally:
        for name, enabled in before.items():
            getattr(cuda, f"enable_{name}_sdp")(enabled)


def size(rng, most):
    """Sizes of every scale, powers of two and odd ones."""
    n = 2 ** rng.uniform(0, most)
    return max(1, int(n) if rng.random() < 0.5 else 2 ** round(n).bit_length() // 2)


def laid_out(rng, layout, b, h, s, d, **options):
    """A tensor [b, h, s, d] that lies in memory as the layout says."""
    if layout == "heads first":
        return torch.empty(b, h, s, d, **options)
    if layout == "sequence first":
        return torch.empty(b, s, h, d, **options).transpose(1, 2)
    if layout == "packed":
        return torch.empty(b, s, 3 * h * d, **options)[..., h * d : 2 * h * d].view(b, s, h, d).transpose(1, 2)
    if layout == "sequence before batch":
        return torch.empty(s, b, h, d, **options).permute(1, 2, 0, 3)
    if layout == "offset":
        return torch.empty(b * h * s * d + 8, **options)[8:].view(b, h, s, d)
    if layout == "barely offset":
        return torch.empty(b * h * s * d + 8, **options)[rng.choice([1, 2, 4]) :][: b * h * s * d].view(b, h, s, d)
    if layout == "dim before sequence":
        return torch.empty(b, h, d, s, **options).transpose(2, 3)
    if layout == "sliced":
        return torch.empty(b, h, s, 2 * d, **options)[..., :d]
    assert layout == "expanded"
    return torch.empty(b, 1, s, d, **options).expand(b, h, s, d)


COMMON = ("heads first", "sequence first", "packed")
READ_BY_ALL = (*COMMON, "sequence before batch", "offset", "sliced", "expanded")
LAYOUTS = (*READ_BY_ALL, "barely offset", "dim before sequence")


def mask_shape(rng, b, h, s_q, s_k):
    return rng.choice([(s_q, s_k), (1, s_k), (b, 1, s_q, s_k), (b, h, s_q, s_k), (b, 1, 1, s_k), (1, h, s_q, s_k)])


def draw_mask(rng, dtype, shape, device, requires_grad):
    """A mask that may be a slice of a wider one."""
    refuses_float32 = dtype != torch.float32 and torch.backends.cuda.mem_efficient_sdp_enabled()  # by an error
    kind = rng.choice(["bool", "like", "like" if refuses_float32 else "float32"])
    of = {"bool": torch.bool, "like": dtype, "float32": torch.float32}[kind]
    room = rng.choice([0, 0, 0, 5, 8])
    mask = torch.empty((*shape[:-1], shape[-1] + room), dtype=of, device=device)[..., : shape[-1]]
    return mask.requires_grad_() if requires_grad and kind != "bool" else mask


@dataclass
class Setting:
    """The arguments of one attention."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    options: dict


def draw(rng, device, dtypes, most=1.0, masked=0.4):
    """An attention that every backend which takes it computes, of a size that grows with `most`."""
    dtype, b, h = rng.choice(dtypes), size(rng, 3 * most), size(rng, 3.5 * most)
    s_q = size(rng, 9 * most)
    s_k = s_q if rng.random() < 0.7 else size(rng, 9 * most)
    d = rng.choice([8, 16, 32, 64, 64, 80, 96, 128, 160, 192, 200, 256, size(rng, 8)])
    d_v = d if rng.random() < 0.9 else rng.choice([16, 64, 128])
    fused = torch.backends.cuda.mem_efficient_sdp_enabled()  # on some settings its kernels raise errors
    layout = rng.choice(COMMON if rng.random() < 0.7 else READ_BY_ALL if fused else LAYOUTS)
    gqa = rng.random() < 0.2
    h_k = rng.choice([n for n in range(1, h + 1) if h % n == 0]) if gqa else h
    grads = [rng.random() < 0.8 for _ in "qkv"]
    causal = rng.random() < 0.4
    options = {
        "dropout_p": rng.choice([0.0, 0.0, 0.1, 0.5]), "is_causal": causal, "scale": rng.choice([None, 0.3]),
        "enable_gqa": gqa,
    }  # fmt: skip
    if not causal and rng.random() < masked:
        shape = mask_shape(rng, b, h, s_q, s_k)
        options["attn_mask"] = draw_mask(rng, dtype, shape, device, any(grads) and rng.random() < 0.3)
    parts = [(h, s_q, d), (h_k, s_k, d), (h_k, s_k, d_v)]
    q, k, v = (laid_out(rng, layout, b, *part, device=device, dtype=dtype) for part in parts)
    for x, wanted in zip((q, k, v), grads, strict=True):
        x.requires_grad_(wanted)
    return Setting(q, k, v, options)


def gradient_for(rng, y):
    """A gradient as large as y, that lies in memory in one way or another."""
    form = rng.choice(["like", "like", "contiguous", "expanded", "transposed"])
    if form == "like":
        return torch.empty_like(y)
    if form == "expanded":
        return torch.empty((), device=y.device, dtype=y.dtype).expand(y.shape)
    if form == "transposed":
        return torch.empty_like(y.transpose(-1, -2), memory_format=torch.contiguous_format).transpose(-1, -2)
    return torch.empty_like(y, memory_format=torch.contiguous_format)


def run(env, rng, name, drawn):
    """One attention forward and backward, if some backend takes it."""
    try:
        torch._fused_sdp_choice(drawn.q, drawn.k, drawn.v, **drawn.options)
    except RuntimeError:
        env.mark(f"{name} refused")
        return
    y = F.scaled_dot_product_attention(drawn.q, drawn.k, drawn.v, **drawn.options)
    env.mark(f"{name} forward")
    if y.requires_grad:
        gradient = gradient_for(rng, y)
        y.backward(gradient)
        env.mark(f"{name} backward")


def several(env, seed, n, dtypes, *backends, **options):
    rng = random.Random(seed)
    with allowed(*backends):
        for i in range(n):
            run(env, rng, f"{i}", draw(rng, env.device, dtypes, **options))


@case_from_ampere_on
def flash(env):
    several(env, 1, 150, HALF, FLASH, masked=0.0)


@case_from_ampere_on
def flash_by_splits(env):
    """Few queries and many keys: the keys are split over multiprocessors."""
    rng = random.Random(2)
    with allowed(FLASH):
        for i in range(60):
            b, h, d = size(rng, 3), size(rng, 4), rng.choice([32, 64, 128, 256])
            h_k = rng.choice([n for n in range(1, h + 1) if h % n == 0])
            s_q, s_k = rng.choice([1, 1, size(rng, 7)]), size(rng, 14)
            make = {"device": env.device, "dtype": torch.bfloat16, "requires_grad": rng.random() < 0.5}
            layout = rng.choice(COMMON)
            q, k, v = (laid_out(rng, layout, b, *p, d, **make) for p in ((h, s_q), (h_k, s_k), (h_k, s_k)))
            run(env, rng, f"{i}", Setting(q, k, v, {"dropout_p": rng.choice([0.0, 0.0, 0.1]), "enable_gqa": True}))
            del q, k, v


@case
def efficient(env):
    several(env, 3, 200, (torch.float32, *HALF), EFFICIENT)


@case
def efficient_long(env):
    """Longer sequences, where the keys are split or the blocks of queries and keys fit exactly."""
    several(env, 4, 60, (torch.float32, *HALF), EFFICIENT, most=1.25, masked=0.1)


@case_from_ampere_on
def cudnn(env):
    several(env, 5, 120, HALF, CUDNN)


@case
def math(env):
    several(env, 6, 100, (torch.float32, *HALF, torch.float64), MATH, most=0.8)


@case
def any_backend(env):
    several(env, 7, 150, (torch.float32, *HALF), FLASH, EFFICIENT, MATH, CUDNN)


@case
def modules(env):
    """nn.MultiheadAttention in training, with and without the weights, masks of each kind."""
    rng = random.Random(8)
    for i in range(40):
        heads, d = rng.choice([1, 2, 4]), rng.choice([16, 32, 64])
        dtype, batch_first = rng.choice((torch.float32, *HALF)), rng.random() < 0.7
        module = nn.MultiheadAttention(
            heads * d, heads, dropout=rng.choice([0.0, 0.2]), batch_first=batch_first, bias=rng.random() < 0.7
        ).to(env.device, dtype)
        b, s = size(rng, 3), size(rng, 8)
        x = torch.empty(*((b, s) if batch_first else (s, b)), heads * d, device=env.device, dtype=dtype)
        x.requires_grad_(rng.random() < 0.5)
        options = {"need_weights": rng.random() < 0.4}
        if rng.random() < 0.4:
            of = rng.choice([torch.bool, dtype])
            options["attn_mask"] = torch.zeros(s, s, device=env.device, dtype=of)
            options["is_causal"] = rng.random() < 0.5
        y, weights = module(x, x, x, **options)
        env.mark(f"{i} forward")
        y.backward(torch.empty_like(y))
        env.mark(f"{i} backward")
        del module, x, y, weights, options


@contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextmanager
def half_precision_mathematics():
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        yield
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)


SURROUNDINGS = {
    "no_grad": torch.no_grad, "inference": torch.inference_mode, "deterministic": deterministic,
    "half precision": half_precision_mathematics,
}  # fmt: skip


@case
def surroundings(env):
    """Without gradients, deterministic, in half precision throughout; three dimensions; no numbers at all."""
    rng = random.Random(10)
    for name, surrounding in SURROUNDINGS.items():
        for i in range(40):
            backends = [rng.choice((FLASH, EFFICIENT, CUDNN)), MATH]
            with allowed(*backends), surrounding():
                run(env, rng, f"{name} {i}", draw(rng, env.device, (torch.float32, *HALF)))
    for i in range(20):
        drawn = draw(rng, env.device, (torch.float32, *HALF), masked=0.0)
        drawn.q, drawn.k, drawn.v = (x[0].detach().requires_grad_() for x in (drawn.q, drawn.k, drawn.v))
        run(env, rng, f"three dimensions {i}", drawn)
    for shape in ((0, 2, 8, 16), (2, 2, 0, 16)):
        make = {"device": env.device, "dtype": torch.bfloat16, "requires_grad": True}
        run(env, rng, f"empty {shape}", Setting(*(torch.empty(shape, **make) for _ in "qkv"), {}))


@case
def products_with_mask(env):
    """baddbmm, with which nn.MultiheadAttention adds a mask to the scores when its weights are asked for."""
    rng = random.Random(9)
    for i in range(60):
        b, m, k, n = size(rng, 4), size(rng, 7), size(rng, 7), size(rng, 7)
        make = {"device": env.device, "dtype": rng.choice((torch.float32, *HALF))}
        left, right = torch.empty(b, m, k, **make), torch.empty(b, k, n, **make)
        if rng.random() < 0.5:
            left = torch.empty(b, k, m, **make).transpose(1, 2)
        if rng.random() < 0.5:
            right = torch.empty(b, n, k, **make).transpose(1, 2)
        if rng.random() < 0.2:
            left = torch.empty(b, m, 1, **make).expand(b, m, k)
        mask = torch.empty(rng.choice([(b, m, n), (m, n), (1, m, n), (b, 1, n), (n,)]), **make)
        for x in (mask, left, right):
            x.requires_grad_(rng.random() < 0.7)
        y = torch.baddbmm(mask, left, right)
        env.mark(f"{i} forward")
        if y.requires_grad:
            y.sum().backward()
        env.mark(f"{i} backward")
        del left, right, mask, x, y


# ------------------------------------------------------------------------------------------------- the choice alone


def draw_for_choice(rng, device):
    """Any attention, also such as some backend or all refuse."""
    dtype = rng.choice((torch.float32, torch.float64, *HALF, *HALF, *HALF))
    b, h, s_q = size(rng, 3), size(rng, 3), size(rng, 8)
    s_k = rng.choice([s_q, s_q, 1, size(rng, 8)])
    d = rng.choice([8, 20, 32, 64, 64, 96, 100, 128, 136, 160, 192, 200, 224, 232, 256, 264, size(rng, 8)])
    d_v = d if rng.random() < 0.8 else rng.choice([16, 64, 65, 128, 256])
    h_k = h if rng.random() < 0.7 else size(rng, 3)
    h_v = h_k if rng.random() < 0.9 else size(rng, 3)
    b_k = b if rng.random() < 0.95 else 1
    parts = [(b, h, s_q, d), (b_k, h_k, s_k, d), (b_k, h_v, s_k, d_v)]
    same = rng.choice(LAYOUTS)
    made = [
        laid_out(rng, same if rng.random() < 0.8 else rng.choice(LAYOUTS), *part, device=device, dtype=dtype)
        for part in parts
    ]
    for x in made:
        x.requires_grad_(rng.random() < 0.4)
    if rng.random() < 0.1:
        made = [x[0] for x in made]
    options = {
        "dropout_p": rng.choice([0.0, 0.0, 0.1, 0.25, 0.0625, 0.5]), "is_causal": rng.random() < 0.3,
        "enable_gqa": rng.random() < 0.4, "scale": rng.choice([None, 0.3]),
    }  # fmt: skip
    if rng.random() < 0.4:
        shape = mask_shape(rng, b, h, s_q, s_k)
        if rng.random() < 0.2:
            shape = rng.choice([(s_q, 1), (h, s_q, s_k), (s_q + 1, s_k), (b, h, s_q, s_k + 3), (b + 1, 1, 1, s_k)])
        options["attn_mask"] = draw_mask(rng, dtype, shape, device, rng.random() < 0.3)
    return Setting(*made, options)


def choices(device, seed, n):
    """The backend of each of n attentions, as one digit (torch.nn.attention.SDPBackend), or `-` where all refuse."""
    rng = random.Random(seed)
    chosen = []
    for _ in range(n):
        backends = [name for name in (FLASH, EFFICIENT, MATH, CUDNN) if rng.random() < 0.8]
        with allowed(*backends), torch.set_grad_enabled(rng.random() < 0.8):
            drawn = draw_for_choice(rng, device)
            try:
                chosen.append(str(torch._fused_sdp_choice(drawn.q, drawn.k, drawn.v, **drawn.options)))
            except RuntimeError:
                chosen.append("-")
    return "".join(chosen)
