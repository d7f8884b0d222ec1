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
    "2.11.0": "CUDA 13.0, cuDNN 9.19", "2.13.0": "CUDA 13.0, cuDNN 9.20", "2.14.1": "CUDA 13.0, cuDNN 9.24",
    "2.15.0": "CUDA 13.2, cuDNN 9.26",
}  # fmt: skip
"""What each build was made with, as it says itself."""

PROGRAMS = {
    "gpt2_small_fp32.a100": "GPT-2 small in float32",
    "gpt2_small_flash_bf16.h100": "GPT-2 small under autocast, flash attention",
    "gpt2_medium_flash_bf16.h100": "GPT-2 medium under autocast, flash attention",
    "block_relu.a100": "one block of the MLP chapter",
}
"""Whole training steps that are shown, with their cards."""

CHANGES = [
    Change(
        "2.15", "cuBLAS's workspace is each product's own",
        "Until then each thread kept the workspace of its first product, 8.1 MiB, or 32 MiB on Hopper, for good. "
        "Now a product takes it and gives it back; `TORCH_CUBLAS_WORKSPACE_CACHE=1` brings the old way back. The "
        "program is one product of a matrix of 4 MiB with itself.",
        ("keeps_workspaces",), "release_product.h100", (("pull", 194311),),
    ),
    Change(
        "2.15", "`nn.Linear` with a bias works in 1 MiB",
        "A product with a bias goes to cuBLASLt, which now has 1 MiB to work in instead of cuBLAS's workspace; so "
        "does, in half precision, a product that is added to a matrix. The program is one linear layer.",
        ("lt_adds_matrices",), "release_linear.h100",
    ),
    Change(
        "2.15", "`clip_grad_norm_` keeps a number a chunk",
        "To clip gradients, PyTorch adds up squares in chunks of 65,536 numbers. For each gradient it kept as many "
        "sums as the longest of all needs; now each has as many as it needs itself.",
        ("norms_by_chunk",), "release_clipping.a100", (("pull", 190549),),
    ),
    Change(
        "2.15", "`group_norm` in channels-last",
        "Images in channels-last, where a pixel's channels lie together, are no longer copied into another order, "
        "and the result and the gradient stay in that order.",
        ("group_norm_keeps_layout",), "release_group_norm.a100", (("pull", 191945),),
    ),
    Change(
        "2.15", "Attention of more than 65,535 batches or heads",
        "A kernel's grid has at most 65,535 blocks in its second and third dimension. Flash attention leaves alone "
        "what has more batches or heads; memory-efficient attention takes it.",
        ("flash_fits_a_grid",), "release_many_heads.a100",
    ),
    Change(
        "2.15", "`multinomial` with replacement",
        "`multinomial` adds its probabilities up in place: a tensor of their size less.",
        ("multinomial_sums_in_place",), "release_draws.a100", (("issues", 192594),),
    ),
    Change(
        "2.15", "`x[positions] = 1.0`",
        "`x[positions] = 1.0` fills, without a tensor for the number; at one position on the GPU it does not wait "
        "for the position.",
        ("numbers_are_written_unread",), "release_written_numbers.a100", (("pull", 195787), ("pull", 188330)),
    ),
    Change(
        "2.15", "`fmax` and `fmin` ask for NaN",
        "The gradients of `fmax` and `fmin` ask for each number whether it is NaN, and hold a mask more for it "
        "meanwhile: a byte for each number.",
        (), "release_limits.a100",
    ),
    Change(
        "2.15", "`repeat_interleave` makes no mask",
        "`repeat_interleave` no longer makes a mask of a byte for each repeat.",
        ("repeats_have_a_least",),
    ),
    Change(
        "2.15", "cuDNN's attention of one query on Blackwell, again",
        "cuDNN's attention on Blackwell takes what has one query, which it left alone in 2.14.",
        ("cudnn_leaves_one_query",),
    ),
    Change(
        "2.14", "Grouped-query attention in float32, and on older cards",
        "Memory-efficient attention takes fewer heads of key and value than of query. Where there is no flash "
        "attention, in float32 or on a T4, that was plain mathematics before, with all scores in memory.",
        ("efficient_repeats_heads",), "release_fewer_heads.t4", (("pull", 191085),),
    ),
    Change(
        "2.14", "One head of key and value, without being asked",
        "Key and value of one head serve all of query's in the fused kernels, also where `enable_gqa` is not set.",
        ("one_head_serves_all",), "release_one_head.a100", (("pull", 191085),),
    ),
    Change(
        "2.14", "Attention without a batch",
        "Query, key and value of three dimensions get a batch of one, and so a fused kernel.",
        ("attention_adds_batch",), "release_three_dimensions.a100", (("pull", 192271),),
    ),
    Change(
        "2.14", "cuDNN's attention: wide heads on Hopper and Blackwell",
        "Beyond head dimensions of 128, cuDNN's attention trains only 192 with 128, and 256; on Hopper it trained "
        "any up to 256. Flash attention takes the others: for as few heads as here it splits the keys into parts, "
        "and holds what comes of each. What cuDNN took for itself before is not in the figures.",
        ("cudnn_trains_two_wide_dimensions",), "release_wide_heads.h100",
    ),
    Change(
        "2.14", "`group_norm` gives its copy back",
        "What does not lie as group norm wants it is copied as before, but the copy is no longer kept for backward,"
        " which makes its own.",
        ("group_norm_copies_last",), "release_group_norm.h100",
    ),
    Change(
        "2.14", "`fmax`, `fmin` and `clamp`: equal numbers share a gradient",
        "Where the two numbers of `fmax` or `fmin` are equal, or a number and a limit of `clamp`, each has half of "
        "the gradient, as with `maximum`; that takes a few more temporary tensors.",
        ("limits_share_gradients",), "release_limits.a100", (("pull", 191142),),
    ),
    Change(
        "2.14", "Attention's seed and offset on the GPU",
        "Memory-efficient attention keeps for its backward where dropout's random numbers began, also without "
        "dropout. These two numbers lie on the GPU now, in two blocks of 512 bytes for each attention.",
        ("seeds_are_on_gpu",), "release_seeds.a100",
    ),
    Change(
        "2.14", "cuDNN's attention of one query on Blackwell",
        "cuDNN's attention on Blackwell leaves alone what has one query.",
        ("cudnn_leaves_one_query",),
    ),
    Change(
        "2.13", "Attention of slices that begin in the middle",
        "On Ampere and newer cards memory-efficient attention takes only tensors that begin at a multiple of 16 "
        "bytes in their storage. A slice that begins elsewhere is plain mathematics, with all scores in memory; a "
        "copy is not.",
        ("efficient_wants_aligned_starts",), "release_starts.a100",
    ),
    Change(
        "2.13", "cuBLASLt works in cuBLAS's workspace",
        "It kept 1 MiB of its own beside it; `TORCH_CUBLASLT_UNIFIED_WORKSPACE=1` asked for what is now the default, "
        "and `=0` brings the old way back.",
        ("lt_works_in_cublass",), "release_linear.a100", (("pull", 168175), ("pull", 175879)),
    ),
    Change(
        "2.13", "cuDNN's attention: dropout in sixteenths",
        "cuDNN's attention takes only probabilities of dropout that are multiples of a sixteenth; flash attention "
        "takes the others.",
        ("cudnn_drops_by_sixteenths",), "release_dropout.h100", (("pull", 174245),),
    ),
    Change(
        "2.13", "cuDNN's attention of more than 65,535 batches or heads",
        "cuDNN's attention leaves alone what has more than 65,535 batches or heads; flash attention takes it.",
        ("cudnn_fits_a_grid",), "release_many_heads.h100", (("pull", 180718),),
    ),
    Change(
        "2.13", "Embeddings: indices are sorted by the bits that they have",
        "The gradient of an embedding sorts its indices by the bits of the largest one, no longer by all 64; CUB finds "
        "the different ones among them in other tiles on A100, Hopper and Blackwell.",
        ("rows_sort_by_all_bits", "unique_tiles"), "release_sorted_indices.a100",
    ),
    Change(
        "2.13", "`MultiheadAttention` in evaluation: heads of any width",
        "`nn.MultiheadAttention` and encoder layers in evaluation, without gradients, are one operator. It took a "
        "fused kernel where the dimension of a head was a multiple of 8 alone; now wherever there is one.",
        ("encoder_attention_wants_eighths",), "release_evaluation.a100", (("pull", 176559),),
    ),
    Change(
        "2.13", "`bmm` of outer products has a kernel of its own",
        "A batched product with one term in each sum no longer goes to cuBLAS, and so makes no copies for it.",
        ("outer_products_have_a_kernel",),
    ),
    Change(
        "2.13", "The workspace of cuBLAS on Blackwell",
        "It is 32 MiB there as on Hopper, where it was 8.1 MiB.",
        ("cublas_workspace_bytes",), threads=(("pull", 175344),),
    ),
    Change(
        "2.13", "Attention of nothing, statistics and extremes",
        "Attention without a number makes zeros, and no kernel runs; group norm of half precision makes its statistics "
        "in float32 first; the least and the largest of `multinomial`'s probabilities, of `histc`'s numbers and of "
        "what indexes are found at once.",
        ("attention_of_nothing_is_zeros", "group_norm_widens_statistics", "extremes_are_found_apart"),
    ),
    Change(
        "2.13", "Requests that the allocator rejects itself",
        "With `throw_on_cudamalloc_oom` the allocator rejects what exceeds its limit before it asks the driver, and "
        "`memory_stats` counts this as `num_oom_rejections`. 2.11 knows neither.",
        ("counts_rejections",),
    ),
]  # fmt: skip
"""By version, the newest first, and what weighs most first."""
