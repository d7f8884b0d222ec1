"""Advice as a whole: all that can be applied is run, the rest has its reason, and what is recommended was run."""

import re
from dataclasses import replace

import pytest
import torch
from advised import Encoder, of_next_tokens
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from every_byte.account import account, numbers, tokens
from every_byte.advice.remedy import Left, Remedy, by_lines
from every_byte.advice.search import _Running, bench_of, bytes_of


def mlp(d: int) -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(4)))


def of_an_mlp(**changed):
    how = {"loss": lambda out, _: out.square().mean(), "d": 128, "b": 512} | changed
    return account(mlp, numbers("b", "d"), **how)


@pytest.fixture(scope="module")
def found():
    return of_an_mlp().advice(budget="24 MiB", sizes=False)


@pytest.fixture(scope="module")
def encoder():
    words = tokens("b", "s", below="V")
    plain = account(Encoder, (words,), loss=of_next_tokens, V=2003, d=64, L=2, b=8, s=64)
    return plain, plain.advice(budget="28MiB")


@pytest.mark.nightly
def test_the_plain_step_is_the_accounts(encoder):
    plain, advice = encoder
    assert advice.plain.peak_bytes == plain.peak_bytes
    assert advice.plain.name == "plain"


@pytest.mark.nightly
def test_flops_are_those_of_pytorchs_counter(found):
    model, x = mlp(128), torch.randn(512, 128)
    with FlopCounterMode(display=False) as counter:
        model(x).square().mean().backward()
    assert found.plain.flops == counter.get_total_flops()
    forward = 2 * 512 * 8 * 128 * 512
    again = forward - 4 * 2 * 512 * 128 * 512  # a checkpoint stops before the last product of each region
    assert found.of("checkpoint, 4 regions").flops - found.plain.flops == again


@pytest.mark.nightly
def test_all_kinds_are_run_or_left_with_a_reason(found):
    names = " ".join([*(ran.name for ran in found.runs), *(one.name for one in found.left)])
    kinds = "checkpoint|selective|fused|loop|8-bit|step in backward|autocast|all in bfloat16|micro-batches|loss in"
    for kind in [*kinds.split("|"), "expandable"]:
        assert kind in names, kind
    assert all(one.reason for one in found.left)
    assert "zero_grad" not in names  # each step has it


@pytest.mark.nightly
def test_they_are_in_order_of_their_peaks_and_two_go_together(encoder):
    peaks = [ran.peak_bytes for ran in encoder[1].runs]
    assert peaks == sorted(peaks)
    assert {len(ran.remedies) for ran in encoder[1].runs} >= {1, 2}
    assert all(ran.lines.strip() for ran in encoder[1].runs)


@pytest.mark.nightly
def test_what_is_recommended_was_run_and_fits(encoder):
    advice = encoder[1]
    assert not advice.plain.fits
    assert advice.best in advice.runs
    assert advice.best.fits
    assert advice.best.needed_bytes <= 28 << 20
    assert advice.best.keeps_values
    cheaper = [ran for ran in advice.runs if ran.fits and ran.keeps_values and ran.flops < advice.best.flops]
    assert cheaper == []
    said = f"The cheapest that fits in 28 MiB with the same numbers: {advice.best.name} ("
    assert any(line.startswith(said) for line in repr(advice).splitlines())


@pytest.mark.nightly
def test_it_says_what_fits_at_most(encoder):
    advice = encoder[1]
    found = {(name, largest.letter): largest for name, largest in advice.sizes}
    assert {letter for _, letter in found} == {"b", "s"}
    assert found[advice.best.name, "b"].value >= 8 > found["plain", "b"].value
    assert "simulated: b=" in repr(advice)


@pytest.mark.long
def test_nothing_is_wanted_of_what_fits(found):
    fitting = replace(found, plain=replace(found.plain, fits=True))
    assert repr(fitting).split("\n\n")[1] == "It fits in 24 MiB as it is."


@pytest.mark.long
def test_none_fits(found):
    none = replace(found, runs=tuple(replace(ran, fits=False) for ran in found.runs))
    assert none.best is None
    assert "None of these fits in 24 MiB; the lowest peak, " in repr(none)
    assert f"has {none.lowest.name}." in repr(none)


@pytest.mark.long
def test_what_keeps_the_numbers_is_recommended_first(found):
    half = next(ran for ran in found.runs if ran.name == "all in bfloat16")
    exact = found.of("checkpoint, 4 regions")
    assert half.flops < exact.flops
    both = replace(found, runs=(replace(half, fits=True), replace(exact, fits=True)))
    assert both.best is both.best_of_same_values
    assert both.best.name == "checkpoint, 4 regions"
    assert " With other numbers: all in bfloat16 (1 statement, " in repr(both)


def test_of_parts_that_cost_the_same_the_fewest_that_fit_are_recommended(found):
    two, four = (replace(found.of(f"{n} micro-batches"), fits=True) for n in (2, 4))
    assert (two.flops, two.n_statements) == (four.flops, four.n_statements)
    assert four.peak_bytes < two.peak_bytes
    assert replace(found, runs=(four, two)).best is two
    assert replace(found, runs=(four, replace(two, fits=False))).best is four


@pytest.mark.nightly
def test_several_remedies_are_run_in_fewer_parts_before_they_are_recommended():
    advice = of_an_mlp(b=2048).advice(budget="36 MiB", sizes=False)
    assert advice.best.name == "4 micro-batches + checkpoint, 4 regions"
    assert not advice.of("2 micro-batches + checkpoint, 4 regions").fits


def test_who_leaves_out_work_cannot_have_the_same_numbers():
    less = Remedy("half the model", "loss", by_lines("del model[2:]"))
    step, bench = of_an_mlp().step, bench_of("a100-80gb", 2, "", None)
    plain = bench.run(step)
    fewer = plain.flops - 2 * 512 * 128 * 512 * (4 + 4 + 3)  # of four products, backward leaves out that of the input
    running = _Running(bench, step, plain)
    assert running.together((less,)) is None
    said = f"the numbers were to be the same, and a step was run with {fewer:,d} FLOPs less"
    assert running.left == [Left("half the model", said)]
    assert running.together((replace(less, keeps_values=False),)).flops == plain.flops - fewer


@pytest.mark.nightly
def test_a_t4_with_room_to_spare_is_left_as_it_is():
    advice = of_an_mlp(gpu="t4-16gb").advice(sizes=False)
    assert advice.best is advice.plain
    assert repr(advice).split("\n\n")[1].endswith(" as it is.")
    assert not any("bfloat16" in ran.name for ran in advice.runs)


def test_it_is_shown(found):
    text, html = repr(found), found._repr_html_()
    assert text.startswith(
        "Simulated: 2 steps with each remedy, on a100-80gb; segments may take 25,165,824 bytes (24 MiB)."
    )
    assert "    region.forward = partial(checkpoint, region.forward, use_reentrant=False)" in text
    assert "<caption>Simulated: 2 steps" in html
    assert html.count("<details>") == sum(len(ran.remedies) == 1 for ran in found.runs)
    assert "for region in model:" in html


def test_a_budget_is_a_size():
    assert (bytes_of(12345), bytes_of("24GiB"), bytes_of("1.5 MiB")) == (12345, 24 << 30, 3 << 19)
    for wrong in ("24GB", "much", -1, True, 0):
        said = f'budget must be bytes or a size such as "24GiB": got {wrong!r}; units are B, KiB, MiB, GiB.'
        with pytest.raises(ValueError, match=re.escape(said)):
            bytes_of(wrong)


def test_a_name_that_is_not_there(found):
    with pytest.raises(ValueError, match="name must be one of 'plain', .*: got 'magic'"):
        found.of("magic")
