"""What of a GPU's memory depends on the version of PyTorch: numbers that its CUDA build brings with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

Architecture = tuple[int, int]
"""A compute capability: (9, 0) is Hopper's."""

_Entry = TypeVar("_Entry")


@dataclass(frozen=True)
class Rules:
    """The numbers of one version of PyTorch, with the CUDA libraries that its build on PyPI was made with.

    Unit:   bytes for workspaces, elements for tiles.
    Source: the CUDA build of that version, asked and recorded: tests/reference says how.
    """

    torch_version: str
    cublas_workspace_bytes: Mapping[Architecture, int] = field(hash=False)
    """What each cuBLAS handle is given to work in, from this architecture on."""
    sort_in_one_tile: Mapping[int, int] = field(hash=False)
    """The most items that CUB sorts in one tile, by bytes of an item."""
    sort_tiles: Mapping[Architecture, Mapping[int, int]] = field(hash=False)
    """The tiles of CUB's radix sort, from this architecture on, by bytes of an item."""
    row_sort_tiles: Mapping[Architecture, Mapping[int, int]] = field(hash=False)
    """Its tiles where each key has a value of 8 bytes, by bytes of a key; narrower keys are sorted in an older way."""
    key_sort_tiles: Mapping[Architecture, int] = field(hash=False)
    """Its tiles where keys of 8 bytes are sorted alone."""
    unique_tiles: Mapping[Architecture, Mapping[int, int]] = field(hash=False)
    """The tiles of CUB's selection of unique keys, from this architecture on; A100 has one of its own."""
    by_key_tiles: Mapping[Architecture, Mapping[int, int]] = field(hash=False)
    """The tiles of CUB's running sums by key, from this architecture on, by bytes of a key and of its value."""
    select_tiles: Mapping[Architecture, int] = field(hash=False)
    """The tiles of CUB's selection of positions by flags, from this architecture on."""
    scan_tiles: Mapping[int, int] = field(hash=False)
    """The tiles of CUB's running sums, by bytes of an item."""
    rows_sort_by_all_bits: bool = False
    """Whether the indices of an embedding's rows are sorted by all of their bits; else by those of the largest one."""
    keeps_workspaces: bool = True
    """Whether a thread keeps its cuBLAS workspace in each stream; else each product takes one, and gives it back."""
    lt_workspace_bytes: int = 1 << 20
    """What cuBLASLt is given to work in, kept or not as cuBLAS's is, where it does not work in cuBLAS's."""
    lt_works_in_cublass: bool = True
    """Whether cuBLASLt works in cuBLAS's workspace, where that is kept; TORCH_CUBLASLT_UNIFIED_WORKSPACE says other."""
    lt_adds_matrices: bool = False
    """Whether cuBLASLt, in half precision, takes a product that is added to a matrix as large as it."""
    outer_products_have_a_kernel: bool = True
    """Whether a batched product with one term in each sum has a kernel of its own, without copies and workspace."""
    seeds_are_on_gpu: bool = False
    """Whether memory-efficient attention without dropout makes seed and offset on the GPU, first; else on the CPU."""
    efficient_repeats_heads: bool = False
    """Whether memory-efficient attention takes fewer heads of key and value than of query."""
    efficient_wants_aligned_starts: bool = True
    """Whether memory-efficient attention on Ampere and newer cards takes only what begins at a multiple of what it
    reads at once."""
    cudnn_fits_a_grid: bool = True
    """Whether cuDNN's attention leaves alone what has more than 65,535 batches or heads."""
    cudnn_drops_by_sixteenths: bool = True
    """Whether cuDNN's attention takes only probabilities of dropout that are multiples of a sixteenth."""
    cudnn_leaves_one_query: bool = False
    """Whether cuDNN's attention on Blackwell leaves alone what has one query."""
    cudnn_trains_two_wide_dimensions: bool = False
    """Whether cuDNN's attention, of head dimensions beyond 128, trains 192 with 128 alone, and 256, and runs any up to
    256, on Hopper and Blackwell; else it takes any up to 256 on Hopper, and 192 with 128 on Blackwell."""
    flash_fits_a_grid: bool = False
    """Whether flash attention leaves alone what has more than 65,535 batches or heads."""
    attention_of_nothing_is_zeros: bool = True
    """Whether attention without a number makes zeros that depend on query, key and value; else a kernel takes it."""
    one_head_serves_all: bool = False
    """Whether the fused kernels take one head of key and value for all of query's without `enable_gqa`."""
    attention_adds_batch: bool = False
    """Whether attention of three dimensions gets a batch of one, and so a fused kernel; else plain mathematics."""
    limits_share_gradients: bool = False
    """Whether two equal numbers of `fmax` or `fmin`, or a number and an equal limit of `clamp`, each get half of the
    gradient, as those of `maximum` do; else the first gets all of it."""
    extremes_are_found_apart: bool = False
    """Whether the least and the largest of `multinomial`'s probabilities, of `histc`'s numbers and of what indexes are
    found one after the other; else both at once."""
    multinomial_sums_in_place: bool = False
    """Whether `multinomial` with replacement writes the running sums of its probabilities over their quotients."""
    repeats_have_a_least: bool = False
    """Whether `repeat_interleave` looks at the least of its repeats; else at whether each is negative."""
    numbers_are_written_unread: bool = False
    """Whether a number is written at one position on the GPU without reading that position."""
    encoder_attention_wants_eighths: bool = False
    """Whether the one operator of multi-head attention in evaluation takes a fused kernel only where the dimension of
    a head is a multiple of 8."""
    group_norm_copies_last: bool = False
    """Whether `group_norm` makes what copies it needs behind its results, and gives them back; else before them, and
    they are kept for backward. Then its backward also makes no sums for channels of one position."""
    group_norm_widens_statistics: bool = True
    """Whether `group_norm` of half precision makes its statistics in float32 first."""
    group_norm_keeps_layout: bool = False
    """Whether `group_norm` works in channels-last, too; else it makes contiguous copies."""
    norms_by_chunk: bool = False
    """Whether norms of many tensors have one number for each chunk, found by offsets; else for each tensor as many as
    the longest has."""
    counts_rejections: bool = True
    """Whether `memory_stats` has `num_oom_rejections`."""
    is_verified: bool = True
    """Whether recordings of this version hold the simulated GPU to it."""

    def __str__(self) -> str:
        return f"PyTorch {self.torch_version} rules"


def of_architecture(table: Mapping[Architecture, _Entry], capability: Architecture) -> _Entry:
    """What a table says of a GPU: its entry for the newest architecture that is not newer than the GPU's.

    A GPU older than all gets the oldest: no build of PyTorch on PyPI has kernels for one.
    """
    return table[max((known for known in table if known <= capability), default=min(table))]


PYTORCH_2_13 = Rules(
    torch_version="2.13",
    cublas_workspace_bytes={
        (0, 0): 8_519_680,
        (9, 0): 33_554_432,
        (11, 0): 8_519_680,
        (12, 0): 33_554_432,
        (13, 0): 8_519_680,
    },
    sort_in_one_tile={4: 4864, 8: 2304},
    sort_tiles={(7, 5): {4: 11776, 8: 2816}, (8, 0): {4: 6528, 8: 3840}, (9, 0): {4: 6528, 8: 4608}},
    row_sort_tiles={
        (7, 5): {4: 2816, 8: 2816},
        (8, 0): {4: 3072, 8: 3840},
        (9, 0): {1: 3456, 2: 5632, 4: 5376, 8: 4608},
    },
    key_sort_tiles={(7, 5): 2816, (8, 0): 3840, (9, 0): 5760},
    unique_tiles={
        (7, 5): {4: 704, 8: 320},
        (8, 0): {4: 2816, 8: 1344},
        (8, 6): {4: 704, 8: 320},
        (9, 0): {4: 7168, 8: 4928},
    },
    by_key_tiles={
        (7, 5): {4: 2304, 8: 2304},
        (8, 0): {4: 3840, 8: 2240},
        (8, 6): {4: 2304, 8: 2304},
        (9, 0): {4: 4032, 8: 2464},
        (10, 0): {4: 4480, 8: 5888},
    },
    select_tiles={(7, 5): 640, (8, 0): 2304, (8, 6): 640, (9, 0): 4224, (10, 0): 3520},
    scan_tiles={2: 3840, 4: 1920, 8: 896, 16: 384},
)
PYTORCH_2_11 = replace(
    PYTORCH_2_13,
    torch_version="2.11",
    cublas_workspace_bytes={(0, 0): 8_519_680, (9, 0): 33_554_432, (10, 0): 8_519_680},
    lt_works_in_cublass=False,
    unique_tiles={
        (7, 5): {4: 704, 8: 320},
        (8, 0): {4: 2816, 8: 1792},
        (8, 6): {4: 704, 8: 320},
        (9, 0): {4: 7168, 8: 4480},
        (10, 0): {4: 7168, 8: 3840},
    },
    rows_sort_by_all_bits=True,
    outer_products_have_a_kernel=False,
    attention_of_nothing_is_zeros=False,
    efficient_wants_aligned_starts=False,
    cudnn_fits_a_grid=False,
    cudnn_drops_by_sixteenths=False,
    extremes_are_found_apart=True,
    encoder_attention_wants_eighths=True,
    group_norm_widens_statistics=False,
    counts_rejections=False,
)
PYTORCH_2_14 = replace(
    PYTORCH_2_13,
    torch_version="2.14",
    seeds_are_on_gpu=True,
    efficient_repeats_heads=True,
    cudnn_leaves_one_query=True,
    one_head_serves_all=True,
    attention_adds_batch=True,
    cudnn_trains_two_wide_dimensions=True,
    limits_share_gradients=True,
    group_norm_copies_last=True,
)
PYTORCH_2_15 = replace(
    PYTORCH_2_14,
    torch_version="2.15",
    keeps_workspaces=False,
    lt_adds_matrices=True,
    cudnn_leaves_one_query=False,
    flash_fits_a_grid=True,
    numbers_are_written_unread=True,
    multinomial_sums_in_place=True,
    repeats_have_a_least=True,
    group_norm_keeps_layout=True,
    norms_by_chunk=True,
)
