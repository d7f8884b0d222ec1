import torch

from every_byte import SimulatedGPU

with SimulatedGPU("h100-80gb", cuda=True) as gpu:  # "cuda" is this GPU until the block ends
    model = torch.nn.Linear(4096, 4096, device="cuda", dtype=torch.bfloat16)
    y = model(torch.randn(8192, 4096, device="cuda", dtype=torch.bfloat16))
    print(f"{gpu.memory_allocated():,d} bytes in use, {torch.cuda.max_memory_allocated():,d} at most")
    y.sum().backward()
    print(f"{gpu.memory_allocated():,d} bytes in use, {gpu.max_memory_allocated():,d} at most")
print(gpu)
