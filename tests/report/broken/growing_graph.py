"""A hidden state is handed from chunk to chunk, and its graph with it."""

import torch
from torch import nn

vocabulary, d = 8192, 512
embedding = nn.Embedding(vocabulary, d).cuda()
rnn = nn.GRUCell(d, d).cuda()
head = nn.Linear(d, vocabulary).cuda()
parameters = [*embedding.parameters(), *rnn.parameters(), *head.parameters()]
optimizer = torch.optim.Adam(parameters, lr=1e-3)

state = torch.zeros(64, d, device="cuda")
for _ in range(8):
    tokens = torch.randint(vocabulary, (64, 33), device="cuda")
    loss = 0
    for now in range(32):
        state = rnn(embedding(tokens[:, now]), state)
        loss = loss + nn.functional.cross_entropy(head(state), tokens[:, now + 1])
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
