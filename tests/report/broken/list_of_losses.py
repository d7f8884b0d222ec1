"""The losses are collected for a curve, each with its graph."""

import torch
from model import GPT
from torch.nn import functional as F

model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
losses = []

for _ in range(20):
    tokens = torch.randint(8192, (8, 513), device="cuda")
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    losses.append(loss)

print(sum(losses) / len(losses))
