"""The GPT of "Build a Large Language Model (From Scratch)", trained as its bonus on training speed does."""

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS, TOKENS, BATCH = 50257, 768, 12, 12, 1024, 8


class _Attention(nn.Module):
    """Of many heads, with a mask of float32 that every layer holds."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out, self.dropout = nn.Linear(WIDTH, WIDTH), nn.Dropout(0.1)
        self.register_buffer("mask", torch.triu(torch.ones(TOKENS, TOKENS), diagonal=1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, _ = x.shape
        k = self.key(x)
        q = self.query(x)
        v = self.value(x)
        k = k.view(b, s, HEADS, -1)
        v = v.view(b, s, HEADS, -1)
        q = q.view(b, s, HEADS, -1)
        k, q, v = k.transpose(1, 2), q.transpose(1, 2), v.transpose(1, 2)
        scores = q @ k.transpose(2, 3)
        mask = self.mask.bool()[:s, :s]
        scores.masked_fill_(mask, -torch.inf)
        weights = torch.softmax(scores / k.shape[-1] ** 0.5, dim=-1)
        weights = self.dropout(weights)
        mixed = (weights @ v).transpose(1, 2)
        mixed = mixed.reshape(b, s, WIDTH)
        mixed = self.out(mixed)
        return mixed


class _Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        var = x.var(dim=-1, keepdim=True, unbiased=False)
        normed = (x - mean) / torch.sqrt(var + 1e-5)
        return self.scale * normed + self.shift


class _GELU(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        root = torch.sqrt(torch.tensor(2.0 / torch.pi))
        return 0.5 * x * (1 + torch.tanh(root * (x + 0.044715 * torch.pow(x, 3))))


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = _Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), _GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.first, self.second, self.dropout = _Norm(), _Norm(), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x
        x = self.first(x)
        x = self.attention(x)
        x = self.dropout(x)
        x = x + shortcut
        shortcut = x
        x = self.second(x)
        x = self.mlp(x)
        x = self.dropout(x)
        x = x + shortcut
        return x


class _GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.dropout, self.blocks = nn.Dropout(0.1), nn.Sequential(*[_Block() for _ in range(LAYERS)])
        self.norm, self.head = _Norm(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        embedded = self.tokens(tokens)
        at = self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        x = embedded + at
        x = self.dropout(x)
        x = self.blocks(x)
        x = self.norm(x)
        return self.head(x)


def train(gpu, counter: str, steps: int = 3) -> int:
    """What is allocated, or reserved, after an epoch: steps with AdamW, an evaluation after the first, some text."""
    model = _GPT().to(gpu.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.1)
    batch = torch.randint(VOCABULARY, (2, BATCH, TOKENS))

    def loss_of_batch() -> torch.Tensor:
        x, target = batch[0].to(gpu.device), batch[1].to(gpu.device)
        logits = model(x)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of_batch()
        loss.backward()
        optimizer.step()
        if step == 0:
            model.eval()
            with torch.no_grad():
                for _ in range(2):
                    loss_of_batch()
            model.train()
    _text(gpu, model)
    return getattr(gpu, counter)()


def _text(gpu, model: nn.Module, n: int = 3) -> None:
    """Some more tokens after the four of a prompt, each the likeliest."""
    model.eval()
    tokens = torch.randint(VOCABULARY, (1, 4)).to(gpu.device)
    for _ in range(n):
        with torch.no_grad():
            logits = model(tokens[:, -TOKENS:])
        likeliest = torch.argmax(logits[:, -1, :], dim=-1, keepdim=True)
        tokens = torch.cat((tokens, likeliest), dim=1)
    model.train()
