import pickle
from pathlib import Path

import torch

from every_byte import SimulatedGPU, Trace

with SimulatedGPU("a100-80gb", cuda=True) as gpu:
    layer = torch.nn.Linear(1000, 1000, device="cuda")
    gpu.trace.mark("forward")
    loss = layer(torch.randn(64, 1000, device="cuda")).sum()
    gpu.trace.mark("backward")
    loss.backward()
    gpu.trace.mark("end")

trace = gpu.trace
print(trace)
for event in trace.between("forward", "backward"):
    print(f"{event.action:<6}{event.n_bytes:>10,d}  {event.name or event.operation}".rstrip())
print(f"most in use after {trace.peak_position():,d} events")
print(f"{trace.requested_bytes():,d} bytes requested at the end")

trace.save_memory_viz("snapshot.pickle")  # for PyTorch's viewer; and back again
snapshot = pickle.loads(Path("snapshot.pickle").read_bytes())
print(Trace.from_snapshot(snapshot, gpu=trace.gpu, origin="simulated"))
