"""Training goes on from a checkpoint, which a name keeps on the GPU."""

import torch
from model import GPT
from torch.nn import functional as F

# the run of yesterday, so that there is a checkpoint
model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
tokens = torch.randint(8192, (8, 513), device="cuda")
F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
optimizer.step()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}, "latest.pt")
del model, optimizer

# today's
model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
checkpoint = torch.load("latest.pt", map_location="cuda")
model.load_state_dict(checkpoint["model"])
optimizer.load_state_dict(checkpoint["optimizer"])

for _ in range(4):
    tokens = torch.randint(8192, (8, 513), device="cuda")
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
