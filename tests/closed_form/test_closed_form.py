"""Closed forms of small programs whose truth is plain: rounded, in pieces, of a peak that moves, and what they say."""

import gc
import re

import pytest
import torch
from derived import of_program
from torch import nn

from every_byte.account import account, numbers
from every_byte.closed_form.finding import closed_form
from every_byte.closed_form.keys import at_mark


def holding(n_bytes):
    """A program that holds a tensor of so many bytes."""

    def run(gpu, **letters):
        return torch.empty(n_bytes(**letters), dtype=torch.uint8, device=gpu.device)

    return run


def patches(letters):
    """The size of a tensor beside: of an image's tokens, or of its patches alone."""
    return letters["p"] ** 2 + 1 if "p" in letters else letters.get("q", 0) ** 2


def total(found, **letters):
    return found.bytes(**letters)


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_bytes", "letters", "text"),
    [
        (lambda b, s: 7 * b * s**2, {"b": 3, "s": 50}, "7·b·s²"),
        (lambda s: 3 * s * (s + 1) // 2, {"s": 50}, "(3·s² + 3·s)/2"),
        (lambda b, s: b * (-(-s // 32) * 32), {"b": 3, "s": 50}, "b·⌈s⌉₃₂"),
        (lambda b, r: b * (r // 16) ** 2, {"b": 3, "r": 100}, "b·⌈r − 15⌉₁₆²/256"),
        (lambda b, s: 4 * b * s * (-(-s // 16) * 16) + 700 * b * s, {"b": 3, "s": 50}, "700·b·s + 4·b·s·⌈s⌉₁₆"),
        (lambda b, p: 5 * b * (-(-(p**2 + 1) // 8) * 8), {"b": 3, "p": 9}, None),
        (lambda b, q: 5 * b * (-(-(q**2) // 8) * 8), {"b": 3, "q": 9}, None),
        (lambda b, s: 11, {"b": 3, "s": 50}, "11"),
    ],
    ids=["polynomial", "half", "up", "down", "one factor of two", "sum", "power", "constant"],
)
def test_what_is_found(n_bytes, letters, text):
    def run(gpu, **letters):
        return holding(n_bytes)(gpu, **letters), torch.empty(patches(letters), dtype=torch.int16, device=gpu.device)

    found, _ = of_program(run, n_checks=8, **letters)
    assert found.is_exact, found
    more = {letter: 3 * n + 1 for letter, n in letters.items()}
    assert total(found, **more) == n_bytes(**more) + 2 * patches(more)
    if text:
        (term,) = found.formula().terms
        assert str(term.size) == text


@pytest.mark.long
@pytest.mark.parametrize(
    ("n_bytes", "letters", "conditions"),
    [
        (lambda s: s if s < 77 else 5 * s, {"s": 60}, {"s ≥ 77"}),
        (lambda b, s: b * s if b * s <= 300 else 9 * s, {"b": 6, "s": 50}, {"b·s ≥ 301"}),
        (lambda b, s: b * s if s % 8 == 0 else 2 * b * s, {"b": 6, "s": 50}, {"s is a multiple of 8"}),
        (lambda b, s: 1 if s % 8 == 0 else b * s * (s // 8 * 8 + 8), {"b": 6, "s": 50}, {"s is a multiple of 8"}),
        (lambda b, s: s if b == 1 and s > 60 else 3 * b * s, {"b": 3, "s": 60}, {"b ≥ 2", "s ≥ 61"}),
        (lambda b, s: b * s if b >= 3 or s >= 70 else 2 * s * s, {"b": 4, "s": 60}, {"b ≥ 3", "s ≥ 70"}),
    ],
    ids=["from a size on", "from a product on", "at multiples", "padded", "both", "either"],
)
def test_where_it_changes(n_bytes, letters, conditions):
    found, _ = of_program(holding(n_bytes), n_checks=10, **letters)
    assert found.is_exact, found
    assert not found.unknown
    assert set(map(str, found.conditions)) == conditions
    for b in (1, 2, 3, 5):
        for s in (55, 59, 60, 61, 64, 69, 70, 76, 77, 96):
            at = {letter: n for letter, n in {"b": b, "s": s}.items() if letter in letters}
            assert total(found, **at) == n_bytes(**at), at


def test_a_letter_is_rounded_only_where_that_is_seen():
    """Nothing at sizes that are no multiples: that is 0, not a letter rounded down, beyond all that was tried."""
    found, _ = of_program(holding(lambda a, s: 4 * a * s if s % 8 == 0 else 0), n_checks=8, a=4, s=60)
    assert found.is_exact, found
    assert total(found, a=40, s=61) == total(found, a=4, s=601) == total(found, a=40, s=601) == 0
    assert total(found, a=40, s=64) == 4 * 40 * 64


def test_what_has_no_form_is_said_to_have_none():
    def crooked(s):
        return s**2 % 1009 + 1

    found, _ = of_program(holding(crooked), n_checks=4, s=400)
    assert not found.is_exact
    assert [key.category for key in found.unknown] == ["other tensors"]
    assert "No form was found of other tensors" in repr(found)
    assert "Not met at s=" in repr(found)
    with pytest.raises(ValueError, match="a form must have been found: none was for s=400"):
        found.bytes()


def net(d: int) -> nn.Module:
    return nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))


def of_a_net():
    return account(net, numbers("b", "d"), loss=lambda output, _: output.square().mean(), b=80, d=60)


@pytest.mark.nightly
def test_a_peak_that_moves():
    """Many rows: it is in backward; few: in the optimizer, where it does not depend on them."""
    found = of_a_net().formula()
    assert found.is_exact, found
    many, few = {"b": 160, "d": 30}, {"b": 40, "d": 100}
    assert found.moment(**many).startswith("backward")
    assert found.moment(**few).startswith("optimizer")
    assert found.bytes(b=40, d=100) - found.bytes(b=41, d=100) == -4 * 100  # the input alone
    for letters in (many, few, {"b": 101, "d": 77}):
        trained = of_a_net().at(**letters)
        assert found.bytes(**letters) == most_requested(trained.report.trace)
        assert found.compare(trained).is_exact


def most_requested(trace) -> int:
    """By PyTorch's own way of counting, event by event."""
    sizes, now, most = {}, 0, 0
    for event in trace:
        if event.action == "alloc":
            sizes[event.allocation] = event.n_bytes
            now += event.n_bytes
            most = max(most, now)
        elif event.action == "free":
            now -= sizes.pop(event.allocation)
    return most


@pytest.mark.nightly
def test_runs_that_are_kept_are_passed_over_only_meanwhile():
    was_frozen = gc.get_freeze_count()
    gc.unfreeze()
    try:
        of_a_net().formula("end of forward", n_checks=1)
        assert gc.get_freeze_count() == 0
    finally:
        if was_frozen:
            gc.freeze()


@pytest.mark.long
def test_what_it_says():
    found = of_a_net().formula("end of forward", n_checks=3)
    assert repr(found).startswith("end of forward, requested: end of forward\nterm ")
    assert re.search(r"Derived from \d+ simulated runs in [\d.]+ s; of 3 further sizes, drawn at random,", repr(found))
    assert "Looked for at b from 40 to 192; d from 30 to 120." in repr(found)
    assert "<table" in found._repr_html_()


@pytest.mark.long
def test_what_is_refused():
    found = of_a_net()
    with pytest.raises(ValueError, match="moment must be 'peak' or 'end of forward': got 'backward'"):
        found.formula("backward")
    with pytest.raises(ValueError, match="letters must be among b, d: got 's'"):
        found.formula("end of forward", n_checks=1).bytes(s=3)
    without = account(lambda: net(8), (torch.zeros(2, 8),), loss=lambda output, _: output.sum())
    with pytest.raises(ValueError, match="an account must have letters to have a formula: got none"):
        without.formula()


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("n", [-3, 0, 1.5, 8.0, True, "8"])
@pytest.mark.parametrize("asked", ["bytes", "moment", "formula", "is_within"])
def test_sizes_are_whole_numbers_from_1_on(asked, n):
    found, _ = of_program(holding(lambda b, s: b * s), b=3, s=50)
    with pytest.raises(ValueError, match=re.escape(f"b must be a whole number from 1 on: got b={n!r}.")):
        getattr(found, asked)(b=n)


def test_what_lies_beyond_is_said_to_and_has_a_value():
    def run(gpu, s, a):
        if 8 % a:
            raise ValueError("a must divide 8")
        return torch.empty(4 * s * a, dtype=torch.uint8, device=gpu.device)

    found, _ = of_program(run, s=50, a=2)
    assert [found.is_within(s=s) for s in (24, 25, 112, 113)] == [False, True, True, False]
    assert [found.is_within(a=a) for a in (2, 3, 4)] == [True, False, True]
    assert found.bytes(s=1000) == 4 * 1000 * 2


@pytest.mark.long
def test_an_account_of_another_size_that_is_a_number_here():
    other = of_a_net().at(d=32)
    moment = at_mark("end of forward")
    step = of_a_net().step.of_letters(["b"])
    found = closed_form(step, other.report.spec, moment=moment, title="held", n_checks=2, fixed={"d": 60})
    assert found.compare(of_a_net().at(b=33)).is_exact
    with pytest.raises(ValueError, match="account must have d=60, for which the formula was derived: got d=32"):
        found.compare(other)
    without = account(lambda: net(60), numbers(80, 60), loss=lambda output, _: output.sum())
    with pytest.raises(ValueError, match="account must have the letters b: it has no 'b'"):
        found.compare(without)


def test_what_is_not_modelled_is_named():
    """cuDNN's workspaces: what a convolution takes meanwhile is not in a form, and it says so."""
    found = account(
        lambda c: nn.Conv2d(3, c, 3), numbers("b", 3, 9, 9), loss=lambda output, _: output.sum(), b=2, c=4
    ).formula("end of forward", n_checks=2)
    assert "aten::convolution (cuDNN's workspace)" in found.unmodelled
    assert "Not modelled, and so not in it, is what these take meanwhile: aten::convolution" in repr(found)
