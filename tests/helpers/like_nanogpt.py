"""Trains GPT-2 small from files of tokens, in the way of karpathy/nanoGPT's train.py: the same structure, our own code.

    python like_nanogpt.py folder [steps]

It evaluates before the first step, accumulates gradients over two micro-batches, and fetches the next batch while the
model runs. Nothing in it knows of a simulated GPU.
"""

import contextlib
import math
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

BATCH, CONTEXT, VOCABULARY, WIDTH, HEADS, LAYERS = 12, 1024, 50304, 768, 12, 12
MICRO_BATCHES, EVAL_ITERS = 2, 1


class LayerNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, None, 1e-5)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.drop = nn.Dropout(0.0)

    def forward(self, x):
        b, s, d = x.size()
        q, k, v = self.qkv(x).split(WIDTH, dim=2)
        k = k.view(b, s, HEADS, d // HEADS).transpose(1, 2)
        q = q.view(b, s, HEADS, d // HEADS).transpose(1, 2)
        v = v.view(b, s, HEADS, d // HEADS).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(b, s, d)
        return self.drop(self.out(y))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.gelu = nn.GELU()
        self.narrow = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.drop = nn.Dropout(0.0)

    def forward(self, x):
        x = self.wide(x)
        x = self.gelu(x)
        x = self.narrow(x)
        return self.drop(x)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_1, self.attention, self.norm_2, self.mlp = LayerNorm(), Attention(), LayerNorm(), MLP()

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.drop = nn.Dropout(0.0)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = LayerNorm()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, index, targets):
        positions = torch.arange(0, index.size(1), dtype=torch.long, device=index.device)
        token_embeddings = self.tokens(index)
        position_embeddings = self.positions(positions)
        x = self.drop(token_embeddings + position_embeddings)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        logits = self.head(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


folder, last_step = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
autocast = (
    torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16) if device == "cuda" else contextlib.nullcontext()
)


def get_batch(split):
    data = np.memmap(os.path.join(folder, f"{split}.bin"), dtype=np.uint16, mode="r")
    starts = torch.randint(len(data) - CONTEXT, (BATCH,))
    x = torch.stack([torch.from_numpy(data[i : i + CONTEXT].astype(np.int64)) for i in starts])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + CONTEXT].astype(np.int64)) for i in starts])
    return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)


model = GPT()
model.to(device)
scaler = torch.amp.GradScaler("cuda", enabled=False)
parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
groups = [
    {"params": [p for p in parameters.values() if p.dim() >= 2], "weight_decay": 0.1},
    {"params": [p for p in parameters.values() if p.dim() < 2], "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)


@torch.no_grad()
def estimate_loss():
    found = {}
    model.eval()
    for split in ("train", "val"):
        losses = torch.zeros(EVAL_ITERS)
        for k in range(EVAL_ITERS):
            X, Y = get_batch(split)
            with autocast:
                logits, loss = model(X, Y)
            losses[k] = loss.item()
        found[split] = losses.mean()
    model.train()
    return found


X, Y = get_batch("train")
step = 0
while True:
    for group in optimizer.param_groups:
        group["lr"] = 6e-4 * (step + 1) / 2001
    if step % 2000 == 0:
        losses = estimate_loss()
        print(f"step {step}: train loss {losses['train']:.4f}, val loss {losses['val']:.4f}")
    for _ in range(MICRO_BATCHES):
        with autocast:
            logits, loss = model(X, Y)
            loss = loss / MICRO_BATCHES
        X, Y = get_batch("train")
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    print(f"iter {step}: loss {loss.item() * MICRO_BATCHES:.4f}")
    step += 1
    if step > last_step:
        break
    assert math.isfinite(loss.item())
