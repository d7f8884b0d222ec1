"""What a GPU says of itself, under the names of `torch.cuda.get_device_properties`."""

from dataclasses import dataclass

from .specs import GPUSpec


@dataclass(frozen=True)
class DeviceProperties:
    """What `torch.cuda.get_device_properties` tells of a GPU, under its names.

    Unit:   bytes of memory.
    Source: `GPUSpec`; the CUDA programming guide, compute capabilities, for what all of them have alike.
    """

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int
    shared_memory_per_block_optin: int
    shared_memory_per_block: int = 49_152
    max_threads_per_block: int = 1024
    regs_per_multiprocessor: int = 65_536
    warp_size: int = 32
    is_integrated: int = 0
    is_multi_gpu_board: int = 0

    @classmethod
    def of(cls, spec: GPUSpec) -> "DeviceProperties":
        """Those of a GPU that is known."""
        return cls(
            spec.device_name,
            *spec.capability,
            spec.total_bytes,
            spec.multiprocessors,
            spec.threads_per_multiprocessor,
            spec.shared_memory_per_block,
        )
