"""After an epoch the validation loss is taken over all batches, without no_grad."""

import torch
from model import GPT
from torch.nn import functional as F

model = GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)


def batches(n):
    for _ in range(n):
        yield torch.randint(8192, (8, 513)).cuda()


def loss_of(tokens):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def validate():
    model.eval()
    total = 0
    for tokens in batches(10):
        total += loss_of(tokens)
    model.train()
    return total / 10


for tokens in batches(3):
    optimizer.zero_grad(set_to_none=True)
    loss_of(tokens).backward()
    optimizer.step()
print("validation", validate())
