"""What a GPU is, as far as memory depends on it: its size, its architecture, its multiprocessors."""

from dataclasses import dataclass, replace
from difflib import get_close_matches

from every_byte.units import MiB

from .rules import PYTORCH_2_13, Rules, of_architecture
from .versions import rules_followed, rules_of

CONTEXT_BYTES = 560 * MiB
"""Assumed size of the CUDA context: what the driver and the kernels' code take outside the allocator.

It differs between drivers and is a stated assumption, never part of a figure that the book calls exact."""


@dataclass(frozen=True)
class GPUSpec:
    """One kind of GPU, and the rules of the PyTorch version that its simulation follows.

    Unit:   `total_bytes` and `context_bytes` in bytes.
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

    @property
    def torch_version(self) -> str:
        """The version of PyTorch whose rules its simulation follows."""
        return self.rules.torch_version

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
    def allocator_bytes(self) -> int:
        """What is left for the caching allocator once the CUDA context is there."""
        return self.total_bytes - self.context_bytes


_KNOWN = (
    GPUSpec("a100-80gb", "NVIDIA A100-SXM4-80GB", (8, 0), 85_097_971_712, 108),
    GPUSpec("a100-40gb", "NVIDIA A100-SXM4-40GB", (8, 0), 42_298_834_944, 108),
    GPUSpec("h100-80gb", "NVIDIA H100 80GB HBM3", (9, 0), 85_017_624_576, 132),
    GPUSpec("h200-141gb", "NVIDIA H200", (9, 0), 150_109_880_320, 132),
    GPUSpec("b200-180gb", "NVIDIA B200", (10, 0), 191_514_607_616, 148),
    GPUSpec("l40s-48gb", "NVIDIA L40S", (8, 9), 47_697_362_944, 142, 1536),
    GPUSpec("rtx3090-24gb", "NVIDIA GeForce RTX 3090", (8, 6), 25_296_044_032, 82, 1536),
    GPUSpec("t4-16gb", "Tesla T4", (7, 5), 15_655_829_504, 40, 1024),
)
SPECS: dict[str, GPUSpec] = {spec.name: spec for spec in _KNOWN}
"""The GPUs that can be simulated by name."""


def by_version(name: "str | GPUSpec", torch_version: str) -> GPUSpec:
    """A GPU by the rules of a version of PyTorch: "2.15".

    Raises: ValueError for a version that has none, and as `find_spec`.
    """
    return replace(name if isinstance(name, GPUSpec) else find_spec(name), rules=rules_of(torch_version))


def spec_here(name: "str | GPUSpec", torch_version: str = "") -> GPUSpec:
    """A GPU by the rules of that version, or of the one that `follow` named, else of the PyTorch that runs here.

    A spec keeps its own unless a version is named. Raises: as `by_version`.
    """
    if torch_version:
        return by_version(name, torch_version)
    return name if isinstance(name, GPUSpec) else replace(find_spec(name), rules=rules_followed())


def with_rules_of(name: "str | GPUSpec", other: GPUSpec) -> GPUSpec:
    """A GPU by the rules that another one follows; a spec keeps its own. Raises: as `find_spec`."""
    return name if isinstance(name, GPUSpec) else replace(find_spec(name), rules=other.rules)


def find_spec(name: str) -> GPUSpec:
    """The spec of that name, by the rules of the version that the book follows.

    Raises: ValueError for a name that is not in `SPECS`, with the nearest one.
    """
    if name in SPECS:
        return SPECS[name]
    near = get_close_matches(str(name).lower(), SPECS, n=1, cutoff=0.3)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise ValueError(f"name must be a known GPU: got {name!r}, known: {', '.join(SPECS)}{hint}")
