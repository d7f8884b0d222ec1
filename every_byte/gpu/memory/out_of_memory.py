"""What is said where memory runs out: by the allocator alone, and by a simulated GPU of an operation."""

import torch

from every_byte.rounding import round_size
from every_byte.units import GiB, KiB, MiB, exact, short

from .as_cuda import AsCuda
from .environment import Environment
from .specs import GPUSpec


class OutOfMemory(Exception):
    """No free block fits, and the driver has too little left for a new segment, even with all whole free ones back.

    Unit:   bytes, as `int`: what was asked for (`requested_bytes`) and the segment it needs (`segment_bytes`); what
            all segments may take (`capacity_bytes`), take now (`reserved_bytes`), and what blocks in use take of that
            (`allocated_bytes`); `free_bytes` and `cached_bytes` are the two differences. `allowed_bytes` is the limit
            that a fraction of the GPU's memory sets to segments; without one, the capacity. `rejected` says that
            nothing was asked of the driver and nothing cached went back: `throw_on_cudamalloc_oom` wants it so.
    """

    def __init__(
        self,
        requested_bytes: int,
        segment_bytes: int,
        capacity_bytes: int,
        reserved_bytes: int,
        allocated_bytes: int,
        allowed_bytes: int | None = None,
        rejected: bool = False,
    ) -> None:
        self.rejected = rejected
        self.requested_bytes = requested_bytes
        self.segment_bytes = segment_bytes
        self.capacity_bytes = capacity_bytes
        self.reserved_bytes = reserved_bytes
        self.allocated_bytes = allocated_bytes
        self.allowed_bytes = capacity_bytes if allowed_bytes is None else allowed_bytes
        self.free_bytes = capacity_bytes - reserved_bytes
        self.cached_bytes = reserved_bytes - allocated_bytes
        allowed = "" if allowed_bytes is None else f", and by a fraction of memory no more than {exact(allowed_bytes)}"
        tried = "; throw_on_cudamalloc_oom has it refused before the cache is emptied" if rejected else ""
        super().__init__(
            f"out of memory: asked for {exact(requested_bytes)}, which needs a new segment of {short(segment_bytes)}. "
            f"Segments may take {exact(capacity_bytes)}{allowed}; they hold {exact(reserved_bytes)} and "
            f"{exact(self.free_bytes)} are free. Of what they hold, {exact(allocated_bytes)} are in use and "
            f"{exact(self.cached_bytes)} lie free between blocks in use, none of them fitting{tried}. "
            "Try a smaller batch or sequence, fewer bytes per element, freeing what is no longer needed, "
            "or a larger GPU."
        )


def error_of(
    error: OutOfMemory, spec: GPUSpec, operation: str, settings: Environment, as_cuda: AsCuda | None = None
) -> RuntimeError:
    """What a simulated GPU raises for a request of an operation: PyTorch's own error, without caching the driver's.

    One that stands for "cuda" says it in PyTorch's words, which programs look for.
    """
    if settings.caches and as_cuda is not None:
        return torch.OutOfMemoryError(_as_pytorch_says(error, spec, operation, as_cuda.index))
    if settings.caches:
        return torch.OutOfMemoryError(_message(error, spec, operation, str(settings)))
    return torch.AcceleratorError(_uncached_message(error, spec, operation, str(settings)))


def _message(error: OutOfMemory, spec: GPUSpec, operation: str, settings: str) -> str:
    larger = error.segment_bytes > round_size(error.requested_bytes)
    segment = f", which needs a new segment of {exact(error.segment_bytes)}" if larger else ""
    limited = error.allowed_bytes < error.capacity_bytes
    allowed = f"{exact(error.allowed_bytes)} are allowed by a fraction of its memory. " if limited else ""
    if error.rejected:
        limit = exact(error.allowed_bytes)
        allowed = f"throw_on_cudamalloc_oom has what exceeds {limit} refused before the driver is asked. "
    if error.cached_bytes >= error.requested_bytes and "expandable_segments:True" not in settings:
        allowed += "What is reserved but not allocated would do, in one piece: try expandable_segments:True. "
    followed = f" It follows {settings}." if settings else ""
    return (
        f"CUDA out of memory (simulated {spec.name}): {operation or 'an allocation'} asked for "
        f"{exact(error.requested_bytes)}{segment}. The GPU has {exact(spec.total_bytes)}, of which the CUDA "
        f"context takes {exact(spec.context_bytes)} ({spec.context_said}) and PyTorch holds "
        f"{exact(error.reserved_bytes)}: {exact(error.allocated_bytes)} allocated, {exact(error.cached_bytes)} "
        "reserved but not allocated. "
        f"{exact(error.free_bytes)} are free. {allowed}Use a smaller batch or sequence, fewer bytes per element, or a "
        f"larger GPU.{followed}"
    )


def _as_pytorch_says(error: OutOfMemory, spec: GPUSpec, operation: str, index: int) -> str:
    """Source: CUDACachingAllocator.cpp, malloc, and format_size in c10/core/CachingDeviceAllocator.h."""
    tried = two_decimals(max(error.segment_bytes, round_size(error.requested_bytes)))
    ours = (
        f"This GPU is simulated: {spec.name}; {operation or 'an allocation'} asked for {exact(error.requested_bytes)}."
    )
    if error.rejected:
        return (
            "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
            f"per_process_memory_fraction limit. Requested size: {tried}. {ours}"
        )
    limited = error.allowed_bytes < error.capacity_bytes
    allowed = f"{two_decimals(error.allowed_bytes)} allowed; " if limited else ""
    return (
        f"CUDA out of memory. Tried to allocate {tried}. GPU {index} has a total capacity of "
        f"{two_decimals(spec.total_bytes)} of which {two_decimals(error.free_bytes)} is free. {allowed}Of the "
        f"allocated memory {two_decimals(error.allocated_bytes)} is allocated by PyTorch, and "
        f"{two_decimals(error.cached_bytes)} is reserved by PyTorch but unallocated. If reserved but unallocated "
        "memory is large try setting PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation. "
        f"{ours}"
    )


def two_decimals(n_bytes: int) -> str:
    """A size as PyTorch's messages have it: with two decimals in a unit that it exceeds. A GiB is 1024.00 MiB."""
    for unit, name in ((GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB")):
        if n_bytes > unit:
            return f"{n_bytes / unit:.2f} {name}"
    return f"{n_bytes} bytes"


def _uncached_message(error: OutOfMemory, spec: GPUSpec, operation: str, settings: str) -> str:
    return (
        f"CUDA error: out of memory (simulated {spec.name}): {operation or 'an allocation'} asked the driver for "
        f"{exact(error.requested_bytes)}. The GPU has {exact(spec.total_bytes)}, of which the CUDA context takes "
        f"{exact(spec.context_bytes)} ({spec.context_said}) and PyTorch {exact(error.reserved_bytes)}, if the driver "
        "rounds as PyTorch does. Use a smaller batch or sequence, fewer bytes per element, or a larger GPU. "
        f"It follows {settings}."
    )
