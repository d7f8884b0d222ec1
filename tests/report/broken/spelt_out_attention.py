"""Attention in four lines, as in many a tutorial, on a T4."""

import torch
from model import GPT
from torch.nn import functional as F

model = GPT(fused=False).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
scaler = torch.amp.GradScaler()

for _ in range(4):
    tokens = torch.randint(8192, (4, 1025), device="cuda")
    with torch.autocast("cuda", torch.float16):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
