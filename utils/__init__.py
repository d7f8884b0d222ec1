"""What the chapters of Every Byte share: simulated and live GPUs, memory contexts, layers and formulas.

Importing it attaches nothing: PyTorch behaves differently only while a simulated GPU is open.
"""

from .contexts import AllocatedMemContext, SavedTensorContext
from .device import open_gpu
from .gpt import GPT
from .layers import MLP, Attention, Block, LinearStack
from .ledger import Ledger
from .live_gpu import LiveGPU
from .simulated.gpu import SimulatedGPU
from .trace import Trace

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
