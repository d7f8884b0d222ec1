"""What a GPU is, as far as memory depends on it: its size, its architecture, its multiprocessors."""

from dataclasses import dataclass, field

from .contexts import CONTEXT_BYTES, context_range
from .rules import PYTORCH_2_13, Rules, of_architecture

COMPILED = ((7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0))
"""The architectures that PyTorch's builds on PyPI have kernels for, 2.9 to 2.15.

Source: `torch.cuda.get_arch_list()` of 2.13's, for CUDA 13.0. CUDA 13 compiles for nothing older than Turing."""


@dataclass(frozen=True)
class GPUSpec:
    """One kind of GPU, and the rules of the PyTorch version that its simulation follows.

    `source` says who published its size, and how: that differs by a percent between drivers. `context_bytes` are
    assumed unless `context_is_stated`.

    Unit:   `total_bytes`, `context_bytes` and `l2_bytes` in bytes.
    Source: `torch.cuda.get_device_properties` of such a GPU; the CUDA programming guide for threads.
    """

    name: str
    device_name: str
    capability: tuple[int, int]
    total_bytes: int
    multiprocessors: int
    threads_per_multiprocessor: int = 2048
    context_bytes: int = CONTEXT_BYTES
    rules: Rules = PYTORCH_2_13
    l2_bytes: int = field(default=0, compare=False)
    source: str = field(default="", compare=False, repr=False)
    shares_memory: bool = field(default=False, compare=False)
    """Whether its memory is the computer's, of which the system and other programs take some."""
    context_is_stated: bool = False
    over_stand_ins: bool = False
    """Whether stub libraries replace CUDA's below PyTorch, as in recordings; cuDNN's engines then take no workspace."""

    @property
    def torch_version(self) -> str:
        """The version of PyTorch whose rules its simulation follows."""
        return self.rules.torch_version

    @property
    def compiled_for(self) -> tuple[int, int] | None:
        """The architecture of the kernels that PyTorch's build on PyPI runs on it; None if it has none that do.

        Kernels run on cards of the same major number whose minor one is as large or larger.
        """
        major, minor = self.capability
        return max((one for one in COMPILED if one[0] == major and one[1] <= minor), default=None)

    @property
    def has_no_kernels(self) -> str:
        """That no build of PyTorch on PyPI runs on it, and which does; "" where one runs."""
        if self.compiled_for is not None:
            return ""
        capability, oldest, newest = (
            ".".join(map(str, one)) for one in (self.capability, min(COMPILED), max(COMPILED))
        )
        if self.capability > max(COMPILED):
            which = f"and the newest is {newest}. A later version of PyTorch may have them."
        else:
            which = f"and the oldest is {oldest}. PyTorch's builds for CUDA 12.6 (cu126) have them."
        return (
            f"PyTorch {self.torch_version} from PyPI does not run on {self.device_name}: it has no kernels for compute "
            f"capability {capability}, {which}"
        )

    @property
    def cublas_workspace_bytes(self) -> int:
        """What PyTorch gives each cuBLAS handle to work in: by 2.13, 32 MiB on Hopper and Blackwell, else 8.125 MiB.

        Source: `torch.backends.cuda.cublas_workspace_size()` of the CUDA build for each of these GPUs.
        """
        return of_architecture(self.rules.cublas_workspace_bytes, self.capability)

    @property
    def shared_memory_per_block(self) -> int:
        """The shared memory in bytes that one thread block may take, if it asks for it.

        Source: the CUDA programming guide, compute capabilities; `sharedMemPerBlockOptin` of such a GPU.
        """
        kib = {(7, 0): 96, (7, 5): 64, (8, 0): 163, (8, 7): 163, (9, 0): 227, (10, 0): 227, (10, 3): 227}
        return kib.get(self.capability, 99) * 1024

    @property
    def context_range_bytes(self) -> tuple[int, int]:
        """The least and the most that the CUDA context may be: what was published; one that is stated is known."""
        if self.context_is_stated or self.context_bytes != CONTEXT_BYTES:
            return self.context_bytes, self.context_bytes
        return context_range(self.capability)

    @property
    def context_said(self) -> str:
        """How its size is known: `assumed` or `as stated`."""
        return "as stated" if self.context_is_stated else "assumed"

    @property
    def allocator_bytes(self) -> int:
        """What is left for the caching allocator once the CUDA context is there."""
        return self.total_bytes - self.context_bytes
