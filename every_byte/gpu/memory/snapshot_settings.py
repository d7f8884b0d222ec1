"""What a snapshot tells of the allocator's settings, under the names that PyTorch's own has for them."""

from typing import Any

from .settings import AllocatorSettings
from .settings_text import UNLIMITED

_OF_PINNED_MEMORY_AND_GRAPHS = {
    "pinned_num_register_threads": 1,
    "release_lock_on_cudamalloc": False,
    "pinned_use_cuda_host_register": False,
    "graph_capture_record_stream_reuse": False,
    "max_round_threshold": -1,
    "max_cached_size": -1,
}
"""PyTorch's defaults: these change nothing on a simulated GPU, which does not keep them."""


def snapshot_settings(settings: AllocatorSettings) -> dict[str, Any]:
    """`allocator_settings` of `torch.cuda.memory._snapshot()`.

    Unit:   bytes for `max_split_size`, -1 for no limit; divisions by the MiB that a power of two begins at.
    Source: snapshot in torch/csrc/cuda/Module.cpp; snapshots/mlp_expandable of tests/reference.
    """
    limit = settings.max_split_bytes
    divisions = {str(1 << i): each for i, each in enumerate(settings.roundup_power2_divisions)}
    return {
        "PYTORCH_CUDA_ALLOC_CONF": settings.text,
        "max_split_size": -1 if limit == UNLIMITED else limit,
        "garbage_collection_threshold": settings.garbage_collection_threshold,
        "expandable_segments": settings.expandable_segments,
        **_OF_PINNED_MEMORY_AND_GRAPHS,
        "roundup_power2_divisions": divisions,
    }
