"""A warm-up by one optimizer, then another takes over; both are there to the end."""

import torch
from model import GPT
from torch.nn import functional as F

model = GPT().cuda()
warmup = torch.optim.Adam(model.parameters(), lr=1e-4)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)

for step in range(6):
    tokens = torch.randint(8192, (8, 513), device="cuda")
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    chosen = warmup if step < 2 else optimizer
    chosen.step()
    chosen.zero_grad()
