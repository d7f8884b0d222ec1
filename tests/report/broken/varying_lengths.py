"""Each batch is padded to its own longest text."""

import torch
from model import GPT
from torch.nn import functional as F

model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

for length in (512, 777, 1111, 640, 1500, 901, 1720, 333, 1900, 1204, 1333, 1012):
    tokens = torch.randint(8192, (8, length + 1), device="cuda")
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
