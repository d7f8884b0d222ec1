"""The explorer of a training that dies with memory free: what it predicts, and which settings let the training pass."""

import json

import pytest

from utils.experiments.varying_lengths import SETTINGS
from utils.explorers.fragmentation import fragmentation_explorer
from utils.explorers.gallery import GALLERY

PASSES = {  # by the longest batch, in the order of SETTINGS
    3840: "yes yes yes yes yes yes",
    4800: "yes yes yes no yes yes",
    5760: "no yes yes no no no",
    6720: "no no yes no no no",
}


@pytest.fixture(scope="module")
def explorer():
    return fragmentation_explorer()


def test_a_page_stores_every_setting(explorer):
    stored = list(GALLERY["fragmentation"].settings(explorer))
    assert len(stored) == len(PASSES) * len(SETTINGS)
    control = explorer.controls["s"]
    assert list(range(control.minimum, control.maximum + 1, control.step)) == list(PASSES)


@pytest.mark.long
@pytest.mark.parametrize("s", PASSES)
def test_what_the_program_asks_for_does_not_depend_on_the_setting(explorer, s):
    for conf, passes in zip(SETTINGS.values(), PASSES[s].split(), strict=True):
        answer = explorer.answer_at({"conf": conf, "s": s})
        assert answer["error"] == ""
        assert answer["terms"] == explorer.predict({"conf": conf, "s": s})
        assert answer["fit"]["fits"] == (passes == "yes")
        assert len(json.dumps(answer)) < 30_000


def test_it_says_whose_rules_it_follows(explorer):
    assert explorer.answer_at(explorer.value)["badge"] == "simulated on a100-1gib, PyTorch 2.13 rules"


def test_its_table_says_how_the_run_ends(explorer):
    said = explorer.table().said
    assert "Out of memory at request 49 of 52, with 409,991,168 bytes (391 MiB) free." in said
    assert said.endswith("out of memory, with 391 MiB free, 283 MiB of them in 7 pieces of what PyTorch holds.")
