"""What a reader of chapter 0b is told about an answer."""

import pytest
import torch

from every_byte.units import MiB
from utils.exercises import holding


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


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (holding.passes, None, "No answer yet"),
        (holding.passes, 11, "the answer is a string, as PYTORCH_ALLOC_CONF would have it: got 11."),
        (holding.passes, "", "Not yet: out of memory at request 17 of 52, with 359,922,688 bytes (343 MiB) free."),
        (holding.passes, "expandable:True", "PyTorch refuses these settings: Unrecognized key 'expandable'"),
        (holding.passes, "expandable_segments:True,large_segment_size_mb:11", "got 11; the driver maps multiples of 2"),
        (holding.passes, "expandable_segments:True", "(205 MiB) free. Freed blocks fit again where sizes repeat."),
        (holding.passes, "max_split_size_mb:64", "called 31 times, and 20 calls are allowed. Which setting needs the"),
        (holding.passes, "expandable_segments:True,roundup_power2_divisions:4", "Right: all 52 requests pass, and the"),
        (holding.passes, "expandable_segments:True,roundup_power2_divisions:8", "is called 13 times. 1,071,644,672"),
        (holding.what_holds, ["first", "losses"], "Right: 33,554,432 bytes (32 MiB) come back"),
        (holding.what_holds, "losses", "with losses deleted, the 33,554,432 bytes are still allocated"),
        (holding.what_holds, [], "with nothing deleted, the"),
        (holding.what_holds, ["first", "losses", "mean"], "but they would without deleting mean too."),
        (holding.what_holds, ["hidden"], "no name hidden: it has few, first, losses, mean, shape, weight, x."),
        (holding.what_holds, 7, "the answer is a list of names: got 7."),
        (holding.what_holds, ["losses", None], "the answer is a list of names: got ['losses', None]."),
        (holding.what_holds, [["first", "losses"]], "the answer is a list of names: got [['first', 'losses']]."),
        (holding.what_holds, ["first", "losses", "first"], "Right: 33,554,432 bytes"),
        (holding.what_holds, None, "No answer yet"),
        (
            holding.fixed_loop,
            loop(grad=False),
            "Right: the peak is 134,218,240 bytes (128 MiB), with 2 batches or with",
        ),
        (holding.fixed_loop, loop(), "What does the running sum refer to?"),
        (holding.fixed_loop, loop(lambda mean: mean.detach()), "the peak no longer grows, but it is 150,998,528 bytes"),
        (holding.fixed_loop, loop(grad=False, skip=1), "it was called 4 times for 5 batches."),
        (holding.fixed_loop, named_output, "In its second iteration the loop has a name left from the first."),
        (
            holding.fixed_loop,
            lambda model, batches: loop(grad=False)(model, [x[:1] for x in batches]),
            "each batch once, and all of it",
        ),
        (
            holding.fixed_loop,
            lambda model, batches: 2 * loop(grad=False)(model, batches),
            "but the mean of the means is",
        ),
        (holding.fixed_loop, lambda model, batches: model.mean(), "your function raised AttributeError"),
        (holding.fixed_loop, lambda model, batches: None, "No answer yet"),
    ],
)
def test_chapter_zero_b(exercise, answer, reply):
    assert reply in str(exercise(answer))


BLOCKS, SEGMENTS, WORKSPACE = 14 * MiB + 921_600 + 2_359_296 + 30_720 + 8_519_680, 36 * MiB, 8_519_680


@pytest.mark.parametrize(
    ("allocated", "reserved", "reply"),
    [
        (BLOCKS, SEGMENTS, "Right: 26,511,360 bytes (25.3 MiB) in blocks, 37,748,736 bytes (36 MiB) in segments."),
        (BLOCKS - WORKSPACE, SEGMENTS, "Not yet: allocated: 17,991,680 bytes (17.2 MiB) is too few, about 0.68 times"),
        (BLOCKS - WORKSPACE, SEGMENTS, "The first product of a thread takes a workspace"),
        (BLOCKS + WORKSPACE, SEGMENTS, "this program has no backward."),
        (BLOCKS - MiB, SEGMENTS, "leave exactly 1 MiB of their segment"),
        (BLOCKS - MiB - WORKSPACE, SEGMENTS, "Two things are missing"),
        (BLOCKS - 14 * MiB, SEGMENTS, "row is a view of the table"),
        (BLOCKS - 13 * MiB, SEGMENTS, "not 1 MiB of it."),
        (BLOCKS + 921_600, SEGMENTS, "y is gone"),
        (BLOCKS - 30_720, SEGMENTS, "few is a clone, with a storage of its own."),
        (BLOCKS, 34 * MiB, "Not yet: reserved: 35,651,584 bytes (34 MiB) is too few, though close: within a tenth."),
        (BLOCKS, 34 * MiB, "segments of the small pool."),
        (BLOCKS, 38 * MiB, "fit into one segment of 2 MiB."),
        (BLOCKS, 22 * MiB, "a view keeps it in use."),
        (BLOCKS, 56 * MiB, "fit into one segment of 20 MiB."),
        (BLOCKS, 16 * MiB, "below 10, so their segment has 20 MiB."),
        (BLOCKS, BLOCKS, "Reserved counts whole segments."),
        (BLOCKS - MiB, 34 * MiB, " And reserved: "),
        (BLOCKS, None, "No answer yet"),
        (None, SEGMENTS, "No answer yet"),
    ],
)
def test_both_counters_of_chapter_zero_b(allocated, reserved, reply):
    assert reply in str(holding.both_counters(allocated, reserved))
