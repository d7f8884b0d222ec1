"""Kernels that a program brings along, written in Triton: flagged by name, for what they take is not known."""

import importlib.abc
import sys

from every_byte.gpu.memory.attachment import standing_for_cuda
from every_byte.gpu.patches.replacing import all_of, replaced

_WHERE = "triton.runtime.jit", "triton.runtime.autotuner"
_CLASSES = "JITFunction", "Autotuner"


def flag_triton():
    """Let Triton's kernels be flagged where they would be launched, also where Triton is imported later.

    A kernel writes into tensors that its caller has made, and these count; values that it would have computed are
    zeros, and what its launch takes is not known. Returns what undoes it.
    """
    undoings: list = []
    finder = _Finder(undoings)
    for module, name in zip(_WHERE, _CLASSES, strict=True):
        if module in sys.modules:
            undoings.append(replaced(getattr(sys.modules[module], name), "run", _flagging))
    sys.meta_path.insert(0, finder)
    return all_of([lambda: sys.meta_path.remove(finder), lambda: all_of(undoings)()])


def _flagging(original):
    def run(kernel, *args, **kwargs):
        mode = standing_for_cuda()
        if mode is None:
            return original(kernel, *args, **kwargs)
        mode.not_modelled(f"Triton kernel {_name_of(kernel)}")
        return None

    return run


def _name_of(kernel) -> str:
    """The name of the function that it is made of: a tuner or a heuristic has the kernel within."""
    while hasattr(kernel, "fn"):
        kernel = kernel.fn
    return getattr(kernel, "__name__", type(kernel).__name__)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing itself; sees to Triton's modules once others have loaded them."""

    def __init__(self, undoings: list) -> None:
        self._undoings = undoings

    def find_spec(self, name, path=None, target=None):
        """The spec that the other finders give, with a loader that flags the kernels' class."""
        if name not in _WHERE:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others if hasattr(finder, "find_spec"))
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, _CLASSES[_WHERE.index(name)], self._undoings)
        return spec


class _Loader(importlib.abc.Loader):
    """Loads as the module's own loader does, and then puts what flags in the place of what launches."""

    def __init__(self, loader, name: str, undoings: list) -> None:
        self._loader, self._name, self._undoings = loader, name, undoings

    def __getattr__(self, name: str):
        return getattr(self._loader, name)

    def create_module(self, spec):
        """As the module's own loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        """As the module's own loader, and one change."""
        self._loader.exec_module(module)
        self._undoings.append(replaced(getattr(module, self._name), "run", _flagging))
