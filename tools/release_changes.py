"""What PyTorch's releases do otherwise with memory: what to call it, which rule follows it, and who speaks of it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """`rules` are the fields of every_byte/gpu/memory/rules.py that follow it; `case` is its program among the recorded
    ones, with its card, "" if none shows it; `threads` are PyTorch's, ("pull", 191945)."""

    version: str
    title: str
    text: str
    rules: tuple[str, ...]
    case: str = ""
    threads: tuple[tuple[str, int], ...] = ()


LIBRARIES = {
    "2.11.0": "CUDA 13.0", "2.13.0": "CUDA 13.0, cuDNN 9.20", "2.14.1": "CUDA 13.0", "2.15.0": "CUDA 13.2, cuDNN 9.26",
}  # fmt: skip
"""What each build was made with."""

PROGRAMS = {
    "gpt2_small_fp32.a100": "GPT-2 small in float32",
    "gpt2_small_flash_bf16.h100": "GPT-2 small under autocast, flash attention",
    "gpt2_medium_flash_bf16.h100": "GPT-2 medium under autocast, flash attention",
    "block_relu.a100": "one block of the MLP chapter",
}
"""Whole training steps that are shown, with their cards."""

CHANGES = [
    Change(
        "2.15", "A product's workspace is its own",
        "Until then each thread kept the workspace of its first product, 8.1 MiB, or 32 MiB on Hopper, for good. Now a "
        "product takes it and gives it back; `TORCH_CUBLAS_WORKSPACE_CACHE=1` brings the old way back.",
        ("keeps_workspaces",), "release_product.h100", (("pull", 194311),),
    ),
    Change(
        "2.15", "A bias is added in 1 MiB",
        "A product with a bias goes to cuBLASLt, which now has 1 MiB to work in instead of cuBLAS's workspace; so "
        "does, in half precision, a product that is added to a matrix.",
        ("lt_workspace_bytes",), "release_linear.h100",
    ),
    Change(
        "2.15", "Grouped-query attention in float32, and on older cards",
        "Memory-efficient attention takes fewer heads of key and value than of query. Where there is no flash "
        "attention, in float32 or on a T4, that was plain mathematics before, with all scores in memory.",
        ("efficient_repeats_heads",), "release_fewer_heads.t4", (("pull", 191085),),
    ),
    Change(
        "2.15", "One head of key and value, without being asked",
        "Key and value of one head serve all of query's in the fused kernels, also where `enable_gqa` is not set.",
        ("one_head_serves_all",), "release_one_head.a100", (("pull", 191085),),
    ),
    Change(
        "2.15", "Attention without a batch",
        "Query, key and value of three dimensions get a batch of one, and so a fused kernel.",
        ("attention_adds_batch",), "release_three_dimensions.a100", (("issues", 187266), ("pull", 192271)),
    ),
    Change(
        "2.15", "Wide heads on Hopper",
        "cuDNN's attention no longer trains heads of more than 128 numbers, but for 192 with 128, and 256; flash "
        "attention takes them. For as few heads as here that splits the keys, and adds up parts of the result.",
        ("cudnn_trains_few_heads",), "release_wide_heads.h100",
    ),
    Change(
        "2.15", "More batches or heads than a grid has",
        "Flash attention leaves alone what has more than 65,535 batches or heads; memory-efficient attention takes it.",
        ("flash_fits_a_grid",), "release_many_heads.a100",
    ),
    Change(
        "2.15", "Seed and offset on the GPU",
        "Memory-efficient attention without dropout makes its two numbers on the GPU and not on the CPU: two blocks of "
        "512 bytes, kept for each attention until its backward.",
        ("seeds_are_on_gpu",), "release_seeds.a100",
    ),
    Change(
        "2.15", "Clipping keeps a number a chunk",
        "The norms of many gradients were added up in a table with as many columns as the longest has chunks of 65,536 "
        "numbers, for each gradient. Now each has as many as it needs.",
        ("norms_by_chunk",), "release_clipping.a100", (("pull", 190549),),
    ),
    Change(
        "2.15", "Group norm in channels-last",
        "A batch of pictures in channels-last is no longer copied into another order, and its result and gradient stay "
        "in that order, too.",
        ("group_norm_keeps_layout",), "release_group_norm.a100", (("pull", 191945),),
    ),
    Change(
        "2.15", "Equal numbers share a gradient",
        "Where the two numbers of `fmax` or `fmin` are equal, or a number and a limit of `clamp`, each has half of the "
        "gradient, as with `maximum`; that takes a few more temporary tensors.",
        ("limits_share_gradients",), "release_limits.a100", (("pull", 191142),),
    ),
    Change(
        "2.15", "Drawing with replacement",
        "`multinomial` adds its probabilities up in place: a tensor of their size less.",
        ("multinomial_sums_in_place",), "release_draws.a100", (("issues", 192594),),
    ),
    Change(
        "2.15", "A number written by a list of positions",
        "`x[positions] = 1.0` fills, without a tensor for the number; at one position on the GPU it does not wait for "
        "the position.",
        ("numbers_are_written_unread",), "release_written_numbers.a100", (("pull", 195787), ("pull", 188330)),
    ),
    Change(
        "2.15", "Repeats are looked at once",
        "`repeat_interleave` looks at the least of its repeats, and no longer makes a mask of a byte for each.",
        ("repeats_have_a_least",),
    ),
]  # fmt: skip
"""By version, what weighs most first."""
