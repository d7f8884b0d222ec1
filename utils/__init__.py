"""What the chapters of Every Byte share: simulated and live GPUs, memory contexts, layers and formulas.

Importing it attaches nothing: PyTorch behaves differently only while a simulated GPU is open.
"""

from every_byte import Ledger, LiveGPU, SimulatedGPU, Trace, open_gpu

from .contexts import AllocatedMemContext, SavedTensorContext
from .layers import MLP, Attention, Block, LinearStack
from .models.gpt import GPT

__all__ = [
    "GPT",
    "MLP",
    "AllocatedMemContext",
    "Attention",
    "Block",
    "Ledger",
    "LinearStack",
    "LiveGPU",
    "SavedTensorContext",
    "SimulatedGPU",
    "Trace",
    "open_gpu",
]
