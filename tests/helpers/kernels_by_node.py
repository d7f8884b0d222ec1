"""Which attention kernel ran, by a part of its node's name."""

KERNELS = {"FlashAttention": "flash", "EfficientAttention": "efficient", "CudnnAttention": "cudnn"}
