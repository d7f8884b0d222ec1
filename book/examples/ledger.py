import torch
from torch import nn

from every_byte import Ledger, SimulatedGPU

with SimulatedGPU("a100-80gb", cuda=True) as gpu:
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024))
    model.to("cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    loss = model(torch.randn(8192, 1024, device="cuda")).square().mean()
    before = Ledger.now(gpu)
    loss.backward()
    print(Ledger.now(gpu) - before)  # what backward has left, and what it has freed
    optimizer.step()

peak = Ledger.at_peak(gpu.trace)
print()
print(peak)
print()
print(peak.of(category="activations").by("module", "kept_for").largest(3))
