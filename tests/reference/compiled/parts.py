"""What the programs of this folder share: the parts of their models."""

import torch
from torch import nn
from torch.nn import functional as F


class MLP(nn.Module):
    def __init__(self, width, hidden, activation=nn.GELU, bias=True, p=0.0):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden, bias=bias), nn.Linear(hidden, width, bias=bias)
        self.activation, self.drop = activation(), nn.Dropout(p)

    def forward(self, x):
        return self.drop(self.down(self.activation(self.up(x))))


class Attention(nn.Module):
    """By scaled_dot_product_attention, or spelled out."""

    def __init__(self, width, heads, causal=True, explicit=False, p=0.0, bias=True):
        super().__init__()
        self.heads, self.causal, self.explicit, self.p = heads, causal, explicit, p
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)

    def forward(self, x, mask=None):
        b, s, c = x.shape
        q, k, v = (y.view(b, s, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        if self.explicit:
            scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
            if self.causal:
                scores = scores.masked_fill(torch.ones(s, s, device=x.device).tril() == 0, float("-inf"))
            y = F.dropout(scores.softmax(-1), self.p, self.training) @ v
        else:
            p = self.p if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, mask, p, is_causal=self.causal and mask is None)
        return self.out(y.transpose(1, 2).reshape(b, s, c))


class Block(nn.Module):
    def __init__(self, width, heads, p=0.0, **attention):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mlp = Attention(width, heads, p=p, **attention), MLP(width, 4 * width, p=p)

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, width=256, heads=4, layers=3, n=5000, length=512, block=Block, **options):
        super().__init__()
        self.tokens, self.places = nn.Embedding(n, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(block(width, heads, **options) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, n, bias=False)
        self.head.weight = self.tokens.weight

    def through(self, x):
        x = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = self.blocks_call(block, x)
        return self.norm(x)

    def blocks_call(self, block, x):
        return block(x)

    def forward(self, x, y):
        return F.cross_entropy(self.head(self.through(x)).flatten(0, 1), y.flatten())


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


class LlamaBlock(nn.Module):
    """Rotary places, grouped queries, a gated MLP."""

    def __init__(self, width, heads, groups=2, hidden=688):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.norm1, self.norm2 = RMSNorm(width), RMSNorm(width)
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * self.size, bias=False)
        self.v = nn.Linear(width, groups * self.size, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def turned(self, x, n):
        b, s, _ = x.shape
        x = x.view(b, s, n, self.size).transpose(1, 2)
        angles = torch.outer(
            torch.arange(s, device=x.device, dtype=torch.float32),
            10000 ** (-torch.arange(0, self.size, 2, device=x.device, dtype=torch.float32) / self.size),
        )
        cos, sin = angles.cos().repeat(1, 2).to(x.dtype), angles.sin().repeat(1, 2).to(x.dtype)
        left, right = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-right, left), dim=-1) * sin

    def forward(self, x):
        b, s, c = x.shape
        h = self.norm1(x)
        q, k = self.turned(self.q(h), self.heads), self.turned(self.k(h), self.groups)
        v = self.v(h).view(b, s, self.groups, self.size).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, c))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))
