"""Which free segments go back to the driver before it is asked for more: old ones, and oversize ones.

Expandable segments are left out of both.
Source: garbage_collect_cached_blocks and release_available_cached_blocks in c10/cuda/CUDACachingAllocator.cpp.
"""

from bisect import bisect_left

from .blocks import Block, BlockPool


def old_segments(pool: BlockPool, target_bytes: int) -> list[Block]:
    """What garbage collection gives back to free `target_bytes` or more.

    All that have not been taken for at least the mean of their ages go; if that is too little, so do those of the rest
    that have for the mean of what is left, and so on.
    """
    whole = pool.whole_segments()
    segments: list[Block] = []
    n_bytes = 0
    ages = {block: pool.age(block) for block in whole}
    while whole and n_bytes < target_bytes:
        mean = sum(ages[block] for block in whole) / len(whole)
        old = [block for block in whole if ages[block] >= mean]
        whole = [block for block in whole if ages[block] < mean]
        n_bytes += sum(block.size_bytes for block in old)
        segments += old
    return segments


def oversize_segments(pool: BlockPool, size_bytes: int, stream: int) -> tuple[list[Block], bool]:
    """What blocks of `max_split_size` and above a stream gives back for a request, and whether that may be enough.

    The smallest that holds the request, or else as many as do together, the largest first.
    Raises: RuntimeError for a part of a segment, which PyTorch would hand to the driver as if it were all of it: that
            ends with an invalid argument or, for the first part, takes the memory of the others, though in use.
    """
    segments, may_do = _oversize(pool, size_bytes, stream)
    for block in segments:
        if block.is_split:
            raise RuntimeError(
                f"max_split_size_mb was set after {block!r} had been cut from a larger one, and PyTorch takes a block "
                "of that size for a whole segment (CUDA error: invalid argument, or worse). Set it at the start."
            )
    return segments, may_do


def _oversize(pool: BlockPool, size_bytes: int, stream: int) -> tuple[list[Block], bool]:
    limit = pool.settings.max_split_bytes
    needed_bytes = max(size_bytes, limit)
    place = bisect_left(pool.free, (stream, needed_bytes))
    if place < len(pool.free) and pool.free[place][0] == stream and pool.free[place][-1].segment is None:
        return [pool.free[place][-1]], True
    segments: list[Block] = []
    n_bytes = 0
    for block_stream, block_bytes, _, block in reversed(pool.free[:place]):
        if n_bytes >= needed_bytes or block_bytes < limit or block_stream != stream:
            break
        if block.segment is None:
            n_bytes += block_bytes
            segments.append(block)
    return segments, n_bytes >= needed_bytes
