"""Memory pools of a program's own, and those of captured CUDA graphs: refused by name while a simulated GPU is open."""

from typing import Any

import torch

from every_byte.gpu.memory.modes import attached

from .replacing import Function, Maker, Undo, all_of, replaced

WAYS_OUT = {
    "torch.cuda.MemPool": "a pool of a program's own has segments of its own, which the simulated allocator has not; "
    "leave it out",
    "torch.cuda.CUDAGraph": "what a captured graph holds stays in a pool of its own, and what it replays is not seen; "
    "run the step without capture",
    "torch.cuda.CUDAPluggableAllocator": "another allocator than PyTorch's has rules of its own; leave it out",
}


def refuse_pools() -> Undo:
    """Refuse what makes pools; returns what undoes it."""

    def refusing(name: str) -> Maker:
        def make(original: Function) -> Function:
            def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
                if attached():
                    raise NotImplementedError(f"{name} is not modelled on a simulated GPU: {WAYS_OUT[name]}.")
                return original(cls) if original is object.__new__ else original(cls, *args, **kwargs)

            return __new__

        return make

    return all_of([replaced(getattr(torch.cuda, name.split(".")[-1]), "__new__", refusing(name)) for name in WAYS_OUT])
