"""PyTorch's own database of operators: no sample is silently wrong, and most are exact."""

from collections import Counter

import pytest
from operator_results import EXACT, FLAGGED, REFUSED, WRONG, recorded, results
from operator_samples import MODES
from places import ROOT

SHARES = 6  # so many tests a mode, for several processes
LEAST_EXACT = 0.85  # of the first samples; the page of verified operations has the share of all of them


def _share(mode: str, share: int) -> list[str]:
    return sorted(recorded(mode))[share::SHARES]


def _hold(mode: str, names: list[str], at_most: int | None) -> Counter:
    """Compare, fail with every sample that is silently wrong, and return how many there are of each verdict."""
    found = list(results(mode, names, at_most))
    wrong = [result for result in found if result.verdict == WRONG]
    assert not wrong, f"{len(wrong)} of {len(found)} are wrong:\n" + "\n".join(map(str, wrong[:20]))
    return Counter(result.verdict for result in found)


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_the_first_sample_of_every_operator(mode):
    """Of some operators in each mode, in each of others; of all in all of them at night."""
    modes = list(MODES)
    counts = _hold(mode, sorted(recorded(mode))[modes.index(mode) :: 12 * len(modes)], 1)
    assert counts[EXACT] > LEAST_EXACT * (counts[EXACT] + counts[FLAGGED] + counts[REFUSED])


def test_the_pages_say_how_many_there_are():
    """About as many samples as the README and "How we know" say, of as many operators."""
    modes = [recorded(mode) for mode in MODES]
    n_operators, n_samples = len(set().union(*modes)), sum(len(rows) for mode in modes for rows in mode.values())
    assert 50_000 < n_samples < 55_000
    for page in ("README.md", "book/how_we_know.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        assert f"{n_operators} operators" in text, page
        assert "50,000 samples" in text, page


@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("share", range(SHARES))
def test_every_sample(mode, share):
    _hold(mode, _share(mode, share), None)
