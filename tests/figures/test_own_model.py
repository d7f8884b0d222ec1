"""The pictures of an account show its ledger, its formula and its advice, and nothing else."""

import pytest
from own_model import own
from torch import nn

from every_byte.account import account, numbers
from every_byte.units import GiB, MiB
from utils.figures.own_model import against_rule, over_letter, savings


def widths(axes):
    return {row: [bar.get_width() for bar in axes.patches if round(bar.get_y() + bar.get_height() / 2) == row]
            for row in (0, 1)}  # fmt: skip


def test_a_peak_below_the_rule():
    ledger = own().ledger
    axes = against_rule("A rule", own(), {"mean": "the loss"}).axes[0]
    rule, account = widths(axes).values()
    weights = ledger.parts["parameters"] / MiB
    assert rule == pytest.approx([weights, weights, 2 * weights])
    assert sum(account) == pytest.approx(ledger.requested_bytes / MiB)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["16 bytes a\nparameter", "the account"]
    assert axes.get_xlabel() == "MiB requested at the peak"


def test_rows_apart_leave_their_category():
    """What relu made is no longer counted among the activations."""
    apart = own().ledger.of(operation="relu").requested_bytes / MiB
    _, plain = widths(against_rule("A rule", own(), {}).axes[0]).values()
    _, account = widths(against_rule("A rule", own(), {"relu": "ReLU"}).axes[0]).values()
    assert apart > 0
    assert len(account) == len(plain) + 1
    assert sum(account) == pytest.approx(sum(plain))
    assert any(width == pytest.approx(apart) for width in account)


@pytest.fixture(scope="module")
def form():
    """A formula whose peak is in the optimizer's step for few rows, and in backward for many."""
    layer = account(lambda: nn.Linear(512, 512), (numbers("b", 512),), loss=lambda y, _: y.square().mean(), b=300)
    return layer.formula(n_checks=1)


def test_moments_over_a_letter(form):
    assert len(form.moments) == 2
    sizes = range(150, 769, 6)
    axes = over_letter("Moments", form, sizes, "rows b").axes[0]
    *lines, dot = axes.lines
    assert [line.get_label() for line in lines] == list(map(str, form.moments))
    for i, size in enumerate(sizes):
        assert max(line.get_ydata()[i] for line in lines) == form.bytes(b=size) / GiB
    first = next(b for b in sizes if form.moment(b=b) != form.moment(b=150))
    assert (list(dot.get_xdata()), [text.get_text() for text in axes.texts]) == ([first], [f"b = {first}"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rows b", "GiB requested")


def test_a_formula_of_two_letters_is_no_line():
    two = own().formula("end of forward", ["b", "s"], n_checks=1)
    with pytest.raises(ValueError, match="form must have one letter: got b, s"):
        over_letter("Two", two, range(1, 4), "b")


def test_savings():
    advice = own().advice(sizes=False)
    axes = savings("Savings", advice).axes[0]
    singles = [ran for ran in advice.runs if len(ran.remedies) == 1]
    assert singles
    assert [bar.get_width() for bar in axes.patches] == [
        (advice.plain.peak_bytes - ran.peak_bytes) / GiB for ran in singles
    ]
    said = [text.get_text() for text in axes.texts]
    assert [words.partition(": ")[0] for words in said] == [ran.name for ran in singles]
    assert [words.endswith(", fits") for words in said] == [ran.fits for ran in singles]
    assert not any("-0.00" in words for words in said)
    assert axes.get_xlabel() == "GiB less at the peak than without a remedy"
