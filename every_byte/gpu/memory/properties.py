"""What a GPU says of itself, under the names of `torch.cuda.get_device_properties`."""

from dataclasses import dataclass
from typing import NoReturn
from uuid import UUID

from every_byte.units import MiB

from .specs import GPUSpec


@dataclass(frozen=True, repr=False)
class DeviceProperties:
    """What `torch.cuda.get_device_properties` tells of a GPU, under its names.

    Unit:   bytes of memory.
    Source: `GPUSpec`; the CUDA programming guide, compute capabilities, for what all of them have alike; NVIDIA's data
            sheets for L2; the place on the bus and the UUID stand for one GPU alone.
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    gcnArchName: str
    shared_memory_per_block: int = 49_152
    max_threads_per_block: int = 1024
    regs_per_multiprocessor: int = 65_536
    warp_size: int = 32
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    pci_bus_id: int = 1
    pci_device_id: int = 0
    pci_domain_id: int = 0
    uuid: UUID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // MiB}MB, multi_processor_count={self.multi_processor_count}, "
            f"uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // MiB}MB)"
        )

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"of a simulated GPU no clock and no bus is known: {name!r} was asked for; there are "
            f"{', '.join(DeviceProperties.__dataclass_fields__)}."
        )

    @classmethod
    def of(cls, spec: GPUSpec) -> "DeviceProperties":
        """Those of a GPU that is known."""
        optin = spec.shared_memory_per_block
        return cls(
            spec.device_name,
            *spec.capability,
            spec.total_bytes,
            spec.multiprocessors,
            spec.threads_per_multiprocessor,
            optin,
            optin + 1024 if spec.capability >= (8, 0) else optin,
            spec.l2_bytes,
            spec.device_name,
            is_integrated=int(spec.shares_memory),
        )
