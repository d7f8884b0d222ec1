"""What a program means by a device, where a simulated GPU stands for "cuda": which of a machine's GPUs it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import torch

_FORKED = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start "
    "method (on a simulated GPU, threads: another process is none of its)"
)

_ONE_PROCESS = (
    "One process on several GPUs is not simulated (nn.DataParallel, device_map over several, layers on cuda:0 and "
    "cuda:1): run it on one GPU (device_ids=[0], --gpu with more memory), or with one process per GPU "
    "(DistributedDataParallel, FSDP) and --ranks 2."
)


@dataclass
class AsCuda:
    """As which of a machine's GPUs a program finds the simulated one: number `index` of `n_devices`.

    `current` is the one that `torch.cuda.set_device` has chosen. The others are those of other ranks, which have
    processes of their own. `said` are settings that the program has made, and that nothing here follows. `is_forked`
    says that this process was forked from one that had used the GPU. `environment` has the variables that PyTorch reads
    when it first allocates, for them to be followed; without, the GPU's settings are those that it was made with.
    """

    index: int = 0
    n_devices: int = 1
    current: int = 0
    said: dict[str, object] = field(default_factory=dict)
    is_forked: bool = False
    environment: Mapping[str, str] | None = None

    @property
    def device(self) -> torch.device:
        """The device that a program is told."""
        return torch.device("cuda", self.index)

    def must_be_here(self, device: torch.device) -> None:
        """Check that a device is this one: "cuda" alone is the current one.

        Raises: RuntimeError for another rank's, for one that there is not, and in a forked process, as CUDA does.
        """
        if self.is_forked:
            raise RuntimeError(_FORKED)
        index = self.current if device.index is None else device.index
        if index == self.index:
            return
        if not 0 <= index < self.n_devices:
            raise torch.AcceleratorError(f"CUDA error: invalid device ordinal\n{self.without(index)}")
        raise RuntimeError(
            f"a simulated rank has its own GPU alone: this process is the rank of cuda:{self.index}, and something was "
            f"to lie on cuda:{index}; call torch.cuda.set_device({self.index}) first (the rank's number is in "
            f"LOCAL_RANK), or simulate that rank. {_ONE_PROCESS}"
        )

    def without(self, index: int) -> str:
        """What to say of a GPU that there is not, and what a program for several can do."""
        there = (
            "there is one GPU, cuda:0" if self.n_devices == 1 else f"there are {self.n_devices} GPUs, from cuda:0 on"
        )
        return f"cuda:{index} was asked for, and {there}. {_ONE_PROCESS}"


def parsed(device: torch.device | str | int | None) -> torch.device | None:
    """The device that a program has named; None for none. A bare number is one of CUDA's."""
    if device is None or isinstance(device, _DEVICE):
        return device
    if isinstance(device, int) and not isinstance(device, bool):
        return _DEVICE("cuda", device)
    return _DEVICE(device)


_DEVICE = torch.device

GENERATORS: WeakValueDictionary[int, torch.Generator] = WeakValueDictionary()
"""The generators of random numbers on simulated GPUs, by the address of PyTorch's own, which knows of the CPU alone."""
