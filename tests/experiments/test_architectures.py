"""Public architectures: what is stored of them comes out again, and is what it says it is."""

import json
from datetime import date
from random import Random

import pytest
from places import RECORDED

from tools.architectures import STORED
from utils.experiments.architectures import ARCHITECTURES
from utils.experiments.other_estimates import BEYOND_MEM_TRACKER, why_not

KNOWN = json.loads(STORED.read_text(encoding="utf-8"))
STORED_NAMES = list(KNOWN["architectures"])
DRAWN = Random(date.today().toordinal()).sample(sorted(STORED_NAMES), 3)
"""Other ones each night: a failing one is named by the test, and fails alone as `row_of(name)`."""


def test_they_are_stored_where_recordings_are_in_the_order_of_the_list():
    assert STORED.parent == RECORDED
    assert STORED_NAMES == [name for name in ARCHITECTURES if name in KNOWN["architectures"]]
    assert set(KNOWN["versions"]) == {"torch", "transformers", "accelerate"}


def test_each_ran_to_its_end():
    assert {row["ended"] for row in KNOWN["architectures"].values()} == {"2 steps were run"}


@pytest.mark.parametrize("name", STORED_NAMES)
def test_a_form_that_is_exact_says_what_the_account_says(name):
    row = KNOWN["architectures"][name]
    form = row["formula"]
    if form.get("is_exact"):
        assert (form["at_these_sizes"], form["n_met"], form["missed"]) == (row["most_requested"], form["n_checks"], [])
        assert row["most_requested"] >= row["peak"]
        assert form["n_checks"] >= 6
    else:  # what was not found is named
        assert form.get("fails") or form["missed"]


@pytest.mark.parametrize("name", STORED_NAMES)
def test_percents_are_of_the_bytes(name):
    row = KNOWN["architectures"][name]
    for other in (row["others"][each] for each in ("accelerate", "mem_tracker", "usual")):
        assert other.get("fails") or other["percent"] == round(100 * (other["bytes"] / row["peak"] - 1), 1)
    usual = row["others"]["usual"]
    assert usual["states"] == 16 * row["others"]["parameters"]
    assert usual["bytes"] == usual["states"] + (usual["activations"] or 0)
    assert (usual["activations"] is None) == ("states_only" in usual)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")  # of libraries that are not ours
@pytest.mark.parametrize("name", DRAWN)
def test_the_stored_figures_come_out_again(name, monkeypatch):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from utils.experiments.architecture_rows import row_of, versions

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if versions() != KNOWN["versions"]:
        pytest.skip(f"figures are of {KNOWN['versions']}: here are {versions()}")
    found, stored = json.loads(json.dumps(row_of(name))), KNOWN["architectures"][name]
    for row in (found, stored):
        row["formula"].pop("seconds", None)
    assert found == stored


def test_many_of_all_families_are_exact():
    exact = {name: row for name, row in KNOWN["architectures"].items() if row["formula"].get("is_exact")}
    assert len(exact) >= 25
    assert {row["family"] for row in exact.values()} == {one.family for one in ARCHITECTURES.values()}


def test_what_mem_tracker_cannot_follow_is_said_in_words():
    for row in KNOWN["architectures"].values():
        other = row["others"]["mem_tracker"]
        assert "fails" not in other or other["why"] in BEYOND_MEM_TRACKER.values()
    assert why_not("RuntimeError: something else") == "RuntimeError: something else"
