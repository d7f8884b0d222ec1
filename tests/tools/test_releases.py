"""The page of what changed from release to release, and the small programs that show it."""

import pytest
from running import cases, run_as_recorded

from tools import releases
from tools.release_changes import CHANGES

SHOWN = [change for change in CHANGES if change.case]


def test_the_page_is_what_the_recordings_say():
    assert releases.PAGE.read_text(encoding="utf-8").startswith(releases.told()), "run python -m tools.releases"


@pytest.mark.nightly
def test_so_are_its_counts():
    assert releases.PAGE.read_text(encoding="utf-8") == releases.page(), "run python -m tools.releases"


def test_every_rule_that_differs_between_versions_is_told_of():
    assert releases.without_words() == []


def test_each_change_is_seen_in_its_program():
    """In figures of the two versions around it, which the page has."""
    parts = {part.splitlines()[0]: part for part in releases.told().split("\n### ")[1:]}
    for change in SHOWN:
        rows = [line for line in parts[change.title].splitlines() if line.startswith(("| at most", "| left"))]
        assert rows, change.title
        assert all(len(set(row.strip("| ").split(" | ")[1:])) == 2 for row in rows)


@pytest.mark.parametrize(
    ("name", "card"), [(name, card) for name, case in cases("release_cases").items() for card in case.cards]
)
def test_events_are_those_of_cuda(name, card):
    run_as_recorded("release_cases", name, card)
