"""What the judges of chapter 6 reply to an answer."""

from dataclasses import replace

import nbformat
import pytest
import torch
from places import CHAPTERS
from torch import nn
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from utils.exercises import ranks

WHOLE = ["the input of norm2", "the input of up", "the mask of the dropout after down"]
PADDING = 4 * 768 * (8 * 6283 - 50_257)


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (2 * PADDING, "Right: 43,008 bytes"),
        (0, "more rows than the table"),
        (PADDING, "That is the padding of the weights"),
        (4 * PADDING, "the last rank owns fewer"),
        (3 * PADDING, "Adam has two averages"),
        (None, "No answer yet"),
    ],
)
def test_padding(answer, reply):
    assert reply in ranks.padding(answer).text


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (WHOLE, "Right: 3 of 7"),
        (tuple(reversed(WHOLE)), "Right: 3 of 7"),
        (WHOLE[:2], "Not yet: one whole tensor is missing"),
        (WHOLE[:1], "Not yet: 2 whole tensors are missing"),
        ([*WHOLE[1:], "q, k and v"], "Not yet: q, k and v is divided: it belongs to a rank's own heads"),
        (["k"], "Not yet: 'k' is none of the input of norm2; "),
        ("q, k and v", "Not yet: the answer is a list of names: got 'q, k and v'"),
        (None, "No answer yet"),
    ],
)
def test_whole_or_divided(answer, reply):
    assert ranks.whole(answer).text.startswith(reply)


def plan(up, down):
    return lambda: {"up": up, "down": down}


@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (plan(ColwiseParallel(), RowwiseParallel()), "Right: a rank keeps 196,608 bytes"),
        (
            plan(ColwiseParallel(output_layouts=Replicate()), RowwiseParallel(input_layouts=Replicate())),
            "196,608 bytes (192 KiB) would be enough",
        ),
        (plan(ColwiseParallel(), RowwiseParallel(output_layouts=Shard(1))), "the result must be y[2, 64, 128]"),
        (plan(ColwiseParallel(), ColwiseParallel()), "your plan raised "),
        (dict, "a rank keeps "),
        (lambda: None, "your plan raised TypeError"),
        (None, "No answer yet"),
        (3, "pass your function itself: got 3"),
    ],
)
def test_a_plan(function, reply):
    assert reply in ranks.plan(function).text


def replaced(parameters):
    for parameter in parameters:
        parameter.grad = parameter.grad.clamp(-1, 1)


def copied(parameters):
    for parameter in parameters:
        parameter.grad.copy_(parameter.grad.clamp(-1, 1))


def in_place(parameters):
    for parameter in parameters:
        parameter.grad.clamp_(-1, 1)


def dropped(parameters):
    for parameter in parameters:
        parameter.grad = None


@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (in_place, "Right: the gradients are clipped in place"),
        (lambda parameters: nn.utils.clip_grad_value_(parameters, 1.0), "Right: "),
        (replaced, "Not yet: 4,198,400 bytes (4 MiB) more are still held afterwards"),
        (copied, "Not yet: nothing more is held afterwards, but 4,194,304 bytes (4 MiB) are for a moment"),
        (dropped, "Not yet: a gradient is gone"),
        (list, "Not yet: a gradient still reaches "),
        (lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0), "or others of its numbers have changed"),
        (lambda parameters: 1 / 0, "your function raised ZeroDivisionError"),
        (None, "No answer yet"),
        (3, "pass your function itself: got 3"),
    ],
)
def test_clipping(function, reply):
    torch.manual_seed(1)
    assert reply in ranks.clipped(function).text


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (2 * 50_304 * 768, "Right: 77,266,944 bytes"),
        (2 * (12 * 12 * 768**2 + 50_304 * 768), "That many exist without checkpoints"),
        (2 * 50_304 * 768 // 8, "which is whole on each rank"),
        (4 * 50_304 * 768, "in half precision"),
        (2 * 12 * 12 * 768**2, "the copies that the checkpoints drop"),
        (0, "One of the products is in no block"),
        (None, "No answer yet"),
    ],
)
def test_copies_of_a_model_of_checkpoints(answer, reply):
    assert reply in ranks.copies(answer).text


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("changed", "reply"),
    [
        ({}, "Not yet: 2,407,333,888 bytes (2.24 GiB) short"),
        ({"stage": "3"}, "more than in the step you were given"),
        ({"sequence": "on"}, "more than in the best step we know"),
        ({"b": 2, "t": 8, "sequence": "on, gathered again", "stage": "none"}, "we know no step that needs less"),
        ({"t": 8}, "there are 8 GPUs, and t times the number of groups makes 16"),
        ({"t": 8, "stage": "none"}, "a step must have 2 sequences, b in each group: yours has 1"),
        ({"recompute": "full"}, "recompute must stay 'none': got 'full'"),
        ({"s": 1024}, "s must stay 40960"),
        ({"stage": "2"}, "your step raised ValueError: PyTorch has no engine"),
    ],
)
def test_a_step_that_has_to_fit(changed, reply):
    assert reply in ranks.fits(replace(ranks.CROWDED, **changed)).text


def test_a_step_is_asked_for():
    assert ranks.fits(None).text == "Not yet: pass a MeshStep: got None."


def test_the_chapter_hands_over_the_same_step():
    [cell] = (
        cell
        for cell in nbformat.read(next(CHAPTERS.glob("06_*.ipynb")), as_version=4).cells
        if cell.id == "exercise-fits"
    )
    names = {}
    exec(cell.source.replace("exercises.fits(step)", ""), names)
    assert names["step"] == ranks.CROWDED
