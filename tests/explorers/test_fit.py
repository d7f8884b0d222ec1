"""The kernel's half of the explorer of what would make it fit: prediction, peak, what to try next, what cannot be."""

import json
import re

import pytest

from every_byte.gpu.memory.specs import EXPLORED
from every_byte.units import short
from utils.experiments.remedy_step import LOSSES
from utils.explorers.fit import N_TRIED, WORTH_A_TRY, fit_explorer
from utils.explorers.fit_changes import OPTIMIZERS, PRECISIONS, PRICES, brought, price, step_of
from utils.explorers.ranks import WITH_BFLOAT16
from utils.formulas.decoder_moments import MOMENTS, SCRATCH, TOO_FEW_TOKENS, peak, why_no_peak

pytestmark = pytest.mark.sampled(6)

SMALL = {"model": "llama-3.2-1b", "b": 1, "s": 2048}
GPT = {"model": "gpt2", "b": 3, "s": 1024}
CHUNKS = {"is_checkpointed": True, "loss": "chunks, fused"}


@pytest.fixture(scope="module")
def explorer():
    return fit_explorer()


def start_of(explorer, **changed):
    return {symbol: control.default for symbol, control in explorer.controls.items()} | changed


@pytest.mark.long
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"precision": "autocast", "offload": "optimizer"},
        {"precision": "float32 masters", "optimizer": "AdamW, foreach"},
        {**CHUNKS, "optimizer": "AdamW, 8-bit, in backward"},
        {**CHUNKS, "precision": "autocast", "optimizer": "AdamW, 8-bit, in backward", "model": "llama-3-8b", "b": 54},
        {**CHUNKS, "rank": 8, "offload": "activations"},
        GPT,
        {**GPT, "model": "gpt2-xl", "precision": "autocast", "optimizer": "AdamW, loop"},
        {**GPT, "model": "gpt2-large", "precision": "float32 masters", "optimizer": "AdamW, 8-bit"},
        {**GPT, **CHUNKS, "model": "gpt2-medium", "optimizer": "AdamW, 8-bit, in backward", "s": 32768},
        {**GPT, **CHUNKS, "rank": 8, "offload": "activations"},
    ],
    ids=str,
)
def test_it_predicts_what_the_simulated_gpu_accounts_for(explorer, changed):
    settings = start_of(explorer, **SMALL | changed)
    answer = explorer.answer_at(settings)
    assert answer["error"] == ""
    assert set(answer["terms"]) == set(MOMENTS)
    assert explorer.predict(settings) == answer["terms"]
    for term in answer["formula"]:  # what a page shows as predicted
        assert answer["terms"][term["stage"]][term["name"]] == term["size"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "is_elsewhere"), [(CHUNKS, False), ({"is_checkpointed": True}, True)], ids=["chunks", "logits"]
)
def test_the_remark_names_the_peak_and_what_to_try(explorer, changed, is_elsewhere):
    settings = start_of(explorer, **SMALL, **changed)
    said = explorer.answer_at(settings)["remark"]
    step = step_of(settings)
    moment, n_bytes = peak(step.held, **step.letters)
    assert said.startswith(f"The peak: {n_bytes:,d} bytes ({short(n_bytes)}) requested, in {moment}.")
    worth = {change: n for change, n in brought(settings).items() if n * WORTH_A_TRY >= n_bytes}
    words = [f"{change.name} ({change.price}), {short(n)}" for change, n in worth.items()]
    assert f"Try next, each alone, the cheapest first: {'; '.join(words[:N_TRIED])} less." in said
    most = list(worth.values()).index(max(worth.values()))
    assert (f"The most: {words[most]} less." in said) == (most >= N_TRIED)
    assert ("Next to nothing, since the peak is elsewhere: " in said) == is_elsewhere


@pytest.mark.nightly
def test_a_gpt_2_beyond_its_context_is_said_to_be_so(explorer):
    said = explorer.answer_at(start_of(explorer, **GPT | {"s": 2048}))["remark"]
    assert (
        "GPT-2's own context is 1,024 tokens: here it has 2,048 positions. Try next, each alone, the cheapest first: "
        in said
    )
    assert "own context" not in explorer.answer_at(start_of(explorer, **GPT))["remark"]
    assert "own context" not in explorer.answer_at(start_of(explorer, **SMALL))["remark"]


@pytest.mark.long
@pytest.mark.parametrize(
    "small", [SMALL, pytest.param({**GPT, "model": "gpt2-xl"}, marks=pytest.mark.nightly)], ids=str
)
def test_what_is_tried_brings_what_it_says(explorer, small):
    """The simulated peaks of both settings differ by that."""
    settings = start_of(explorer, **small, **CHUNKS)
    found = {change.name: n for change, n in brought(settings).items()}
    peaks = [requested_at_peak(step_of(settings | changed)) for changed in ({}, {"rank": 8})]
    assert found["adapters of rank 8"] == peaks[0] - peaks[1]
    assert small is not SMALL or found["loss chunks, recomputed"] == 0
    prices = [PRICES.index(change.price) for change in brought(settings)]
    assert prices == sorted(prices)


@pytest.mark.parametrize(
    ("symbol", "before", "after", "costs"),
    [
        ("optimizer", "AdamW, foreach", "AdamW, fused", "free"),
        ("optimizer", "AdamW, fused", "AdamW, loop", "more launches"),
        ("optimizer", "AdamW, fused", "AdamW, fused, in backward", "no clipping"),
        ("optimizer", "AdamW, 8-bit", "AdamW, 8-bit, in backward", "no clipping"),
        ("optimizer", "AdamW, fused", "AdamW, 8-bit", "exactness"),
        ("optimizer", "AdamW, fused", "AdamW, 8-bit, in backward", "exactness"),
        ("optimizer", "AdamW, 8-bit, in backward", "AdamW, fused, in backward", "free"),
        ("optimizer", "Adafactor", "Adafactor, in backward", "no clipping"),
        ("optimizer", "AdamW, 8-bit", "Adafactor", "another optimizer"),
        ("optimizer", "SGD", "AdamW, fused", "another optimizer"),
        ("precision", "autocast", "float32 masters", "exactness"),
        ("precision", "bfloat16", "float32 masters", "free"),
        ("loss", "all logits", "chunks, fused", "rounding"),
        ("loss", "all logits", "chunks, recomputed", "FLOPs"),
        ("loss", "chunks, fused", "all logits, bfloat16", "exactness"),
    ],
)
def test_what_a_change_costs(symbol, before, after, costs):
    assert price(symbol, before, after) == costs


def test_every_change_has_a_price():
    for symbol, options in {"precision": PRECISIONS, "optimizer": OPTIMIZERS, "loss": tuple(LOSSES)}.items():
        assert {price(symbol, before, after) for before in options for after in options} <= set(PRICES)


@pytest.mark.long
def test_the_way_back_is_not_named_among_remedies(explorer):
    settings = start_of(explorer, **SMALL, **CHUNKS)
    ways = {change.name: change.is_remedy for change in brought(settings)}
    assert not ways["optimizer AdamW, foreach"]
    assert not ways["loss all logits"]
    assert ways["optimizer AdamW, 8-bit"]
    assert "foreach" not in explorer.answer_at(settings)["remark"]


def requested_at_peak(step) -> int:
    run = step.run()
    return max(run.trace.totals(after=run.after, until=run.until)[0])


def test_the_explorer_begins_with_a_peak_in_the_loss(explorer):
    """Eight billion parameters, 8,192 tokens do not fit on the first GPU, and one remedy brings nothing there."""
    step = step_of(start_of(explorer))
    assert peak(step.held, **step.letters) == ("backward of the loss", 105_012_717_460)
    assert peak(step.held, **step.letters)[1] > step.spec.allocator_bytes
    found = {change.name: n for change, n in brought(start_of(explorer)).items()}
    assert found["optimizer AdamW, fused, in backward"] == 0


def test_where_there_is_no_state_none_is_moved_to_the_host(explorer):
    """Nor is what brings a few bytes worth a try: it is said with what brings nothing."""
    for optimizer, is_moved in (("SGD", False), ("AdamW, fused", True)):
        names = [change.name for change in brought(start_of(explorer, **SMALL, optimizer=optimizer))]
        assert ("to the host: optimizer" in names) == is_moved


@pytest.mark.parametrize(
    ("changed", "reason", "error"),
    [
        (
            {"optimizer": "AdamW, fused, in backward", "offload": "optimizer"},
            "there is no such step.",
            "steps_in_backward and an offloaded optimizer exclude each other",
        ),
        (
            {"optimizer": "SGD, in backward".replace("SGD", "AdamW, 8-bit"), "precision": "float32 masters"},
            "there is no such step.",
            "steps_in_backward and float32 masters exclude each other",
        ),
    ],
)
def test_what_excludes_each_other_is_a_sentence(explorer, changed, reason, error):
    settings = start_of(explorer, **SMALL | changed)
    assert explorer.predict(settings) == {}
    answer = explorer.answer_at(settings)
    assert answer["terms"] is None
    assert error in answer["error"]
    explorer.value = settings
    assert repr(explorer.table()).endswith(reason)


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"precision": "autocast", "rank": 8}, "autocast makes copies of frozen weights again and again."),
        pytest.param(
            {"precision": "autocast", "offload": "activations"},
            "autocast's copies go to the host as well.",
            marks=pytest.mark.nightly,
        ),
        ({"s": 1024, "loss": "chunks, fused"}, TOO_FEW_TOKENS),
    ],
)
def test_where_there_is_no_closed_form_the_account_stands_alone(explorer, changed, reason):
    settings = start_of(explorer, **SMALL | changed)
    assert explorer.predict(settings) == {}
    answer = explorer.answer_at(settings)
    assert answer["error"] == ""
    assert answer["formula"] == []
    assert answer["remark"].endswith("What to try next is not predicted from here.")
    explorer.value = settings
    assert repr(explorer.table()).endswith(f"backward of the embedding, optimizer's step: {reason}")


@pytest.mark.nightly
def test_adafactor_s_sums_are_left_out(explorer):
    settings = start_of(explorer, **SMALL, **CHUNKS, optimizer="Adafactor")
    predicted, accounted = explorer.predict(settings), explorer.answer_at(settings)["terms"]
    assert set(MOMENTS) - set(predicted) == {"optimizer's step"}
    assert {moment: accounted[moment] for moment in predicted} == predicted
    explorer.value = settings
    assert repr(explorer.table()).endswith(f"No prediction of optimizer's step: {SCRATCH}")


def test_every_setting_has_a_closed_form_or_a_limit(explorer):
    """Of each pair of choices; a stage without a limit is predicted, and the other way round."""
    pairs = [("optimizer", OPTIMIZERS), ("precision", PRECISIONS), ("rank", [0, 8]), ("is_checkpointed", [False, True])]
    for offload in explorer.controls["offload"].values:
        for symbol, options in pairs:
            for option in options:
                settings = start_of(explorer, offload=offload, **{symbol: option})
                try:
                    step = step_of(settings)
                except ValueError:
                    assert explorer.predict(settings) == {}
                    continue
                has_all = set(explorer.predict(settings)) == set(MOMENTS)
                assert not has_all or not why_no_peak(step.held, **step.letters)


def test_every_gpu_has_its_size(explorer):
    capacity = explorer.spec["capacity"]
    gpus = [name for name, spec in EXPLORED.items() if spec.capability >= WITH_BFLOAT16]
    assert list(capacity["bytes"]) == gpus == explorer.controls["gpu"].enabled


@pytest.mark.long
def test_what_a_page_gets_is_small(explorer):
    assert len(json.dumps(explorer.answer_at(start_of(explorer, **SMALL)))) < 60_000
    assert len(json.dumps(explorer.spec)) < 50_000


@pytest.mark.long
def test_the_plain_table_reads_alone(explorer):
    explorer.value = start_of(explorer, **SMALL)
    text = repr(explorer.table())
    assert re.search(r"\nend of forward +[\d,]+ bytes \(.* GiB\) +[\d,]+ bytes \(.* GiB\) +0 bytes\n", text)
    assert "simulated on a100-80gb, PyTorch 2.13 rules. Fits on a100-80gb: " in text
