import torch

from every_byte import Ledger, LiveGPU

with LiveGPU() as gpu:  # "cuda" is the machine's own GPU, as ever
    layer = torch.nn.TransformerEncoderLayer(1024, 16, batch_first=True, device="cuda")
    layer(torch.randn(16, 512, 1024, device="cuda")).sum().backward()
    print(f"{gpu.name}: {gpu.max_memory_allocated():,d} bytes at most, measured")
print(Ledger.at_peak(gpu.trace))
