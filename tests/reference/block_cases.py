"""Twenty pre-norm transformer blocks drawn at random: sizes, heads, types, dropout, attention, norm, checkpoint."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

CASES = {}


class Block(nn.Module):
    """norm, attention, norm, MLP, each pair in a residual branch."""

    def __init__(self, d, heads, norm, activation, dropout, bias, causal, explicit):
        super().__init__()
        self.heads, self.p, self.causal, self.explicit = heads, dropout, causal, explicit
        self.norm1, self.norm2 = norm(d), norm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d, bias=bias)
        self.mlp = nn.Sequential(
            nn.Linear(d, 4 * d, bias=bias), activation(), nn.Linear(4 * d, d, bias=bias), nn.Dropout(dropout)
        )

    def attention(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(d, dim=2))
        if self.explicit:
            scores = (q @ k.transpose(-2, -1)) * (d // self.heads) ** -0.5
            if self.causal:
                mask = torch.ones(t, t, device=x.device, dtype=torch.bool).tril()
                scores = scores.masked_fill(~mask, float("-inf"))
            y = F.dropout(scores.softmax(-1), self.p) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


def draw(rng):
    """A configuration, and how it is trained."""
    heads = rng.choice([1, 2, 3, 4, 6, 8])
    shape = (
        rng.randint(1, 6),
        rng.choice([rng.randint(1, 300), 128, 256]),
        heads * rng.choice([16, 24, 32, 40, 64, 80, 128]),
    )
    model = Block(
        shape[2],
        heads,
        rng.choice([nn.LayerNorm, nn.RMSNorm]),
        rng.choice([nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh]),
        rng.choice([0.0, 0.0, 0.1]),
        rng.random() < 0.5,
        rng.random() < 0.7,
        rng.random() < 0.3,
    )
    dtype = rng.choice([torch.float32, torch.bfloat16, torch.float16])
    return model, shape, dtype, rng.choice([None, None, True, False]), rng.random() < 0.5


def block(env, seed):
    """Two steps of one block: forward, backward, clipping, AdamW."""
    model, shape, dtype, reentrant, clips = draw(random.Random(seed))
    model.to(env.device, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), fused=seed % 2 == 0)
    env.mark("model")
    for step in (1, 2):
        x = torch.empty(shape, device=env.device, dtype=dtype, requires_grad=True)
        y = model(x) if reentrant is None else checkpoint(model, x, use_reentrant=reentrant)
        env.mark(f"step {step} forward")
        y.float().pow(2).mean().backward()
        env.mark(f"step {step} backward")
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        env.mark(f"step {step} optimizer")
        optimizer.zero_grad()
        env.mark(f"step {step} zero_grad")
        del x, y


for number in range(20):
    name = f"random_block_{number}"
    CASES[name] = lambda env, seed=100 + number: block(env, seed)
    CASES[name].cudnn_sdp, CASES[name].cards = number % 4 == 0, ("a100", "h100", "t4")
