"""What a reader of chapter 0 is told about an answer."""

import pytest
import torch

from every_byte.units import MiB
from utils import SimulatedGPU
from utils.exercises import start
from utils.experiments.first_programs import SMALL_GPU


def block(n_bytes, largest_slack_bytes=MiB):
    rounded = -(-n_bytes // 512) * 512
    segment = -(-rounded // (2 * MiB)) * 2 * MiB
    return segment if rounded >= 10 * MiB and segment - rounded <= largest_slack_bytes else rounded


def segment(n_bytes):
    if n_bytes <= MiB:
        return 2 * MiB
    return 20 * MiB if n_bytes < 10 * MiB else -(-n_bytes // (2 * MiB)) * 2 * MiB


def whole_if_small(n_bytes):
    return segment(n_bytes) if n_bytes <= MiB else block(n_bytes)


def whole_if_large(n_bytes):
    return segment(n_bytes) if n_bytes > MiB else block(n_bytes)


def rounded(n_bytes):
    return -(-n_bytes // 512) * 512


def loop(wrap=lambda mean: mean, grad=True, skip=0):
    def mean_output(model, batches):
        total = 0
        with torch.set_grad_enabled(grad):
            for x in batches[skip:]:
                total = total + wrap(model(x).mean())
        return total / len(batches)

    return mean_output


@torch.no_grad()
def named_output(model, batches):
    total = 0
    for x in batches:
        y = model(x)
        total = total + y.mean()
    return total / len(batches)


@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (start.vectors, 48 * 4 * 512, "Right: 98,304 bytes"),
        (start.vectors, 48 * 770 * 2, "each vector has a block of its own."),
        (start.vectors, 48 * 3 * 512, "a vector has 1,540."),
        (start.vectors, 74_240, "That is one tensor of that many elements"),
        (start.vectors, 48 * 7 * 512, "That is float32"),
        (start.vectors, None, "No answer yet"),
        (start.block_bytes, block, "Right: your function agrees to the byte in all 10 settings."),
        (start.block_bytes, lambda n_bytes: n_bytes, "For n_bytes=4: not yet"),
        (start.block_bytes, rounded, "For n_bytes=154,533,888: not yet"),
        (start.block_bytes, rounded, "is the rest worth a block of its own?"),
        (start.block_bytes, lambda n_bytes: block(n_bytes, MiB + 512), "A rest of more than 1 MiB is"),
        (start.block_bytes, lambda n_bytes: block(n_bytes, MiB - 512), "A rest of exactly 1 MiB stays."),
        (start.block_bytes, whole_if_small, "In the small pool"),
        (start.block_bytes, segment, "In the small pool"),
        (start.block_bytes, whole_if_large, "the segment, whole"),
        (start.block_bytes, lambda n_bytes: None, "no answer yet"),
        (start.passes, None, "No answer yet"),
        (start.passes, 11, "the answer is a text, as it would stand in PYTORCH_ALLOC_CONF: got 11."),
        (start.passes, "", "Not yet: out of memory at request 17 of 52, with 359,922,688 bytes (343 MiB) free."),
        (start.passes, "expandable:True", "the text is refused: Unrecognized key 'expandable'"),
        (start.passes, "expandable_segments:True,large_segment_size_mb:11", "got 11; the driver maps multiples of 2"),
        (start.passes, "expandable_segments:True", "(205 MiB) free. Freed blocks fit where sizes repeat: which"),
        (start.passes, "max_split_size_mb:64", "the driver is called 31 times; 20 are allowed. Which setting calls"),
        (start.passes, "expandable_segments:True,roundup_power2_divisions:4", "Right: all 52 requests pass, and the"),
        (start.passes, "expandable_segments:True,roundup_power2_divisions:8", "is called 13 times. 1,071,644,672"),
        (start.one_deletion, "b", "Right: 'b' has only 4 MiB, and lies between two holes: 14 MiB in one piece."),
        (start.one_deletion, "e", "9.5 MiB come back with 'e', but the largest free block is then 9.5 MiB"),
        (start.one_deletion, "a", "the largest free block is then 11 MiB, and 12 MiB are asked for."),
        (start.one_deletion, 3, "the answer is the name of one tensor, one of a, b, c, d, e, f: got 3."),
        (start.one_deletion, ["b"], "the answer is the name of one tensor, one of a, b, c, d, e, f: got ['b']."),
        (start.one_deletion, None, "No answer yet"),
        (start.what_holds, ["first", "losses"], "Right: 33,554,432 bytes (32 MiB) come back"),
        (start.what_holds, "losses", "without losses the 33,554,432 bytes are still there"),
        (start.what_holds, [], "without deleting any the"),
        (start.what_holds, ["first", "losses", "mean"], "but they would without deleting mean too."),
        (start.what_holds, ["hidden"], "no name hidden: it has few, first, losses, mean, shape, weight, x."),
        (start.what_holds, 7, "the answer is a list of names: got 7."),
        (start.what_holds, ["losses", None], "the answer is a list of names: got ['losses', None]."),
        (start.what_holds, [["first", "losses"]], "the answer is a list of names: got [['first', 'losses']]."),
        (start.what_holds, ["first", "losses", "first"], "Right: 33,554,432 bytes"),
        (start.what_holds, None, "No answer yet"),
        (start.mended_loop, loop(grad=False), "Right: the peak is 134,218,240 bytes (128 MiB), with 2 batches or 8."),
        (start.mended_loop, loop(), "what does the sum of the means refer to?"),
        (start.mended_loop, loop(lambda mean: mean.detach()), "the peak no longer grows, but it is 150,998,528 bytes"),
        (start.mended_loop, loop(grad=False, skip=1), "it was called 4 times for 5 batches."),
        (start.mended_loop, named_output, "At its second turn the loop still has a name of the first"),
        (
            start.mended_loop,
            lambda model, batches: loop(grad=False)(model, [x[:1] for x in batches]),
            "each batch once, whole",
        ),
        (
            start.mended_loop,
            lambda model, batches: 2 * loop(grad=False)(model, batches),
            "where the mean of the means is",
        ),
        (start.mended_loop, lambda model, batches: model.mean(), "your function raised AttributeError"),
        (start.mended_loop, lambda model, batches: None, "No answer yet"),
    ],
)
def test_chapter_zero(exercise, answer, reply):
    assert reply in str(exercise(answer))


BLOCKS, SEGMENTS, WORKSPACE = 14 * MiB + 921_600 + 2_359_296 + 30_720 + 8_519_680, 36 * MiB, 8_519_680


@pytest.mark.parametrize(
    ("allocated", "reserved", "reply"),
    [
        (BLOCKS, SEGMENTS, "Right: 26,511,360 bytes (25.3 MiB) in blocks, 37,748,736 bytes (36 MiB) in segments."),
        (BLOCKS - WORKSPACE, SEGMENTS, "Not yet: allocated: 17,991,680 bytes (17.2 MiB) is 8,519,680 bytes"),
        (BLOCKS - WORKSPACE, SEGMENTS, "The first product of a thread takes a workspace"),
        (BLOCKS + WORKSPACE, SEGMENTS, "here is no backward."),
        (BLOCKS - MiB, SEGMENTS, "a rest of exactly 1 MiB"),
        (BLOCKS - MiB - WORKSPACE, SEGMENTS, "Two things are missing"),
        (BLOCKS - 14 * MiB, SEGMENTS, "row is a view of the table"),
        (BLOCKS - 13 * MiB, SEGMENTS, "not 1 MiB of it."),
        (BLOCKS + 921_600, SEGMENTS, "y is gone"),
        (BLOCKS - 30_720, SEGMENTS, "few is a clone, with a storage of its own."),
        (BLOCKS, 34 * MiB, "Not yet: reserved: 35,651,584 bytes (34 MiB) is 2,097,152 bytes (2 MiB) too few"),
        (BLOCKS, 34 * MiB, "segments of the small pool."),
        (BLOCKS, 38 * MiB, "fit into one segment of 2 MiB."),
        (BLOCKS, 22 * MiB, "a view keeps it in use."),
        (BLOCKS, 56 * MiB, "fit into one segment of 20 MiB."),
        (BLOCKS, 16 * MiB, "below 10: they lie in a segment of 20 MiB."),
        (BLOCKS, BLOCKS, "reserved counts segments, whole."),
        (BLOCKS - MiB, 34 * MiB, " And reserved: "),
        (BLOCKS, None, "No answer yet"),
        (None, SEGMENTS, "No answer yet"),
    ],
)
def test_both_counters_of_chapter_zero(allocated, reserved, reply):
    assert reply in str(start.both_counters(allocated, reserved))


def test_the_crowded_gpu_of_chapter_zero_has_no_room():
    with SimulatedGPU(SMALL_GPU) as gpu:
        _tensors = start.crowded(gpu)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(start.CROWDED_REQUEST, dtype=torch.uint8, device=gpu.device)
