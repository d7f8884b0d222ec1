"""What the judges of chapter 8 reply to answers about a reader's own model."""

import pytest
from own_model import SIZES, account_of, encoder, kept_bytes, own
from torch import nn

from every_byte.account import account, numbers
from utils.exercises import own as exercises

N = sum(p.numel() for p in own().step.make(d=64, L=3).parameters())
STANDING = {"parameters": 4 * N, "gradients": 4 * N, "optimizer state": 8 * N}


@pytest.mark.parametrize(
    ("changed", "reply"),
    [
        ({}, "Right: "),
        ({"gradients": None}, "No answer yet"),
        ({"parameters": N}, "That is the number of elements."),
        ({"parameters": 16 * N}, "That is all three together."),
        ({"optimizer state": 4 * N}, "Adam and AdamW keep two averages of each parameter."),
        ({"optimizer state": 8 * N + 4 * 38}, "Unless it is fused, AdamW keeps its step counters in host memory."),
        ({"optimizer state": 8 * N + 1}, "too many, though close: within a hundredth"),
    ],
)
def test_what_stands(changed, reply):
    assert reply in repr(exercises.standing(own(), STANDING | changed))


def test_what_stands_of_weights_that_are_cast():
    halves = account_of(encoder, precision="bfloat16")
    assert exercises.standing(halves, {"parameters": 2 * N, "gradients": 2 * N, "optimizer state": 4 * N})


def test_what_stands_is_a_dict_of_three():
    assert "a dict with the bytes of parameters, gradients, optimizer state" in repr(
        exercises.standing(own(), {"parameters": 1})
    )
    assert not exercises.standing(own(), None)


def test_one_more():
    grown = own().at(b=5).requested_bytes - own().requested_bytes
    assert repr(exercises.one_more(own(), "b", grown)).endswith("and the next one costs the same.")
    assert "Not everything at the peak grows with b." in repr(
        exercises.one_more(own(), "b", own().requested_bytes // 4)
    )
    assert "No answer yet" in repr(exercises.one_more(own(), "b", None))
    assert "letter must be one of the account's letters (b, s, d, L): got 'x'" in repr(
        exercises.one_more(own(), "x", 1)
    )


def test_one_more_where_a_kernel_rounds():
    """From 64 to 65 positions logsumexp's rows jump by 32, and stay there for the next one."""
    at_a_border = own().at(s=64)
    grown = at_a_border.at(s=65).requested_bytes - at_a_border.requested_bytes
    assert "because a kernel rounds, or another one runs" in repr(exercises.one_more(at_a_border, "s", grown))


def test_one_more_that_the_model_refuses():
    said = repr(exercises.one_more(own(), "d", 1))
    assert "at d=65, your model raised" in said
    assert "Choose another letter." in said


def test_a_formula():
    assert "exact to the byte at the account's sizes and at 3 others, drawn at random." in repr(
        exercises.kept(own(), kept_bytes)
    )


@pytest.mark.parametrize(
    ("function", "reply"),
    [
        (None, "No answer yet"),
        (lambda **letters: None, "No answer yet"),
        (7, "pass your function itself"),
        (lambda b, s: b * s, "for b=4, s=50, d=64, L=3 your function raised TypeError"),
        (
            lambda b, s, d, L: kept_bytes(b, s, d, L) - 4 * L * b * s * 4 * d,
            ", or the result of native_dropout that is kept for AddmmBackward0.mat1",
        ),
        (
            lambda b, s, d, L: kept_bytes(b, s, d, L) + 4 * b * s * d,
            "You seem to count twice the result of native_layer_norm that is kept for AddmmBackward0.mat1 in *",
        ),
        (lambda b, s, d, L: kept_bytes(4, 50, 64, 3), "bytes"),
    ],
)
def test_a_formula_that_is_wrong(function, reply):
    assert reply in repr(exercises.kept(own(), function))


def test_a_formula_that_does_not_round_holds_where_nothing_is_rounded_alone():
    plain = own().at(s=64)

    def unrounded(b, s, d, L):
        return L * (4 * (17 * b * s * d + 8 * b * s + 4 * b * s) + 6 * b * s * d) + 4 * b * s * d

    said = repr(exercises.kept(plain, unrounded))
    assert "for b=" in said.lower()
    assert "s=64" not in said.split(":")[0]


@pytest.mark.parametrize(
    ("answer", "reply"),
    [(None, "No answer yet"), (True, "whole number"), (0, "1 or more"), (10**15, "or a little more")],
)
def test_what_fits_refuses(answer, reply):
    assert reply in repr(exercises.fits(own(), "b", "t4-16gb", answer))


@pytest.mark.long
def test_what_fits():
    wide = account(
        lambda: nn.Linear(8192, 8192), (numbers("b", 8192),), loss=lambda output, batch: output.mean(), b=1000
    )
    best = wide.largest("b", "t4-16gb").value
    assert exercises.fits(wide, "b", "t4-16gb", best)
    assert f"b={best - 2:,d} fits, but so does {best:,d}." in repr(exercises.fits(wide, "b", "t4-16gb", best - 2))
    assert "does not fit" in repr(exercises.fits(wide, "b", "t4-16gb", best + 1))


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        (102_760_448 + 211_808_768 - 125_829_120, "Right: 188,740,096 bytes"),
        ("188740096", "Right: "),
        ("180MiB", "too many, though close: within a hundredth"),
        (None, "No answer yet"),
        ("much", "budget must be"),
        (211_808_768 - 125_829_120, "The driver had some memory left, too."),
        (102_760_448 + 211_808_768, "That was free before the request took its part."),
    ],
)
def test_what_would_have_been_left(answer, reply):
    assert reply in repr(exercises.rest_of_no_room(answer))


def test_sizes_are_the_readers_own_first():
    assert next(iter(exercises._at_sizes(own()))).letters == SIZES
