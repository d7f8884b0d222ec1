"""Programs of the suite that train, two steps each, and those in which something runs that no simulation follows."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from every_byte.gpu.protocol import GPU


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
        change: torch.Tensor = block["down"](F.gelu(block["up"](block["norm2"](x))))
        return x + change

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            assert isinstance(block, nn.ModuleDict)
            if self.checkpoints:
                x = checkpoint(self._block, block, x, use_reentrant=False)
            else:
                x = self._block(block, x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def _gpt(gpu: GPU) -> tuple[GPT, torch.Tensor, torch.Tensor]:
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


def _mean_square(run: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    return run(x).square().mean()


def mlp_in_float32(gpu: GPU) -> Iterator[str]:
    """AdamW as it is by default, on a list of tensors at once."""
    model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Dropout(0.1), nn.Linear(2048, 512)).to(gpu.device)
    x = torch.ones(64, 512, device=gpu.device)
    yield from _train(partial(_mean_square, model, x), torch.optim.AdamW(model.parameters()))


def gpt_under_autocast(gpu: GPU) -> Iterator[str]:
    """Mixed precision in float16, with fused AdamW."""
    model, tokens, targets = _gpt(gpu)

    def loss_of() -> torch.Tensor:
        with gpu.autocast(torch.float16):
            loss: torch.Tensor = model(tokens, targets)
            return loss

    yield from _train(loss_of, torch.optim.AdamW(model.parameters(), fused=True))


def gpt_in_half_precision(gpu: GPU) -> Iterator[str]:
    """All in float16, SGD with momentum."""
    model, tokens, targets = _gpt(gpu)
    model = model.half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    yield from _train(lambda: model(tokens, targets), optimizer)


def gpt_with_checkpoints(gpu: GPU) -> Iterator[str]:
    """Each block is computed again in backward."""
    model, tokens, targets = _gpt(gpu)
    model.checkpoints = True
    yield from _train(lambda: model(tokens, targets), torch.optim.AdamW(model.parameters()))


def gpt_with_accumulation(gpu: GPU) -> Iterator[str]:
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


def encoder(gpu: GPU) -> Iterator[str]:
    """PyTorch's own transformer layers, by Adam with its largest averages kept."""
    layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(gpu.device)
    x = torch.ones(8, 96, 128, device=gpu.device)
    yield from _train(lambda: model(x).mean(), torch.optim.Adam(model.parameters(), amsgrad=True))


# --------------------------------------------------------------------------- what the simulation does not follow


def convolutions(gpu: GPU) -> Iterator[str]:
    """By cuDNN, in three types, channels first and last, forward and backward."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for layout in (torch.contiguous_format, torch.channels_last):
            x = torch.ones(8, 64, 56, 56, dtype=dtype, device=gpu.device).to(memory_format=layout).requires_grad_()
            for kernel, groups in ((1, 1), (3, 1), (3, 64), (7, 1)):
                conv = nn.Conv2d(64, 64, kernel, padding=kernel // 2, groups=groups, device=gpu.device, dtype=dtype)
                conv = conv.to(memory_format=layout)  # type: ignore[call-overload]  # PyTorch's stub has no such word
                y = conv(x)
                name = f"{kernel}x{kernel}, {groups} groups, {dtype}, {layout}"
                yield name
                y.sum().backward()
                x.grad = None
                del y, conv
                yield f"{name}, backward"


def compiled(gpu: GPU) -> Iterator[str]:
    """The MLP and the GPT by torch.compile, whose kernels Triton makes."""
    mlp = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).to(gpu.device)
    x = torch.ones(64, 512, device=gpu.device)
    run: Callable[[torch.Tensor], torch.Tensor] = torch.compile(mlp) if gpu.origin == "measured" else mlp
    for name in _train(partial(_mean_square, run, x), torch.optim.AdamW(mlp.parameters())):
        yield f"MLP, {name}"
    del mlp, run
    model, tokens, targets = _gpt(gpu)
    step = torch.compile(model) if gpu.origin == "measured" else model
    for name in _train(lambda: step(tokens, targets), torch.optim.AdamW(model.parameters())):
        yield f"GPT, {name}"
