"""Every Byte, the instrument: a simulated GPU that counts as CUDA does, the machine's own, and whom each byte serves.

Importing it attaches nothing: PyTorch behaves differently only while a GPU of this package is open. PyTorch itself is
imported with the first name that is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .gpu.device import open_gpu
    from .gpu.live.gpu import LiveGPU
    from .gpu.simulated import SimulatedGPU
    from .ledger.ledger import Ledger
    from .ledger.trace import Trace
    from .report.report import Report

__all__ = ["Ledger", "LiveGPU", "Report", "SimulatedGPU", "Trace", "open_gpu"]

_PLACES = {
    "Ledger": ".ledger.ledger",
    "LiveGPU": ".gpu.live.gpu",
    "Report": ".report.report",
    "SimulatedGPU": ".gpu.simulated",
    "Trace": ".ledger.trace",
    "open_gpu": ".gpu.device",
}


def __getattr__(name: str) -> Any:
    """The public names when they are first asked for: a plugin of pytest that measures nothing needs none of them."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_PLACES[name], __name__), name)
    return found


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext every_byte` calls in a notebook: it makes the magic `%%gpu` known."""
    from .magics.gpu import load

    load(shell)
