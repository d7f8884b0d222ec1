"""Programs of the suite that allocate, and that run operators one by one."""

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte.gpu.protocol import GPU

# ------------------------------------------------------------------------------------------------------- the allocator


def blocks(gpu: GPU) -> Iterator[str]:
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


def out_of_memory(gpu: GPU) -> Iterator[str]:
    """A request larger than the GPU, caught, and work after it."""
    held = torch.empty(3 * 2**20, device=gpu.device)
    cached = torch.empty(5 * 2**20, device=gpu.device)
    del cached
    try:
        torch.empty(gpu.mem_get_info()[1], dtype=torch.uint8, device=gpu.device)
        outcome = "not refused"
    except torch.OutOfMemoryError:
        outcome = "refused"
    yield outcome
    held = held * 2
    yield "work after it"


# ------------------------------------------------------------------------------------------------------------ operators


def _operands(gpu: GPU, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*shape, dtype=dtype, device=gpu.device, requires_grad=dtype.is_floating_point)


def elementwise(gpu: GPU) -> Iterator[str]:
    """Functions that keep their input, their output or a mask, forward and backward, in two types."""
    functions = (F.gelu, F.relu, F.silu, torch.tanh, torch.sigmoid, torch.exp, torch.square, F.dropout)
    for dtype in (torch.float32, torch.bfloat16):
        x = _operands(gpu, 300, 1000, dtype=dtype)
        for function in functions:
            y, name = function(x), function.__name__
            yield f"{name}, {dtype}"
            y.backward(torch.ones_like(y))
            x.grad = None
            del y
            yield f"{name}, {dtype}, backward"


def _reductions(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> dict[str, Callable[[], torch.Tensor]]:
    return {
        "sum": lambda: x.sum(),
        "mean of columns": lambda: x.mean(0).sum(),
        "std": lambda: x.std(-1).sum(),
        "softmax": lambda: x.softmax(-1).sum(),
        "layer norm": lambda: F.layer_norm(x, x.shape[-1:], weight, bias).sum(),
        "amax": lambda: x.amax(0).sum(),
    }


def reductions(gpu: GPU) -> Iterator[str]:
    """Sums over rows, columns and everything, norms, softmax, a loss: some stage their sums in memory of their own."""
    for rows, columns in ((7, 100_000), (3000, 700), (1, 3_000_000)):
        x = _operands(gpu, rows, columns)
        weight, bias = (_operands(gpu, columns) for _ in "wb")
        for name, run in _reductions(x, weight, bias).items():
            run().backward()
            yield f"{name} of [{rows}, {columns}]"
        x.grad = None
    logits = _operands(gpu, 512, 50_304, dtype=torch.bfloat16)
    targets = torch.zeros(512, dtype=torch.int64, device=gpu.device)
    F.cross_entropy(logits.float(), targets).backward()
    yield "cross entropy"


def products(gpu: GPU) -> Iterator[str]:
    """Matrix products by cuBLAS and cuBLASLt, whose workspaces stay, of one thread and of backward's."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x, weight = _operands(gpu, 512, 256, dtype=dtype), _operands(gpu, 1024, 256, dtype=dtype)
        bias = _operands(gpu, 1024, dtype=dtype)
        F.linear(x, weight, bias).sum().backward()
        yield f"linear, {dtype}"
        batch = _operands(gpu, 8, 64, 128, dtype=dtype)
        (batch @ batch.mT).sum().backward()
        yield f"a batch of products, {dtype}"
        del x, weight, bias, batch


def _orders(x: torch.Tensor, n: int, device: torch.device) -> dict[str, Callable[[], object]]:
    return {
        "sort": lambda: x.sort(),
        "topk": lambda: x.topk(min(1000, len(x) // 2)),
        "cumsum": lambda: x.cumsum(0),
        "randperm": lambda: torch.randperm(n, device=device),
    }


def orders_and_indices(gpu: GPU) -> Iterator[str]:
    """Sorts, running sums, selections, rows by index and their gradients: CUB's scratch differs between cards."""
    for n in (3000, 100_000, 2_000_000):
        x = _operands(gpu, n)
        for name, run in _orders(x, n, gpu.device).items():
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


def attention(gpu: GPU) -> Iterator[str]:
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
                del y
                yield f"{backend.name}, {dtype}, backward"
                if not flash:
                    mask = torch.zeros(256, 256, dtype=dtype, device=gpu.device)
                    F.scaled_dot_product_attention(q, k, v, attn_mask=mask).sum().backward()
                    yield f"{backend.name}, {dtype}, a mask"
            del q, k, v
