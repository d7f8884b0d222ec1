"""What lets "cuda" mean a simulated GPU: PyTorch's devices, `torch.cuda` and `torch.accelerator` answer for it."""
