"""What a reader of chapter 6 is told about an answer."""

import pytest
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from utils.exercises import ranks
from utils.formulas.data_parallel import gathered_at_peak
from utils.formulas.settings import GPTSettings
from utils.models.gpt import letters

SBD = 4 * 2048 * 6144
SCORES = 5 * 64 * 2048**2 * 4
WHOLE = ["the input of norm2", "the input of up", "the mask of the dropout behind down"]


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (SBD * 16 + SCORES // 4, "Right: 2,147,483,648 bytes"),
        (SBD * 34 + SCORES, "That is one GPU's"),
        ((SBD * 34 + SCORES) // 4, "ten bytes of the stream stay whole"),
        (SBD * 16, "The scores are missing"),
        (SBD * 16 + SCORES, "a quarter of the heads"),
        (None, "No answer yet"),
    ],
)
def test_a_layer_by_hand(answer, reply):
    assert reply in ranks.layer_by_hand(answer).text


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (WHOLE, "Right: 3 of 7"),
        (tuple(reversed(WHOLE)), "Right: 3 of 7"),
        (WHOLE[:2], "Not yet: the mask of the dropout behind down stands whole, too"),
        ([*WHOLE, "q, k and v"], "Not yet: q, k and v belongs to a rank's own heads"),
        (["k"], "Not yet: 'k' is none of the input of norm2; "),
        ("q, k and v", "Not yet: a list of names, please"),
        (None, "No answer yet"),
    ],
)
def test_whole_or_divided(answer, reply):
    assert ranks.whole(answer).text.startswith(reply)


def right_states(N, n, stage):
    return 4 * N // (n if stage > 2 else 1) + 4 * N // (n if stage > 1 else 1) + 8 * N // (n if stage else 1)


@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (right_states, "Right: your function agrees to the byte in all 16 settings."),
        (lambda N, n, stage: right_states(N, n, max(0, stage - 1)), "Stage 1 divides something already"),
        (lambda N, n, stage: 16 * N // (n if stage else 1), "too few"),
        (lambda N, n, stage: 1 / 0, "your function raised ZeroDivisionError"),
        (3, "pass your function itself"),
    ],
)
def test_states(function, reply):
    assert reply in ranks.states(function).text


def most(R, B, L, reshard):
    return max(2 * R + 2 * B, R + (3 if reshard else L + 2) * B)


@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (most, "Right: your function agrees"),
        (lambda R, B, L, reshard: 2 * R + 2 * B, "That is the first block's moment"),
        (lambda R, B, L, reshard: R + (3 if reshard else L + 2) * B, "That is a later block's moment"),
        (lambda R, B, L, reshard: R + (1 if reshard else L) * B, "a second copy, of the root and of a block"),
    ],
)
def test_the_most_that_is_gathered(function, reply):
    assert reply in ranks.gathered(function).text


@pytest.mark.parametrize("reshard", [None, False])
@pytest.mark.parametrize("name", ["gpt2", "gpt2-xl"])
def test_the_most_that_is_gathered_is_the_books(name, reshard):
    found = letters(name)
    R = 4 * (found["d"] * (found["V"] + 1024) + found["d"])
    B = 4 * (12 * found["d"] ** 2 + 2 * found["d"])
    sizes = found | {"b": 1, "s": 1024, "n": 8}
    _, n_bytes = gathered_at_peak(GPTSettings(), reshard_after_forward=reshard, **sizes)
    assert n_bytes == most(R, B, found["L"], reshard is None)


def plan(up, down):
    return lambda: {"up": up, "down": down}


@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (plan(ColwiseParallel(), RowwiseParallel()), "Right: a rank keeps 196,608 bytes"),
        (
            plan(ColwiseParallel(output_layouts=Replicate()), RowwiseParallel(input_layouts=Replicate())),
            "can do with 196,608 bytes",
        ),
        (plan(ColwiseParallel(), RowwiseParallel(output_layouts=Shard(1))), "the result must be y[2, 64, 128]"),
        (plan(ColwiseParallel(), ColwiseParallel()), "your plan raised "),
        (dict, "a rank keeps "),
        (lambda: None, "your plan raised TypeError"),
        (None, "pass your function itself"),
    ],
)
def test_a_plan(function, reply):
    assert reply in ranks.plan(function).text
