"""The page of what changed from release to release, and the small programs that show it."""

import pytest
from running import cases, run_as_recorded

from tools import releases
from tools.release_changes import CHANGES

SHOWN = [change for change in CHANGES if change.case]


@pytest.mark.nightly
def test_the_page_is_what_the_recordings_say():
    assert releases.PAGE.read_text(encoding="utf-8").startswith(releases.told()), "run python -m tools.releases"


@pytest.mark.nightly
def test_so_are_its_counts():
    assert releases.PAGE.read_text(encoding="utf-8") == releases.page(), "run python -m tools.releases"


def test_every_rule_that_differs_between_versions_is_told_of():
    assert releases.without_words() == []


@pytest.mark.long
def test_each_change_is_seen_in_its_program():
    parts = {part.splitlines()[0]: part for part in releases.told().split("\n### ")[1:]}
    for change in SHOWN:
        assert "| peak" in parts[change.title] or "| held" in parts[change.title], change.title


@pytest.mark.long
def test_figures_by_hand():
    """A product of two matrices of 4 MiB on an H100: with the workspace of 32 MiB, or without, behind it; attention of
    three dimensions without its scores, eight of 1,024 by 1,024 in float32 several times over."""
    told = releases.told()
    assert f"| held | {(8 << 20) + (32 << 20):,d} | {8 << 20:,d} | {-(32 << 20):+,d} |" in told
    part = told[told.index("### Attention without a batch") :]
    peaks = [int(n.replace(",", "")) for n in part.split("| peak, in forward | ")[1].split(" | ")[:2]]
    assert peaks[0] - peaks[1] > 2 * 8 * 1024 * 1024 * 4


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "card"), [(name, card) for name, case in cases("release_cases").items() for card in case.cards]
)
def test_events_are_those_of_cuda(name, card):
    run_as_recorded("release_cases", name, card)
