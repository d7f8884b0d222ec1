"""How much scratch memory CUB's device-wide algorithms ask for: sorting, selecting unique keys, running sums.

CUB cuts its input into tiles, whose size it has tuned for each architecture and size of key, and keeps for each tile
the state by which its neighbours learn of its result. All pieces of scratch are aligned to 256 bytes.

Source: cub/device/dispatch of CUDA 13 (dispatch_radix_sort, dispatch_unique_by_key, dispatch_scan …) for what is asked;
the tiles (memory/rules.py) were read off the CUDA build, over sizes up to 140,000,000. Held to it by
tests/gpu/operators/test_takes.py.
"""

from every_byte.gpu.memory.rules import of_architecture
from every_byte.gpu.memory.specs import GPUSpec

from .units import div_up, round_up

ALIGNMENT = 256
DIGITS = 256
TILES_AHEAD = 32
COUNTED_IN_ONE_TILE = 4096
COUNTING_THREADS = 256
SUBSCRIPTIONS = 5
DIGITS_OF_NARROW_KEYS = {1: 128, 2: 256}
COUNTED_AHEAD = 11_264
VALUE_BYTES = 8
MERGED_IN_ONE_TILE = 2048


def _aligned(*sizes: int) -> int:
    return ALIGNMENT - 1 + sum(round_up(size, ALIGNMENT) for size in sizes)


def sort_pairs(n: int, item_bytes: int, bits: int, spec: GPUSpec) -> int:
    """Scratch of a radix sort of n keys by so many bits, each with a value of the same size.

    Counts: 1 byte where one tile holds everything. Else a histogram per pass over 8 bits, the tiles' states, a
        counter per pass, and from two passes on a second copy of keys and values.
    """
    if n <= spec.rules.sort_in_one_tile[item_bytes]:
        return 1
    passes = div_up(max(bits, 1), 8)
    copies = (n * item_bytes,) * 2 if passes > 1 else ()
    tiles = div_up(n, of_architecture(spec.rules.sort_tiles, spec.capability)[item_bytes])
    return _aligned(passes * DIGITS * 8, tiles * DIGITS * 4, *copies, passes * 4)


def sort_row(n: int, key_bytes: int, spec: GPUSpec) -> int:
    """Scratch of a radix sort of n keys by all their bits, each with a value of 8 bytes; no tile holds them all.

    Counts: a histogram per pass, the tiles' states, a counter per pass, and from two passes on a second copy of all.
        Up to Ada keys of 1 and 2 bytes are sorted in two passes that count first: a count of each digit for each
        thread block, of which there are five times as many as run at once, and copies.
    """
    copies = n * key_bytes, n * VALUE_BYTES
    tile = of_architecture(spec.rules.row_sort_tiles, spec.capability).get(key_bytes)
    if tile is None:
        blocks = spec.multiprocessors * (spec.threads_per_multiprocessor // COUNTING_THREADS) * SUBSCRIPTIONS
        return _aligned((blocks * DIGITS_OF_NARROW_KEYS[key_bytes] + COUNTED_AHEAD) * 4, *copies)
    return _one_sweep(n, key_bytes, tile, *(copies if key_bytes > 1 else ()))


def sort_by_bits(n: int, key_bytes: int, bits: int, spec: GPUSpec) -> int:
    """Scratch of a radix sort of n keys of 4 or 8 bytes by so many bits, each with a value of 8 bytes."""
    if n <= spec.rules.sort_in_one_tile[VALUE_BYTES]:
        return 1
    tile = of_architecture(spec.rules.row_sort_tiles, spec.capability)[key_bytes]
    return _one_sweep(n, div_up(bits, 8), tile, n * key_bytes, n * VALUE_BYTES)


def sort_by_segment(n: int, spec: GPUSpec) -> int:
    """Scratch of a radix sort of n keys of 8 bytes, without values, by a number below 256: one pass."""
    return _one_sweep(n, 1, of_architecture(spec.rules.key_sort_tiles, spec.capability))


def _one_sweep(n: int, passes: int, tile: int, *copies: int) -> int:
    return _aligned(passes * DIGITS * 8, div_up(n, tile) * DIGITS * 4, *copies, passes * 4)


def merge_sort_pairs(n: int, item_bytes: int) -> int:
    """Scratch of a sort by merging of n keys, each with a value of the same size: where tiles meet, and a second copy.

    Source: cub/device/dispatch/dispatch_merge_sort.cuh; the tile was read off the CUDA build.
    """
    return _aligned((1 + div_up(n, MERGED_IN_ONE_TILE)) * 4, n * item_bytes, n * item_bytes)


def sort_segments(n: int, key_bytes: int) -> int:
    """Scratch of a sort of many rows at once, of n keys in all, each with a value of 8 bytes: a second copy."""
    return _aligned(n * key_bytes, n * VALUE_BYTES)


def unique_by_key(n: int, key_bytes: int, spec: GPUSpec) -> int:
    """Scratch of a selection of the first of each run of equal keys."""
    tiles = div_up(n, of_architecture(spec.rules.unique_tiles, spec.capability)[key_bytes])
    return _aligned((tiles + TILES_AHEAD) * 16, 1)


def first_of_equal(n: int, key_bytes: int, spec: GPUSpec) -> int:
    """The same by thrust, which takes tiles twice as large, and beside them how many were selected."""
    tiles = div_up(n, 2 * of_architecture(spec.rules.unique_tiles, spec.capability)[key_bytes])
    return _aligned((tiles + TILES_AHEAD) * 16, 1, 1)


def count(n: int, spec: GPUSpec) -> int:
    """Scratch of a sum of n items in 32 bits: a sum for each thread block, five times as many as run at once.

    Counts: for items of up to 8 bytes, whose kernels take 32 registers or fewer: threads alone limit how many blocks
        run at once.
    Source: cub/device/dispatch/dispatch_reduce.cuh; cuobjdump --dump-resource-usage of the CUDA build.
    """
    if n <= COUNTED_IN_ONE_TILE:
        return 1
    blocks = spec.multiprocessors * (spec.threads_per_multiprocessor // COUNTING_THREADS) * SUBSCRIPTIONS
    return _aligned(blocks * 4)


def select_flagged(n: int, spec: GPUSpec) -> int:
    """Scratch of a selection of 64-bit positions by a flag each."""
    tiles = div_up(n, of_architecture(spec.rules.select_tiles, spec.capability))
    return _aligned((tiles + TILES_AHEAD) * 8, 1)


def running_sum(n: int, item_bytes: int, spec: GPUSpec, *, in_words: bool = True) -> int:
    """Scratch of a running sum, with or without each item itself: alike on all GPUs.

    Counts: for each tile its state and its sum: one word of 4 bytes at least, or three arrays, where the type is none
        that C++ has by itself.
    """
    item_bytes = max(item_bytes, 2)
    tiles = div_up(n, spec.rules.scan_tiles[item_bytes]) + TILES_AHEAD
    return _aligned(tiles * 2 * item_bytes, 1) if in_words else _aligned(tiles * 4, *(tiles * item_bytes,) * 2, 1)


def running_sum_by_key(n: int, key_bytes: int, spec: GPUSpec) -> int:
    """Scratch of a running sum that begins anew with each key, of values as large as the keys.

    Counts: for each tile a word with its state and its sum, and the key before it.
    Source: cub/device/dispatch/dispatch_scan_by_key.cuh and tuning/tuning_scan_by_key.cuh of CUDA 13.0.
    """
    tiles = div_up(n, of_architecture(spec.rules.by_key_tiles, spec.capability)[key_bytes])
    return _aligned((tiles + TILES_AHEAD) * 16, (tiles + 1) * key_bytes)
