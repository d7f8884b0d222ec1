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


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (start.vectors, 48 * 4 * 512, "Right: 98,304 bytes"),
        (start.vectors, 48 * 770 * 2, "Each vector gets a block of its own."),
        (start.vectors, 48 * 3 * 512, "a vector has 1,540."),
        (start.vectors, 74_240, "That is one tensor with all the elements."),
        (start.vectors, 48 * 7 * 512, "That is float32"),
        (start.vectors, None, "No answer yet"),
        (start.block_bytes, block, "Right: your function agrees to the byte in all 10 settings."),
        (start.block_bytes, lambda n_bytes: n_bytes, "For n_bytes=4: not yet"),
        (start.block_bytes, rounded, "For n_bytes=154,533,888: not yet"),
        (start.block_bytes, rounded, "Is its remainder large enough to be split off?"),
        (start.block_bytes, lambda n_bytes: block(n_bytes, MiB + 512), "A remainder of more than 1 MiB is split off."),
        (start.block_bytes, lambda n_bytes: block(n_bytes, MiB - 512), "A remainder of exactly 1 MiB stays"),
        (start.block_bytes, whole_if_small, "In the small pool"),
        (start.block_bytes, segment, "In the small pool"),
        (start.block_bytes, whole_if_large, "That is the whole segment."),
        (start.block_bytes, lambda n_bytes: None, "no answer yet"),
        (
            start.one_deletion,
            "b",
            "Right: 'b' has only 4 MiB, but there is a hole on either side: 14 MiB in one piece.",
        ),
        (start.one_deletion, "e", "deleting 'e' frees 9.5 MiB, but the largest free block is then 9.5 MiB"),
        (start.one_deletion, "a", "the largest free block is then 11 MiB, and the request is for 12 MiB."),
        (start.one_deletion, 3, "the answer is the name of one tensor, one of a, b, c, d, e, f: got 3."),
        (start.one_deletion, ["b"], "the answer is the name of one tensor, one of a, b, c, d, e, f: got ['b']."),
        (start.one_deletion, None, "No answer yet"),
        (start.seen_from_outside, (560 + 40 + 20) * MiB, "Right: 650,117,120 bytes (620 MiB)."),
        (start.seen_from_outside, 45 * MiB, "whole segments, and the context."),
        (start.seen_from_outside, 60 * MiB, "The context is outside of it."),
        (start.seen_from_outside, (560 + 45) * MiB, "c keeps all 20 MiB of its own."),
        (start.seen_from_outside, (560 + 40) * MiB, "c is still there"),
        (start.seen_from_outside, (560 + 20) * MiB, "row is a view, and keeps all 40 MiB of a."),
        (start.seen_from_outside, (560 + 76) * MiB, "No block of d's segment is in use"),
        (start.seen_from_outside, (863 + 60) * MiB, "This one has the assumed 560 MiB."),
        (start.seen_from_outside, None, "No answer yet"),
    ],
)
def test_chapter_zero(exercise, answer, reply):
    assert reply in str(exercise(answer))


def test_the_crowded_gpu_has_no_room():
    with SimulatedGPU(SMALL_GPU) as gpu:
        _tensors = start.crowded(gpu)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(start.CROWDED_REQUEST, dtype=torch.uint8, device=gpu.device)
