"""Five steps that keep each loss, and with it what its graph holds."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(256, 1024)
        self.down = nn.Linear(1024, 256)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def main():
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    for _ in range(5):
        x = torch.randn(64, 256, device="cuda")
        loss = model(x).square().mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)


main()
