"""Check an installation: published and derived figures, in bytes, that must come out exactly (run by setup.sh)."""

import sys

import torch
import torch.nn.functional as F

from utils import MLP, AllocatedMemContext, Block, LiveGPU, SavedTensorContext

# Heads of 512 are too wide for flash attention; the memory-efficient kernel keeps two int64 scalars.
PUBLISHED = {
    "MLP ReLU": (MLP(1024, "relu"), 83_886_080),
    "MLP GELU": (MLP(1024, "gelu"), 150_994_944),
    "Block ReLU": (Block(1024, 2, "relu"), 201_523_216),
    "Block GELU": (Block(1024, 2, "gelu"), 268_632_080),
}


def expect(what: str, got: int, wanted: int) -> bool:
    """Print whether a figure is what it must be, and return it."""
    good = got == wanted
    print(f"{'ok  ' if good else 'FAIL'} {what}: {got:,d}" + ("" if good else f", expected {wanted:,d}"))
    return good


def workspaces(gpu: LiveGPU) -> list[bool]:
    """What cuBLAS and cuBLASLt keep for themselves after their first product."""
    a, bias = (torch.empty(*shape, device=gpu.device, dtype=torch.bfloat16) for shape in ((256, 256), (256,)))
    start = gpu.memory_allocated()
    _ = a @ a
    del _
    after_cublas = gpu.memory_allocated()
    F.linear(a, a, bias)
    kept = gpu.memory_allocated() - after_cublas
    return [
        expect("cuBLAS workspace, kept after the first matmul", after_cublas - start, gpu.spec.cublas_workspace_bytes),
        expect("kept after the first linear with bias (cuBLASLt takes the same workspace)", kept, 0),
    ]


def layer(gpu: LiveGPU, name: str) -> list[bool]:
    """What a layer's forward leaves for backward, by autograd and, for an MLP, by the allocator."""
    model, n_bytes = PUBLISHED[name]
    model = model.to(gpu.device, torch.bfloat16)
    x = torch.empty(2, 4096, 1024, device=gpu.device, dtype=torch.bfloat16, requires_grad=True)
    with AllocatedMemContext(gpu) as mem, SavedTensorContext(model.parameters()) as saved:
        y = model(x)
    found = []
    if isinstance(model, MLP):  # allocated: what is saved, and the output (the input was there before)
        allocated = mem.delta["current"] - y.nbytes + x.nbytes
        found.append(expect(f"{name} allocated by forward, less the output, with the input", allocated, n_bytes))
    return [*found, expect(f"{name} saved for backward", saved.saved_tensor_mem, n_bytes)]


def main() -> int:
    """Check everything; returns 1 if a figure is wrong."""
    gpu = LiveGPU()
    print("torch", torch.__version__, "on", gpu.name, "(simulated by stub libraries)")
    found = workspaces(gpu) + [good for name in PUBLISHED for good in layer(gpu, name)]
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
