"""Training programs drawn at random, and what each takes of "cuda": `python tools/programs/random_training.py 0 40`.

Runs on the machine's own "cuda", on PyTorch's CUDA build over stub libraries, or, with `--gpu NAME`, on the simulated
GPU, and prints a JSON line a program: its figures after each step, and on the simulated GPU what its evidence is. The
same seed draws the same program everywhere. `compare_random.py` sets the two side by side.
"""

import argparse
import gc
import json
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

KEYS = (
    "allocated_bytes.all.current",
    "allocated_bytes.all.peak",
    "reserved_bytes.all.current",
    "reserved_bytes.all.peak",
)
COUNTS = ("allocation.all.allocated", "segment.all.allocated", "requested_bytes.all.current")
ACTIVATIONS = (
    nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.ELU, nn.Softplus, nn.Mish, nn.Hardswish, nn.ReLU6,
    nn.Hardtanh, nn.CELU, nn.SELU, nn.Softsign, nn.LogSigmoid, nn.GLU, nn.PReLU, nn.Softshrink, nn.Tanhshrink,
)  # fmt: skip


class Draw:
    """A source of choices: the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def of(self, *choices):
        return self._random.choice(choices)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def maybe(self, probability: float) -> bool:
        return self._random.random() < probability


class Activation(nn.Module):
    """One at random, whose output is as wide as its input."""

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        kind = draw.of(*ACTIVATIONS)
        inplace = {"inplace": True} if kind in (nn.ReLU, nn.SiLU, nn.LeakyReLU, nn.ELU) and draw.maybe(0.3) else {}
        self.function, self.halves = kind(**inplace), kind is nn.GLU

    def forward(self, x):
        return self.function(torch.cat([x, x], -1) if self.halves else x)


class Attention(nn.Module):
    """Self-attention in one of the ways in which people write it."""

    def __init__(self, d: int, heads: int, draw: Draw) -> None:
        super().__init__()
        self.heads, self.kind = heads, draw.of("sdpa", "causal", "mask", "float mask", "explicit", "module", "grouped")
        self.p = draw.of(0.0, 0.0, 0.1, 0.25)
        self.groups = draw.of(1, heads) if self.kind == "grouped" else heads
        if self.kind == "module":
            self.whole = nn.MultiheadAttention(d, heads, dropout=self.p, batch_first=True)
            return
        bias = draw.maybe(0.5)
        self.query = nn.Linear(d, d, bias=bias)
        self.key_value = nn.Linear(d, 2 * self.groups * (d // heads), bias=bias)
        self.out = nn.Linear(d, d, bias=bias)

    def forward(self, x):
        b, s, d = x.shape
        if self.kind == "module":
            return self.whole(x, x, x, need_weights=False)[0]
        width = d // self.heads
        q = self.query(x).view(b, s, self.heads, width).transpose(1, 2)
        k, v = (y.view(b, s, self.groups, width).transpose(1, 2) for y in self.key_value(x).chunk(2, -1))
        p = self.p if self.training else 0.0
        if self.kind == "explicit":
            scores = (q @ k.transpose(-2, -1)) / width**0.5
            later = torch.ones(s, s, dtype=torch.bool, device=x.device).triu(1)
            y = F.dropout(scores.masked_fill(later, float("-inf")).softmax(-1), p, self.training) @ v
        else:
            mask = None
            if self.kind == "mask":
                mask = torch.ones(s, s, dtype=torch.bool, device=x.device).tril()
            elif self.kind == "float mask":
                mask = torch.zeros(1, self.heads, s, s, dtype=q.dtype, device=x.device)
            y = F.scaled_dot_product_attention(
                q,
                k,
                v,
                attn_mask=mask,
                dropout_p=p,
                is_causal=self.kind == "causal",
                enable_gqa=self.groups < self.heads,
            )
        return self.out(y.transpose(1, 2).reshape(b, s, d))


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, d: int, heads: int, draw: Draw) -> None:
        super().__init__()
        norm = draw.of(nn.LayerNorm, nn.RMSNorm)
        self.norms = nn.ModuleList([norm(d), norm(d)])
        self.attention = Attention(d, heads, draw)
        wide = draw.of(2, 3, 4) * d
        self.up, self.down = nn.Linear(d, wide), nn.Linear(wide, d, bias=draw.maybe(0.5))
        self.gate = nn.Linear(d, wide) if draw.maybe(0.3) else None
        self.activation, self.dropout = Activation(draw), nn.Dropout(draw.of(0.0, 0.1))
        self.is_before = draw.maybe(0.7)

    def forward(self, x):
        if self.is_before:
            x = x + self.attention(self.norms[0](x))
            return x + self.feed(self.norms[1](x))
        x = self.norms[0](x + self.attention(x))
        return self.norms[1](x + self.feed(x))

    def feed(self, x):
        wide = self.activation(self.up(x))
        return self.dropout(self.down(wide if self.gate is None else wide * self.gate(x)))


class Transformer(nn.Module):
    """Tokens to logits."""

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        heads, self.vocabulary, self.length = draw.of(1, 2, 3, 4, 8), draw.number(50, 3000), draw.number(3, 200)
        d = heads * draw.of(8, 16, 24, 32, 40, 64, 72, 96, 128)
        self.tokens = nn.Embedding(self.vocabulary, d, padding_idx=draw.of(None, 0))
        self.positions = nn.Embedding(self.length, d)
        self.blocks = nn.ModuleList([Block(d, heads, draw) for _ in range(draw.number(1, 4))])
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, self.vocabulary, bias=False)
        if draw.maybe(0.5):
            self.head.weight = self.tokens.weight
        self.again = draw.of(None, None, "reentrant", "not")
        self.smoothing, self.reduction = draw.of(0.0, 0.1), draw.of("mean", "sum")
        self.is_chunked = draw.maybe(0.2)

    def batch(self, b: int):
        tokens = torch.randint(self.vocabulary, (b, self.length + 1)).to("cuda")
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def loss(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x) if self.again is None else checkpoint(block, x, use_reentrant=self.again == "reentrant")
        x, options = self.norm(x), {"label_smoothing": self.smoothing, "reduction": self.reduction}
        if self.is_chunked:
            parts = zip(x.flatten(0, 1).split(64), targets.flatten().split(64))
            return sum(F.cross_entropy(self.head(part), target, **options) for part, target in parts)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten(), **options)


class Images(nn.Module):
    """Images to classes, by convolutions."""

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        layers, channels, self.size, self.n_classes = [], draw.of(1, 3), draw.of(16, 20, 32), draw.number(2, 100)
        self.channels = channels
        for _ in range(draw.number(1, 3)):
            wide = draw.of(8, 12, 16, 32)
            norm = draw.of(
                nn.BatchNorm2d(wide), nn.GroupNorm(draw.of(1, 2, 4), wide), nn.InstanceNorm2d(wide), nn.Identity()
            )
            pool = draw.of(nn.MaxPool2d(2), nn.AvgPool2d(2), nn.Identity(), nn.AdaptiveAvgPool2d(9))
            layers += [
                nn.Conv2d(channels, wide, 3, padding=1, bias=draw.maybe(0.5)),
                norm,
                draw.of(nn.ReLU(), nn.SiLU(), nn.GELU()),
                pool,
            ]
            channels = wide
        if draw.maybe(0.3):
            layers.append(nn.Upsample(scale_factor=2, mode=draw.of("nearest", "bilinear", "bicubic")))
        self.body, self.head = nn.Sequential(*layers), nn.Linear(channels, self.n_classes)
        self.is_last = draw.maybe(0.3)

    def batch(self, b: int):
        x = torch.randn(b, self.channels, self.size, self.size).to("cuda")
        x = x.contiguous(memory_format=torch.channels_last) if self.is_last else x
        return x, torch.randint(self.n_classes, (b,)).to("cuda")

    def loss(self, x, targets):
        return F.cross_entropy(self.head(self.body(x).mean((2, 3))), targets)


class Table(nn.Module):
    """Numbers and categories to a number, with sorting, gathering and scattering on the way."""

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        self.n, self.n_categories, d = draw.number(3, 60), draw.number(5, 500), draw.of(16, 33, 64, 100)
        self.bag = nn.EmbeddingBag(self.n_categories, d, mode=draw.of("sum", "mean"))
        self.first = nn.Linear(self.n, d)
        layers = [(nn.Linear(d, d), Activation(draw), nn.Dropout(draw.of(0.0, 0.2))) for _ in range(draw.number(1, 4))]
        self.body = nn.Sequential(*(part for layer in layers for part in layer))
        self.head, self.steps = nn.Linear(d, 1), [draw.of(*STEPS) for _ in range(draw.number(2, 6))]
        self.measure = draw.of(
            F.mse_loss,
            F.l1_loss,
            F.smooth_l1_loss,
            F.huber_loss,
            F.binary_cross_entropy_with_logits,
            F.soft_margin_loss,
        )

    def batch(self, b: int):
        x, kinds = torch.randn(b, self.n).to("cuda"), torch.randint(self.n_categories, (b, 4)).to("cuda")
        return (x, kinds), torch.rand(b, 1).to("cuda")

    def loss(self, inputs, targets):
        x, kinds = inputs
        x = self.body(self.first(x) + self.bag(kinds))
        for step in self.steps:
            x = step(x)
        return self.measure(self.head(x).float(), targets)


STEPS: tuple[Callable, ...] = (
    lambda x: x.sort(-1)[0],
    lambda x: x.sort(0, descending=True)[0],
    lambda x: x + x.topk(3, -1)[0].sum(-1, keepdim=True),
    lambda x: x.cumsum(-1),
    lambda x: x.cumsum(0) / x.shape[0],
    lambda x: x.gather(-1, x.argsort(-1)),
    lambda x: x.index_select(0, torch.arange(x.shape[0] - 1, -1, -1, device=x.device)),
    lambda x: torch.zeros_like(x).scatter_add(-1, x.argsort(-1), x),
    lambda x: torch.zeros_like(x).index_add(0, torch.arange(x.shape[0], device=x.device), x),
    lambda x: x * torch.cdist(x.float(), x.float()).mean(-1, keepdim=True),
    lambda x: x - x.logsumexp(-1, keepdim=True),
    lambda x: x / (x.norm(dim=-1, keepdim=True) + 1),
    lambda x: F.normalize(x, dim=-1),
    lambda x: x + x.var(0),
    lambda x: x + x.std(-1, keepdim=True),
    lambda x: x.where(x > 0, x.exp().clamp(max=5)),
    lambda x: torch.einsum("bd,bd->b", x, x)[:, None] + x,
    lambda x: x.roll(1, 0).flip(-1),
    lambda x: x + x.max(-1, keepdim=True)[0] - x.min(0)[0],
    lambda x: x + x.median(-1, keepdim=True)[0],
    lambda x: x.softmax(-1) * x.log_softmax(0),
    lambda x: x + (x.T @ x).diagonal(),
    lambda x: F.pad(x, (1, 1))[:, 1:-1] + x.tril() + x.triu(2),
    lambda x: torch.stack([x, x * 2, -x], 1).amax(1),
    lambda x: x + x.unfold(-1, 3, 1).sum((1, 2))[:, None],
    lambda x: F.layer_norm(x, x.shape[-1:]) + F.cosine_similarity(x, x.flip(0), dim=-1)[:, None],
    lambda x: x + x.prod(-1, keepdim=True).tanh(),
    lambda x: x.repeat_interleave(2, 0)[::2].clone(),
    lambda x: x + torch.logaddexp(x, x.flip(0)) - x.cummax(-1)[0],
)


class Recurrent(nn.Module):
    """A sequence, step by step."""

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        self.kind, self.n, d = draw.of(nn.GRUCell, nn.LSTMCell, nn.RNNCell), draw.number(3, 30), draw.of(16, 40, 65)
        self.cell, self.head, self.width = self.kind(d, d), nn.Linear(d, 2), d

    def batch(self, b: int):
        return torch.randn(self.n, b, self.width).to("cuda"), torch.randint(2, (b,)).to("cuda")

    def loss(self, x, targets):
        state = None
        for part in x:
            state = self.cell(part, state)
        return F.cross_entropy(self.head(state[0] if self.kind is nn.LSTMCell else state), targets)


MODELS = (Transformer, Transformer, Transformer, Images, Table, Table, Recurrent)


OPTIMIZERS = (
    *("Adam", "AdamW", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Rprop"),
    *("ASGD", "Adafactor"),
)


def optimizer_of(parameters, draw: Draw) -> torch.optim.Optimizer:
    """One at random, with settings at random."""
    kind = draw.of(*OPTIMIZERS)
    options: dict = {"lr": 0.01}
    if kind in ("Adam", "AdamW", "SGD", "Adagrad") and draw.maybe(0.4):
        options["fused"] = True
    elif kind not in ("Adafactor",):
        loops = () if kind == "ASGD" else (False,)  # whose loop asks for a value, which the CUDA build does not have
        options["foreach"] = draw.of(None, None, True, *loops)
    if kind in ("Adam", "AdamW"):
        options["amsgrad"] = draw.maybe(0.3)
    if kind == "SGD":
        options |= {"momentum": draw.of(0.0, 0.9), "nesterov": False}
    if kind == "RMSprop":
        options |= {"centered": draw.maybe(0.5), "momentum": draw.of(0.0, 0.9)}
    if kind not in ("Rprop",):
        options["weight_decay"] = draw.of(0.0, 0.01)
    return getattr(torch.optim, kind)(parameters, **options)


def train(seed: int) -> Iterator[dict[str, int]]:
    """The program of a seed: its figures after each of three steps."""
    draw = Draw(seed)
    torch.manual_seed(seed)
    mode = draw.of("float32", "float32", "bfloat16", "float16", "pure bfloat16")
    model = draw.of(*MODELS)(draw)
    pure = mode == "pure bfloat16" and isinstance(model, (Transformer, Recurrent))
    model = model.to("cuda", torch.bfloat16 if pure else torch.float32)
    if draw.maybe(0.2):
        for parameter in list(model.parameters())[: draw.number(1, 3)]:
            parameter.requires_grad_(False)
    optimizer = optimizer_of([p for p in model.parameters() if p.requires_grad], draw)
    b, n_parts, clips, to_zero = draw.number(1, 24), draw.of(1, 1, 2), draw.of(0, 0, 1), draw.maybe(0.2)
    lengths = [b + draw.of(0, 0, 3) for _ in range(3)]
    scaler = torch.amp.GradScaler("cuda") if mode == "float16" else None
    half = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(mode)
    for length in lengths:
        for _ in range(n_parts):
            inputs, targets = model.batch(length)
            if pure and isinstance(inputs, torch.Tensor) and inputs.is_floating_point():
                inputs = inputs.bfloat16()
            with torch.autocast("cuda", dtype=half) if half else nullcontext():
                loss = model.loss(inputs, targets)
            (scaler.scale(loss) if scaler else loss).backward()
        if clips:
            if scaler:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad(set_to_none=not to_zero)
        stats = torch.cuda.memory_stats()
        yield {key: stats.get(key, 0) for key in (*KEYS, *COUNTS)}


def described(seed: int) -> str:
    """What a seed draws, in a word."""
    draw = Draw(seed)
    return f"{draw.of('float32', 'float32', 'bfloat16', 'float16', 'pure bfloat16')} {draw.of(*MODELS).__name__}"


def on_cuda(seed: int) -> dict:
    """A program on this process's "cuda", from a clean allocator on."""
    gc.collect()
    torch.cuda._check_bf16_tensor_supported.cache_clear()  # a trial that PyTorch makes once in a process
    torch._C._cuda_clearCublasWorkspaces()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    return ran(seed)


def simulated(seed: int, gpu: str, over_stand_ins: bool) -> dict:
    """A program on a simulated GPU."""
    from every_byte import SimulatedGPU
    from every_byte.gpu.memory.specs import find_spec
    from every_byte.gpu.memory.versions import rules_here

    spec = replace(find_spec(gpu), rules=rules_here(), over_stand_ins=over_stand_ins)
    with SimulatedGPU(spec, cuda=True) as opened:
        found = ran(seed)
        return found | {
            "evidence": opened.evidence.to_json(),
            "unmodelled": sorted(opened.unmodelled),
            "refused": list(opened.trace.notes.refused),
        }


def ran(seed: int) -> dict:
    """Its figures step by step, and the error that ended it, if one did."""
    steps, error = [], ""
    try:
        steps.extend(train(seed))
    except Exception as raised:
        error = f"{type(raised).__name__}: {str(raised).splitlines()[0][:200]}"
    return {"seed": seed, "program": described(seed), "steps": steps, "error": error}


def main() -> None:
    """Run the programs of the seeds from the first up to the last, without it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--gpu", default="", help="a simulated GPU; default: this process's cuda")
    parser.add_argument("--over-stand-ins", action="store_true", help="as where stub libraries stand in for CUDA's")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    gc.disable()
    for seed in range(options.first, options.last):
        found = simulated(seed, options.gpu, options.over_stand_ins) if options.gpu else on_cuda(seed)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
