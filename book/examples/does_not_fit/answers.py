"""Fine-tunes a language model of half a billion parameters on long questions with short answers."""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, LAYERS, VOCABULARY, QUESTION, ANSWER, IGNORED = 896, 24, 151936, 9728, 512, -100


class Block(nn.Module):
    def __init__(self, heads=14):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.silu(self.up(self.norm2(x))))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, labels):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        logits, labels = logits[:, :-1].contiguous(), labels[:, 1:].contiguous()
        return F.cross_entropy(logits.view(-1, VOCABULARY), labels.view(-1), ignore_index=IGNORED)


with torch.device("cuda"):
    model = LM().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

for _ in range(1000):
    tokens = torch.randint(VOCABULARY, (1, QUESTION + ANSWER))
    labels = tokens.clone()
    labels[:, :QUESTION] = IGNORED
    loss = model(tokens.cuda(), labels.cuda())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
