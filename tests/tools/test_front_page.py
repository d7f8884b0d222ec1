"""What the front page answers: each combination is stored, as a run gives it, and said in words that follow from it."""

import json
import re
from itertools import product

import pytest
from places import ROOT

from book.extensions.front_page import answer, card_name, colours, counted, data_of, html_of, largest, picture
from every_byte.gpu.memory.specs import find_spec
from tools.front_page import BANDS, BATCHES, CARDS, COLUMNS, HEIGHT, MODELS, OTHERS, STORED, _path, accounts_of

BOOK = json.loads(STORED.read_text(encoding="utf-8"))
EVERY = [(model, batch, card) for model, batch, card in product(MODELS, BATCHES, CARDS)]
AT = {"fits": True, "needed": 3 * 2**30, "in_use": 2 * 2**30, "room": 4 * 2**30, "margin": 2**30, "in_doubt": False}


def stored(model: str, batch: int, card: str) -> tuple[dict, dict]:
    at = BOOK["models"][model]["at"][f"{batch} {card}"]
    return at, BOOK["models"][model]["mountains"][at["mountain"]]


def test_every_combination_is_stored_and_no_other():
    assert {name: {*of_model["at"]} for name, of_model in BOOK["models"].items()} == {
        model: {f"{batch} {card}" for batch, card in product(BATCHES, CARDS)} for model in MODELS
    }
    assert {name: of_model["title"] for name, of_model in BOOK["models"].items()} == {
        name: model.title for name, model in MODELS.items()
    }
    assert tuple(BOOK["default"]) in EVERY


def test_what_is_stored_agrees_with_itself():
    for model, batch, card in EVERY:
        at, mountain = stored(model, batch, card)
        assert at["room"] < find_spec(card).total_bytes
        assert at["in_use"] <= mountain["peak"] <= at["needed"]  # as requested, in blocks, in segments
        assert at["fits"] is (at["margin"] >= 0)
        assert at["in_use"] <= at["room"] or not at["fits"]
        assert sum(n for n, _ in mountain["bands"].values()) == mountain["peak"]
        assert [name for name in (*BANDS, OTHERS) if name in mountain["bands"]] == [*mountain["bands"]]


def test_what_takes_more_does_not_fit_where_less_does_not():
    for model, card in product(MODELS, CARDS):
        fits = [stored(model, batch, card)[0]["fits"] for batch in BATCHES]
        assert fits == sorted(fits, reverse=True)
        assert largest(BOOK, model, card) == (str(BATCHES[sum(fits) - 1]) if any(fits) else "none")


def test_the_top_of_a_mountain_is_its_peak():
    for mountain in (one for of_model in BOOK["models"].values() for one in of_model["mountains"]):
        *_, (_, outline) = mountain["bands"].values()
        heights, height = [], 0
        for rise, run in re.findall(r"v(-?\d+)h(\d+)", outline):
            height += int(rise)
            heights += [height] * int(run)
        assert (max(heights), len(heights)) == (heights[mountain["column"]], mountain["columns"]) == (HEIGHT, COLUMNS)
    assert _path([2, 2, 5]) == "M0 0v2h2v3h1v-5z"


@pytest.mark.long
@pytest.mark.parametrize(("model", "batch", "card"), [("gpt2", 1, "t4-16gb"), ("gpt2", 1, "h200-141gb")])
def test_a_run_gives_what_is_stored(model, batch, card):
    """Where it does not any more: python -m tools.front_page."""
    ((name, told, drawn),) = accounts_of(model, batch, [card])
    at, mountain = stored(model, batch, card)
    assert name == card
    assert told | {"mountain": at["mountain"]} == at
    assert json.loads(json.dumps(drawn)) == mountain


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "It fits.</strong> It takes 3 GiB of 4 GiB and leaves 1 GiB."),
        ({"of": "another"}, "leaves 1 GiB. Recordings of other architectures alone hold some of its operators."),
        ({"in_doubt": True}, "leaves 1 GiB. It is close: the size of the CUDA context, which we assume, decides."),
        (
            {"fits": False, "peak": 6 * 2**30, "needed": 7 * 2**30},
            "does not fit.</strong> Its tensors need 6 GiB in the backward phase, and there are 4 GiB: 2 GiB too few.",
        ),
        (
            {"fits": False, "needed": 5 * 2**30},
            "Its tensors, 2 GiB, would go into 4 GiB. The allocator's segments, 5 GiB, do not.",
        ),
    ],
)
def test_an_answer_says_whether_it_fits_and_by_how_much(changes, words):
    assert words in answer(
        AT | changes, {"phase": "backward", "exact": "of" not in changes, "peak": changes.get("peak", 2 * 2**30)}
    )


def test_the_picture_has_room_above_the_higher_of_peak_and_card():
    low = picture({}, AT, {"peak": 2**30, "column": 0, "columns": 4})
    high = picture({}, AT | {"fits": False}, {"peak": 8 * 2**30, "column": 3, "columns": 4})
    assert (low["over"], low["scale"] < 0.25, low["room"] < 90, low["column"]) == (False, True, True, 12.5)
    assert (high["over"], high["scale"] < 0.9, high["room"] < 50, high["column"]) == (True, True, True, 87.5)


def test_a_card_is_called_what_people_call_it():
    called = {card: card_name(*BOOK["cards"][card]) for card in CARDS}
    assert called["t4-16gb"] == "T4, 16 GB"
    assert called["rtx4090-24gb"] == "RTX 4090, 24 GB"
    assert (called["a100-40gb"], called["h100-80gb"]) == ("A100, 40 GB", "H100, 80 GB")
    assert called["h200-141gb"] == "H200, 141 GB"


def test_the_page_shows_the_default_and_its_script_has_the_others():
    model, batch, card = BOOK["default"]
    html, data = html_of(BOOK, "there"), data_of(BOOK, model)
    assert data["at"][f"{batch} {card}"]["answer"] in html
    assert html.count(" selected>") == 3
    assert html.count("<option") == len(MODELS) + len(BATCHES) + len(CARDS)
    assert len(data["at"]) == len(BATCHES) * len(CARDS)
    bands = {name for one in data["mountains"] for name in one["bands"]}
    assert all(f'data-band="{name}"' in html and f".fit-{name.replace(' ', '-')} " in colours(BOOK) for name in bands)


def test_the_published_figures_are_counted_in_the_tables():
    page = (ROOT / "book" / "measured_by_others.md").read_text(encoding="utf-8")
    every, met = re.search(r"Of\s+(\d+) figures .*? (\d+) are met", page, re.DOTALL).groups()
    assert counted(page) == (int(every), int(met))
    with pytest.raises(ValueError, match="must have tables of eight columns"):
        counted("# No table")
