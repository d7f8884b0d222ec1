"""The picture of the four places: each is marked at its own bytes, every kind has a colour, and it stays small."""

import re
from dataclasses import replace

import pytest
from diagrams import words

from every_byte.ledger.ledger import Ledger
from every_byte.palette import CATEGORIES
from every_byte.units import short
from utils.experiments.llama_step import LlamaStep
from utils.experiments.remedies import PLACES, highest_by_place, peaks, run_of
from utils.figures.places_diagram import KINDS, four_places

STEP = LlamaStep(model="llama-3.2-1b", s=256, is_checkpointed=True, optimizer="AdamW, foreach", gpu="a100-80gb")


@pytest.fixture(scope="module")
def diagram():
    return four_places(STEP)


def test_each_place_has_its_number_and_its_bytes(diagram):
    trace = run_of(STEP).trace
    at = {place: Ledger.at(trace, position).requested_bytes for place, position in highest_by_place(STEP).items()}
    assert max(at.values()) == peaks(STEP).peak_bytes
    names = [f"{number} {place}" for number, place in enumerate(PLACES, start=1)]
    assert [text for text in words(diagram) if text in names] == names
    for number, (place, n_bytes) in enumerate(at.items(), start=1):
        assert f"{number}, {place}: {short(n_bytes)}" in diagram.alt


def test_each_kind_is_an_area_and_has_its_name(diagram):
    assert [text for text in words(diagram) if text in KINDS] == list(KINDS)
    areas = re.findall(r'<polygon class="eb-d-fill-([^"]+)"', diagram.svg())
    assert areas == [CATEGORIES[kind] for kind in KINDS]


def test_the_highest_area_reaches_the_top_and_none_leaves_the_picture(diagram):
    outlines = re.findall(r'<polygon class="eb-d-fill-[^"]+" points="([^"]+)"', diagram.svg())
    points = [tuple(map(float, point.split(","))) for outline in outlines for point in outline.split()]
    assert min(y for _, y in points) == 34
    assert all(0 <= x <= diagram.width and 0 <= y <= diagram.height for x, y in points)


def test_it_is_small_enough_for_a_page(diagram):
    assert len(diagram.svg()) < 40_000


def test_a_step_without_checkpoints_is_refused():
    with pytest.raises(ValueError, match="step must have is_checkpointed=True"):
        four_places(replace(STEP, is_checkpointed=False))
