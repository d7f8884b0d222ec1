"""Every Byte, the instrument: a simulated GPU that counts as CUDA does, the machine's own, and whom each byte serves.

Importing it attaches nothing: PyTorch behaves differently only while a GPU of this package is open.
"""

from typing import Any

from .gpu.device import open_gpu
from .gpu.live.gpu import LiveGPU
from .gpu.simulated import SimulatedGPU
from .ledger.trace import Trace
from .version import __version__ as __version__

__all__ = ["Ledger", "LiveGPU", "Report", "SimulatedGPU", "Trace", "open_gpu"]


def __getattr__(name: str) -> Any:
    """`Ledger` and `Report` when they are first asked for: they bring formulas, and as much as half of the rest."""
    if name == "Ledger":
        from .ledger.ledger import Ledger

        return Ledger
    if name == "Report":
        from every_byte.report.report import Report

        return Report
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
