"""How PyTorch's releases changed its use of memory: a title, a text, the rule that follows it, and its sources."""

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
        "Before, each thread kept the workspace of its first product for good, which is 8.1 MiB, or 32 MiB on Hopper. "
        "Now each product takes a workspace and returns it. `TORCH_CUBLAS_WORKSPACE_CACHE=1` restores the old "
        "behaviour. The program multiplies a 4 MiB matrix by itself.",
        ("keeps_workspaces",), "release_product.h100", (("pull", 194311),),
    ),
    Change(
        "2.15", "`nn.Linear` with a bias works in 1 MiB",
        "A product with a bias goes to cuBLASLt, which now works in 1 MiB instead of cuBLAS's workspace. In half "
        "precision, so does a product that is added to a matrix. The program is one linear layer.",
        ("lt_adds_matrices",), "release_linear.h100",
    ),
    Change(
        "2.15", "`clip_grad_norm_` keeps one sum per chunk",
        "To clip gradients, PyTorch sums squares in chunks of 65,536 numbers. It used to keep as many sums for every "
        "gradient as the longest gradient needs. Now each gradient has only as many as it needs itself.",
        ("norms_by_chunk",), "release_clipping.a100", (("pull", 190549),),
    ),
    Change(
        "2.15", "`group_norm` in channels-last",
        "In channels-last images, a pixel's channels are next to each other. Group norm no longer copies such images "
        "into another order, and its result and gradient keep the order.",
        ("group_norm_keeps_layout",), "release_group_norm.a100", (("pull", 191945),),
    ),
    Change(
        "2.15", "Attention of more than 65,535 batches or heads",
        "A kernel's grid has at most 65,535 blocks in its second and third dimension. Flash attention no longer takes "
        "inputs with more batches or heads; memory-efficient attention does.",
        ("flash_fits_a_grid",), "release_many_heads.a100",
    ),
    Change(
        "2.15", "`multinomial` with replacement",
        "`multinomial` sums its probabilities in place, which saves a tensor of their size.",
        ("multinomial_sums_in_place",), "release_draws.a100", (("issues", 192594),),
    ),
    Change(
        "2.15", "`x[positions] = 1.0`",
        "`x[positions] = 1.0` fills the positions without making a tensor for the number. With a single position on "
        "the GPU, the CPU does not wait for it.",
        ("numbers_are_written_unread",), "release_written_numbers.a100", (("pull", 195787), ("pull", 188330)),
    ),
    Change(
        "2.15", "`fmax` and `fmin` check for NaN",
        "The gradients of `fmax` and `fmin` check each number for NaN. Meanwhile they hold one more mask, with one "
        "byte per number.",
        (), "release_limits.a100",
    ),
    Change(
        "2.15", "`repeat_interleave` makes no mask",
        "`repeat_interleave` no longer makes a mask with one byte per repeat.",
        ("repeats_have_a_least",),
    ),
    Change(
        "2.15", "cuDNN's attention of one query on Blackwell, again",
        "cuDNN's attention on Blackwell takes inputs with a single query again, which it did not in 2.14.",
        ("cudnn_leaves_one_query",),
    ),
    Change(
        "2.14", "Grouped-query attention in float32, and on older cards",
        "Memory-efficient attention now accepts fewer heads of key and value than of query. Where flash attention is "
        "not available, in float32 or on a T4, PyTorch used plain attention before, with all scores in memory.",
        ("efficient_repeats_heads",), "release_fewer_heads.t4", (("pull", 191085),),
    ),
    Change(
        "2.14", "One head of key and value, without being asked",
        "In the fused kernels, one head of key and value serves all heads of query, even without `enable_gqa`.",
        ("one_head_serves_all",), "release_one_head.a100", (("pull", 191085),),
    ),
    Change(
        "2.14", "Attention without a batch",
        "Query, key and value with three dimensions get a batch of one, so a fused kernel can take them.",
        ("attention_adds_batch",), "release_three_dimensions.a100", (("pull", 192271),),
    ),
    Change(
        "2.14", "cuDNN's attention: wide heads on Hopper and Blackwell",
        "For head dimensions above 128, cuDNN's attention trains only 192 with 128, and 256. Before, on Hopper, it "
        "trained any dimension up to 256. Flash attention takes the others. With as few heads as here, it splits the "
        "keys into parts and holds each part's result. The figures do not include cuDNN's own memory.",
        ("cudnn_trains_two_wide_dimensions",), "release_wide_heads.h100",
    ),
    Change(
        "2.14", "`group_norm` frees its copy",
        "If an input does not have the layout that group norm needs, group norm copies it, as before. It no longer "
        "keeps the copy for backward, which makes its own.",
        ("group_norm_copies_last",), "release_group_norm.h100",
    ),
    Change(
        "2.14", "`fmax`, `fmin` and `clamp`: equal numbers share a gradient",
        "If the two numbers of `fmax` or `fmin` are equal, or a number equals a limit of `clamp`, each gets half "
        "of the gradient, as with `maximum`. This takes a few more temporary tensors.",
        ("limits_share_gradients",), "release_limits.a100", (("pull", 191142),),
    ),
    Change(
        "2.14", "Attention's seed and offset on the GPU",
        "Memory-efficient attention keeps two numbers for backward, even without dropout: the seed and offset at which "
        "dropout's random numbers began. They are now on the GPU, in two blocks of 512 bytes per attention.",
        ("seeds_are_on_gpu",), "release_seeds.a100",
    ),
    Change(
        "2.14", "cuDNN's attention of one query on Blackwell",
        "cuDNN's attention on Blackwell no longer takes inputs with a single query.",
        ("cudnn_leaves_one_query",),
    ),
    Change(
        "2.13", "Attention of slices that begin in the middle",
        "On Ampere and newer cards, memory-efficient attention takes only tensors that begin at a multiple of 16 bytes "
        "in their storage. For a slice that begins elsewhere, PyTorch uses plain attention, with all scores in "
        "memory. If you copy the slice first, it does not.",
        ("efficient_wants_aligned_starts",), "release_starts.a100",
    ),
    Change(
        "2.13", "cuBLASLt works in cuBLAS's workspace",
        "Before, cuBLASLt had 1 MiB of its own in addition. `TORCH_CUBLASLT_UNIFIED_WORKSPACE=1` used to request what "
        "is now the default, and `=0` restores the old behaviour.",
        ("lt_works_in_cublass",), "release_linear.a100", (("pull", 168175), ("pull", 175879)),
    ),
    Change(
        "2.13", "cuDNN's attention: dropout in sixteenths",
        "cuDNN's attention takes only dropout probabilities that are multiples of 1/16. Flash attention takes the "
        "others.",
        ("cudnn_drops_by_sixteenths",), "release_dropout.h100", (("pull", 174245),),
    ),
    Change(
        "2.13", "cuDNN's attention of more than 65,535 batches or heads",
        "cuDNN's attention no longer takes inputs with more than 65,535 batches or heads. Flash attention does.",
        ("cudnn_fits_a_grid",), "release_many_heads.h100", (("pull", 180718),),
    ),
    Change(
        "2.13", "Embeddings: indices are sorted by the bits they have",
        "The gradient of an embedding sorts its indices only by as many bits as the largest one has, instead of all "
        "64. On A100, Hopper and Blackwell, CUB finds the unique indices in tiles of another size.",
        ("rows_sort_by_all_bits", "unique_tiles"), "release_sorted_indices.a100",
    ),
    Change(
        "2.13", "`MultiheadAttention` in evaluation: heads of any width",
        "In evaluation without gradients, `nn.MultiheadAttention` and encoder layers run as one operator. It used a "
        "fused kernel only if the head dimension was a multiple of 8. Now it uses one wherever one exists.",
        ("encoder_attention_wants_eighths",), "release_evaluation.a100", (("pull", 176559),),
    ),
    Change(
        "2.13", "`bmm` of outer products has a kernel of its own",
        "A batched product with one term per sum no longer goes to cuBLAS, so it makes no copies for cuBLAS.",
        ("outer_products_have_a_kernel",),
    ),
    Change(
        "2.13", "The workspace of cuBLAS on Blackwell",
        "On Blackwell the workspace was 8.1 MiB. It is now 32 MiB, as on Hopper.",
        ("cublas_workspace_bytes",), threads=(("pull", 175344),),
    ),
    Change(
        "2.13", "Attention of nothing, statistics and extremes",
        "Attention on empty tensors returns zeros and runs no kernel. Group norm in half precision first makes its "
        "statistics in float32. A single pass finds the minimum and maximum of `multinomial`'s probabilities, of "
        "`histc`'s numbers and of indices.",
        ("attention_of_nothing_is_zeros", "group_norm_widens_statistics", "extremes_are_found_apart"),
    ),
    Change(
        "2.13", "Requests that the allocator rejects itself",
        "With `throw_on_cudamalloc_oom`, the allocator rejects a request that exceeds its limit before it asks the "
        "driver, and `memory_stats` counts this as `num_oom_rejections`. 2.11 has neither.",
        ("counts_rejections",),
    ),
]  # fmt: skip
"""By version, the newest first, and what weighs most first."""
