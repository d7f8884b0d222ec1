"""Check an installation: published and derived figures, in bytes, that must come out exactly (run by setup.sh)."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

allocated = torch.cuda.memory_allocated
failures = 0


def expect(what, got, wanted):
    """Say whether a figure is what it must be."""
    global failures
    ok = got == wanted
    failures += not ok
    print(f"{'ok  ' if ok else 'FAIL'} {what}: {got:,d}" + ("" if ok else f", expected {wanted:,d}"))


class MLP(nn.Module):
    """Two Linears and an activation."""

    def __init__(self, d, act):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(d, 4 * d), act, nn.Linear(4 * d, d)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Block(nn.Module):
    """Attention and an MLP, each behind a norm."""

    def __init__(self, d, heads, act):
        super().__init__()
        self.heads, self.ln1, self.ln2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out, self.mlp = nn.Linear(d, 3 * d), nn.Linear(d, d), MLP(d, act)

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


def saved_bytes(f, model):
    """Bytes that autograd saves in f, each storage once, without the model's parameters."""
    ignored = {p.untyped_storage().data_ptr() for p in model.parameters()}
    sizes, alive = {}, []

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in ignored:
            sizes[t.device, storage.data_ptr()] = storage.nbytes()
        alive.append(t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = f()  # noqa: F841 (kept alive)
    return sum(sizes.values())


print("torch", torch.__version__, "on", torch.cuda.get_device_name(0), "(simulated by stub libraries)")
hopper = torch.cuda.get_device_capability()[0] == 9
workspace = 33_554_432 if hopper else 8_519_680
a = torch.empty(256, 256, device="cuda", dtype=torch.bfloat16)
before = allocated()
y = a @ a
del y
expect("cuBLAS workspace, kept after the first matmul", allocated() - before, workspace)
before = allocated()
y = F.linear(a, a, torch.empty(256, device="cuda", dtype=torch.bfloat16))
del y
expect("kept after the first linear with bias (cuBLASLt takes the same workspace)", allocated() - before, 0)
published = {  # heads of 512 are too wide for flash attention; the memory-efficient kernel keeps two int64 scalars
    "MLP ReLU": 83_886_080,
    "MLP GELU": 150_994_944,
    "Block ReLU": 201_523_216,
    "Block GELU": 268_632_080,
}
for name, wanted in published.items():
    cls, act = name.split()
    act = {"ReLU": nn.ReLU(), "GELU": nn.GELU()}[act]
    model = (MLP(1024, act) if cls == "MLP" else Block(1024, 2, act)).to("cuda", torch.bfloat16)
    x = torch.empty(2, 4096, 1024, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    before = allocated()
    y = model(x)
    if cls == "MLP":  # allocated: what is saved, and the output (the input was there before)
        expect(
            f"{name} allocated by forward, less the output, with the input",
            allocated() - before - y.nbytes + x.nbytes,
            wanted,
        )
    del y
    expect(f"{name} saved for backward", saved_bytes(lambda model=model, x=x: model(x), model), wanted)
sys.exit(1 if failures else 0)
