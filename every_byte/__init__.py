"""Every Byte, the instrument: a simulated GPU that counts as CUDA does, the machine's own, and whom each byte serves.

Importing it attaches nothing: PyTorch behaves differently only while a GPU of this package is open.
"""

from .gpu.device import open_gpu
from .gpu.live.gpu import LiveGPU
from .gpu.simulated import SimulatedGPU
from .ledger.ledger import Ledger
from .ledger.trace import Trace
from .version import __version__ as __version__

__all__ = ["Ledger", "LiveGPU", "Report", "SimulatedGPU", "Trace", "open_gpu"]


def __getattr__(name: str):
    """`Report` when it is first asked for: it brings as much as half of the rest."""
    if name != "Report":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .account.report import Report

    globals()[name] = Report
    return Report
