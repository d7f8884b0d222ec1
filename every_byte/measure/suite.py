"""The programs of `every-byte measure`: what they do on a GPU, and where their figures are read.

A program is a generator: it is given a GPU, a live or a simulated one, and yields a name wherever all counters are to
be compared. Each runs in a process of its own, and needs PyTorch alone.
"""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

Program = Callable[..., Iterator[str]]
PROGRAMS: dict[str, Program] = {}
NOT_FOLLOWED: dict[str, str] = {}
"""Programs whose figures differ from the simulation's for a reason that is known, and that reason."""


def program(function: Program) -> Program:
    """Put a program into the suite, by the name of its function."""
    PROGRAMS[function.__name__] = function
    return function


def not_followed(why: str) -> Callable[[Program], Program]:
    """The same for one in which something is measured that the simulation does not follow."""

    def put(function: Program) -> Program:
        NOT_FOLLOWED[function.__name__] = why
        return program(function)

    return put


# ------------------------------------------------------------------------------------------------------- the allocator


@program
def blocks(gpu) -> Iterator[str]:
    """Blocks of many sizes, holes between them, what is reserved and not used, and the way back to the driver."""
    sizes = [3, 511, 512, 513, 2**20, 2**20 + 1, 5 * 2**20, 10 * 2**20 + 7, 33 * 2**20, 100_000, 1]
    tensors = [torch.empty(size, dtype=torch.uint8, device=gpu.device) for size in sizes]
    yield "11 sizes"
    del tensors[::2]
    yield "every other one freed"
    tensors += [torch.empty(size, dtype=torch.uint8, device=gpu.device) for size in reversed(sizes[:7])]
    yield "holes filled"
    gpu.empty_cache()
    yield "empty_cache, blocks in use"
    tensors.clear()
    gpu.empty_cache()
    yield "all freed, empty_cache"


@program
def out_of_memory(gpu) -> Iterator[str]:
    """A request larger than the GPU, caught, and work after it."""
    held = torch.empty(3 * 2**20, device=gpu.device)
    cached = torch.empty(5 * 2**20, device=gpu.device)
    del cached
    try:
        torch.empty(gpu.mem_get_info()[1], dtype=torch.uint8, device=gpu.device)
        raise AssertionError("a request as large as the GPU's memory was met")
    except torch.OutOfMemoryError:
        pass
    yield "refused"
    held = held * 2
    yield "work after it"


# ------------------------------------------------------------------------------------------------------------ operators


def _operands(gpu, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*shape, dtype=dtype, device=gpu.device, requires_grad=dtype.is_floating_point)


@program
def elementwise(gpu) -> Iterator[str]:
    """Functions that keep their input, their output or a mask, forward and backward, in two types."""
    functions = (F.gelu, F.relu, F.silu, torch.tanh, torch.sigmoid, torch.exp, torch.square, F.dropout)
    for dtype in (torch.float32, torch.bfloat16):
        x = _operands(gpu, 300, 1000, dtype=dtype)
        for function in functions:
            y, name = function(x), function.__name__
            yield f"{name}, {dtype}"
            y.backward(torch.ones_like(y))
            x.grad = y = None
            yield f"{name}, {dtype}, backward"


@program
def reductions(gpu) -> Iterator[str]:
    """Sums over rows, columns and everything, norms, softmax, a loss: some stage their sums in memory of their own."""
    for rows, columns in ((7, 100_000), (3000, 700), (1, 3_000_000)):
        x = _operands(gpu, rows, columns)
        weight, bias = (_operands(gpu, columns) for _ in "wb")
        for name, run in {
            "sum": lambda x=x: x.sum(),
            "mean of columns": lambda x=x: x.mean(0).sum(),
            "std": lambda x=x: x.std(-1).sum(),
            "softmax": lambda x=x: x.softmax(-1).sum(),
            "layer norm": lambda x=x, w=weight, b=bias: F.layer_norm(x, x.shape[-1:], w, b).sum(),
            "amax": lambda x=x: x.amax(0).sum(),
        }.items():
            run().backward()
            yield f"{name} of [{rows}, {columns}]"
        x.grad = None
    logits = _operands(gpu, 512, 50_304, dtype=torch.bfloat16)
    targets = torch.zeros(512, dtype=torch.int64, device=gpu.device)
    F.cross_entropy(logits.float(), targets).backward()
    yield "cross entropy"


@program
def products(gpu) -> Iterator[str]:
    """Matrix products by cuBLAS and cuBLASLt, whose workspaces stay, of one thread and of backward's."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x, weight = _operands(gpu, 512, 256, dtype=dtype), _operands(gpu, 1024, 256, dtype=dtype)
        bias = _operands(gpu, 1024, dtype=dtype)
        F.linear(x, weight, bias).sum().backward()
        yield f"linear, {dtype}"
        batch = _operands(gpu, 8, 64, 128, dtype=dtype)
        (batch @ batch.mT).sum().backward()
        yield f"a batch of products, {dtype}"
        x = weight = bias = batch = None


@program
def orders_and_indices(gpu) -> Iterator[str]:
    """Sorts, running sums, selections, rows by index and their gradients: CUB's scratch differs between cards."""
    for n in (3000, 100_000, 2_000_000):
        x = _operands(gpu, n)
        for name, run in {
            "sort": lambda x=x: x.sort(),
            "topk": lambda x=x: x.topk(min(1000, len(x) // 2)),
            "cumsum": lambda x=x: x.cumsum(0),
            "randperm": lambda n=n: torch.randperm(n, device=gpu.device),
        }.items():
            run()
            yield f"{name} of {n:,d}"
    table = _operands(gpu, 5000, 64)
    at = torch.zeros(4096, dtype=torch.int64, device=gpu.device)
    F.embedding(at, table).sum().backward()
    yield "embedding, backward"
    table[at].sum().backward()
    yield "index, backward"
    table.gather(0, at[:64].expand(100, 64)).sum().backward()
    yield "gather, backward"


@program
def attention(gpu) -> Iterator[str]:
    """By each of PyTorch's own kernels, causal and with a mask, forward and backward."""
    for backend in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION):
        flash = backend is SDPBackend.FLASH_ATTENTION
        if flash and gpu.get_device_properties().major < 8:
            continue
        for dtype in (torch.float16,) if flash else (torch.float32, torch.float16):
            q, k, v = (_operands(gpu, 2, 4, 256, 64, dtype=dtype) for _ in range(3))
            with sdpa_kernel(backend):
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                yield f"{backend.name}, {dtype}"
                y.sum().backward()
                y = None
                yield f"{backend.name}, {dtype}, backward"
                if not flash:
                    mask = torch.zeros(256, 256, dtype=dtype, device=gpu.device)
                    F.scaled_dot_product_attention(q, k, v, attn_mask=mask).sum().backward()
                    yield f"{backend.name}, {dtype}, a mask"
            q = k = v = None


# ------------------------------------------------------------------------------------------------------------- training


class GPT(nn.Module):
    """A small one: pre-norm blocks, fused attention, tied weights."""

    def __init__(self, vocabulary: int, width: int, depth: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.embedding, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm1": nn.LayerNorm(width),
                    "qkv": nn.Linear(width, 3 * width),
                    "out": nn.Linear(width, width),
                    "norm2": nn.LayerNorm(width),
                    "up": nn.Linear(width, 4 * width),
                    "down": nn.Linear(4 * width, width),
                }
            )
            for _ in range(depth)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embedding.weight
        self.checkpoints = False

    def _block(self, block: nn.ModuleDict, x: torch.Tensor) -> torch.Tensor:
        b, s, width = x.shape
        q, k, v = block["qkv"](block["norm1"](x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind()
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0, is_causal=True)
        x = x + block["out"](y.transpose(1, 2).reshape(b, s, width))
        return x + block["down"](F.gelu(block["up"](block["norm2"](x))))

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            if self.checkpoints:
                x = torch.utils.checkpoint.checkpoint(self._block, block, x, use_reentrant=False)
            else:
                x = self._block(block, x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def _gpt(gpu) -> tuple[GPT, torch.Tensor, torch.Tensor]:
    model = GPT(vocabulary=5000, width=256, depth=3, heads=4, length=128).to(gpu.device)
    tokens, targets = (torch.zeros(4, 128, dtype=torch.int64, device=gpu.device) for _ in range(2))
    return model, tokens, targets


def _train(loss_of: Callable[[], torch.Tensor], optimizer: torch.optim.Optimizer) -> Iterator[str]:
    """Two steps, read after each part."""
    for step in (1, 2):
        loss = loss_of()
        yield f"forward {step}"
        loss.backward()
        del loss
        yield f"backward {step}"
        optimizer.step()
        yield f"step {step}"
        optimizer.zero_grad()
        yield f"zero_grad {step}"


@program
def mlp_in_float32(gpu) -> Iterator[str]:
    """AdamW as it is by default, on a list of tensors at once."""
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Dropout(0.1), nn.Linear(2048, 512)).to(gpu.device)
    x = torch.ones(64, 512, device=gpu.device)
    yield from _train(lambda: model(x).square().mean(), torch.optim.AdamW(model.parameters()))


@program
def gpt_under_autocast(gpu) -> Iterator[str]:
    """Mixed precision in float16, with fused AdamW."""
    model, tokens, targets = _gpt(gpu)

    def loss_of() -> torch.Tensor:
        with gpu.autocast(torch.float16):
            return model(tokens, targets)

    yield from _train(loss_of, torch.optim.AdamW(model.parameters(), fused=True))


@program
def gpt_in_half_precision(gpu) -> Iterator[str]:
    """All in float16, SGD with momentum."""
    model, tokens, targets = _gpt(gpu)
    model = model.half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    yield from _train(lambda: model(tokens, targets), optimizer)


@program
def gpt_with_checkpoints(gpu) -> Iterator[str]:
    """Each block is computed again in backward."""
    model, tokens, targets = _gpt(gpu)
    model.checkpoints = True
    yield from _train(lambda: model(tokens, targets), torch.optim.AdamW(model.parameters()))


@program
def gpt_with_accumulation(gpu) -> Iterator[str]:
    """Two micro-batches a step, gradients clipped, AdamW one tensor at a time."""
    model, tokens, targets = _gpt(gpu)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for step in (1, 2):
        for part in (1, 2):
            (model(tokens, targets) / 2).backward()
            yield f"micro-batch {part} of step {step}"
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        yield f"clipped {step}"
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        yield f"step {step}"


@program
def encoder(gpu) -> Iterator[str]:
    """PyTorch's own transformer layers, by Adam with its largest averages kept."""
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(gpu.device)
    x = torch.ones(8, 96, 128, device=gpu.device)
    yield from _train(lambda: model(x).mean(), torch.optim.Adam(model.parameters(), amsgrad=True))


# --------------------------------------------------------------------------- what the simulation does not follow


@not_followed("cuDNN asks for workspaces whose size it chooses on the card; the difference is what it took")
def convolutions(gpu) -> Iterator[str]:
    """By cuDNN, in three types, channels first and last, forward and backward."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for layout in (torch.contiguous_format, torch.channels_last):
            x = torch.ones(8, 64, 56, 56, dtype=dtype, device=gpu.device).to(memory_format=layout).requires_grad_()
            for kernel, groups in ((1, 1), (3, 1), (3, 64), (7, 1)):
                conv = nn.Conv2d(64, 64, kernel, padding=kernel // 2, groups=groups, device=gpu.device, dtype=dtype)
                conv = conv.to(memory_format=layout)
                y = conv(x)
                name = f"{kernel}x{kernel}, {groups} groups, {dtype}, {layout}"
                yield name
                y.sum().backward()
                x.grad = y = conv = None
                yield f"{name}, backward"


@not_followed("a compiler fuses operations and keeps other tensors; the simulation runs the program as written")
def compiled(gpu) -> Iterator[str]:
    """The MLP and the GPT by torch.compile, whose kernels Triton makes."""
    mlp = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).to(gpu.device)
    x = torch.ones(64, 512, device=gpu.device)
    run = torch.compile(mlp) if gpu.origin == "measured" else mlp
    for name in _train(lambda: run(x).square().mean(), torch.optim.AdamW(mlp.parameters())):
        yield f"MLP, {name}"
    mlp = run = None
    model, tokens, targets = _gpt(gpu)
    step = torch.compile(model) if gpu.origin == "measured" else model
    for name in _train(lambda: step(tokens, targets), torch.optim.AdamW(model.parameters())):
        yield f"GPT, {name}"
