"""One card of each architecture: what its CUDA build did in the recorded cases is what the simulated GPU does."""

import operator_results as samples
import pytest

from every_byte.verify.recordings import BOOK, Recordings
from every_byte.verify.simulated import GPUS
from every_byte.verify.verify import jobs, outcome

RECORDINGS = Recordings(BOOK)
SHARES = 4  # so many tests a card, for several processes


def held(cards, names=()):
    """The cases that were recorded on these cards."""
    return [one for one in jobs(names, cards=cards) if one in RECORDINGS]


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("one", held(tuple(GPUS), ["*_by_architecture"]), ids=lambda one: one.key)
def test_what_differs_between_architectures(one):
    found = outcome(one, RECORDINGS[one])
    assert (found.parts, found.left) == ("", "")
    assert all("cuDNN's workspace" in name for name in found.unmodelled)


def test_each_architecture_is_recorded():
    """Of each that PyTorch's build has code for, and of 8.9, which runs that for 8.6."""
    cards = {one.card for one in held(tuple(GPUS), ["tiles_by_architecture"])}
    assert cards == set(GPUS)


@pytest.mark.nightly
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("card", RECORDINGS.cards)
def test_every_case_on_each_card(card, share):
    parting = {
        one.key: found.parts for one in held([card])[share::SHARES] if (found := outcome(one, RECORDINGS[one])).parts
    }
    assert not parting


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("card", "mode"), [(card, mode) for card in GPUS if card != "a100" for mode in samples.modes_of(card)]
)
def test_samples_that_a_card_treats_otherwise_than_the_a100(card, mode):
    """PyTorch's own samples: those of operators of which one differs; of each the first ones, all by night."""
    wrong = [one for one in samples.results(mode, samples.own(mode, card), 12, card) if one.verdict == samples.WRONG]
    assert not wrong, "\n".join(map(str, wrong[:20]))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("card", "mode"), [(card, mode) for card in GPUS if card != "a100" for mode in samples.modes_of(card)]
)
def test_every_sample_on_each_card(card, mode):
    names = samples.recorded(mode, card)
    wrong = [one for one in samples.results(mode, names, None, card) if one.verdict == samples.WRONG]
    assert not wrong, f"{len(wrong)} are wrong:\n" + "\n".join(map(str, wrong[:20]))
