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


def hold(module: str, n: int, seed: int) -> int:
    """Ask n settings, and hold each answer to the rules and to the formula; returns how many it has a formula for."""
    with KernelExplorer(module, EXPLORERS[module]) as explorer:
        settings = list(random_settings(explorer.controls, n, seed))
        answers = [explorer.answer(one) for one, _ in settings]
        there = [i for i, (_, is_possible) in enumerate(settings) if is_possible]
        predicted = dict(zip(there, explorer.predicted([settings[i][0] for i in there])))
        assert explorer.is_alive
    wrong, n_predicted = [], 0
    for i, ((one, is_possible), answer) in enumerate(zip(settings, answers)):
        of_formula = predicted.get(i, "")
        has_formula = bool(answer["terms"]) and not isinstance(of_formula, str) and any(of_formula.values())
        n_predicted += has_formula  # where there is no closed form, it is empty
        said = _wrong_in(answer, one, is_possible) or (_unlike_formula(answer, of_formula) if has_formula else "")
        wrong += [f"{one}: {said}"] if said else []
    assert not wrong, f"{len(wrong)} of {n}:\n" + "\n".join(wrong)
    return n_predicted


def _wrong_in(answer: dict, settings: dict, is_possible: bool) -> str:
    """What an answer lacks, or "": it is of these settings, and has an account or says by which rule it has none."""
    error = answer["error"]
    if answer["settings"] != settings:
        return f"answers {answer['settings']}"
    if (answer["terms"] is None) != bool(error):
        return f"has {'no' if answer['terms'] is None else 'an'} account, and says: {error}"
    if not error:
        judged = answer["fit_with"] is None or answer["fit"] or answer["fit_with"]
        return "" if is_possible and judged else "has no verdict" if is_possible else "is not possible, has an account"
    return "" if not is_possible or OF_A_RULE.search(error) or error.startswith(MAY_BE_SAID) else error


def _unlike_formula(answer: dict, of_formula: dict) -> str:
    """The stage at which an account's terms are others than the formula's, with both, or ""."""
    terms = terms_by_stage(answer["terms"])
    more = _told_of_the_state(answer["remark"])
    for stage, by_term in of_formula.items():
        if more and STATE in by_term:
            by_term = {**by_term, STATE: by_term[STATE] + more}
        expected, found = ({k: v for k, v in all_terms.items() if v} for all_terms in (by_term, terms[stage]))
        if expected != found:
            return f"{stage}: {found} and not {expected}"
    return ""


def _told_of_the_state(remark: str) -> int:
    """How many bytes more than the formula a rank's state has, as the remark says where PyTorch does otherwise."""
    said = MORE_OR_LESS.search(remark or "")
    return int(said[2].replace(",", "")) * (1 if said[1] == "larger" else -1) if said else 0


def test_they_are_all_that_the_site_has():
    assert set(EXPLORERS) == set(GALLERY)


@pytest.mark.nightly
@pytest.mark.parametrize("module", EXPLORERS)
def test_a_thousand_settings(module):
    assert hold(module, 1_000, seed=7) > 100  # of heads that divide the width, say


@pytest.mark.long
@pytest.mark.parametrize("module", ["mlp", "phases"])
def test_some_settings(module):
    assert hold(module, 8, seed=11) > 2
