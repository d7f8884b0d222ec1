"""Each chapter's explorer in a Jupyter kernel, at a thousand random settings, a fifth of which there cannot be: it
answers each, to the byte or with a sentence, and the kernel lives."""

import re

import pytest
from kernel_explorer import KernelExplorer, random_settings

from every_byte.widget.stages import terms_by_stage
from tools.site_explorers import MAY_BE_SAID
from utils.explorers.gallery import GALLERY

EXPLORERS = {
    "fragmentation": "fragmentation_explorer", "phases": "phases_explorer", "mlp": "mlp_explorer",
    "block": "block_explorer", "gpt": "gpt_explorer", "checkpoint": "checkpoint_explorer", "ranks": "ranks_explorer",
    "fit": "fit_explorer",
}  # fmt: skip

# the value and its rule; of two choices that there cannot be together, both and why
OF_A_RULE = re.compile(" (must|may) .*: got | exclude each other: ")

STATE = "optimizer state"
MORE_OR_LESS = re.compile("rank 0's state is (larger|smaller) by ([0-9,]+)")


def hold(module: str, n: int, seed: int) -> tuple[int, int]:
    """Ask n settings; returns how many had an account, and how many a sentence though each item is possible."""
    with KernelExplorer(module, EXPLORERS[module]) as explorer:
        settings = list(random_settings(explorer.controls, n, seed))
        answers = [explorer.answer(one) for one, _ in settings]
        there = [(one, answer) for (one, is_possible), answer in zip(settings, answers) if is_possible]
        predicted = explorer.predicted([one for one, _ in there])
        assert explorer.is_alive
    for (one, is_possible), answer in zip(settings, answers):
        assert answer["settings"] == one
        assert (answer["terms"] is None) == bool(answer["error"])
        assert is_possible or answer["error"], f"{one} is not possible, and has an account"
        of_a_rule = OF_A_RULE.search(answer["error"]) or answer["error"].startswith(MAY_BE_SAID)
        assert not is_possible or not answer["error"] or of_a_rule, answer["error"]
        assert answer["error"] or answer["fit_with"] is None or answer["fit"] or answer["fit_with"], one
    n_accounts = 0
    for (one, answer), of_formula in zip(there, predicted):
        if answer["terms"] is None or isinstance(of_formula, str) or not any(of_formula.values()):
            continue  # where there is no closed form, it is empty
        n_accounts += 1
        terms = terms_by_stage(answer["terms"])
        more = _told_of_the_state(answer["remark"])
        for stage, by_term in of_formula.items():
            if more and STATE in by_term:
                by_term = {**by_term, STATE: by_term[STATE] + more}
            assert {k: v for k, v in by_term.items() if v} == {k: v for k, v in terms[stage].items() if v}, one
    return n_accounts, len(there) - n_accounts


def _told_of_the_state(remark: str) -> int:
    """How many bytes more than the formula a rank's state has, as the remark says where PyTorch does otherwise."""
    said = MORE_OR_LESS.search(remark or "")
    return int(said[2].replace(",", "")) * (1 if said[1] == "larger" else -1) if said else 0


def test_they_are_all_that_the_site_has():
    assert set(EXPLORERS) == set(GALLERY)


@pytest.mark.nightly
@pytest.mark.parametrize("module", EXPLORERS)
def test_a_thousand_settings(module):
    n_accounts, n_sentences = hold(module, 1_000, seed=7)
    assert n_accounts > 100, (n_accounts, n_sentences)  # of heads that divide the width, say


@pytest.mark.parametrize("module", ["mlp", "phases"])
def test_some_settings(module):
    n_accounts, _ = hold(module, 8, seed=11)
    assert n_accounts > 2
