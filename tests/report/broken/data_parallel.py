"""One process for all GPUs of the machine."""

import torch
from model import GPT
from torch import nn
from torch.nn import functional as F

model = GPT().cuda()
model = nn.DataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

for _ in range(4):
    tokens = torch.randint(8192, (16, 513), device="cuda")
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
