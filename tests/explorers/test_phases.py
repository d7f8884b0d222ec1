"""The kernel's half of the explorer of a training step: every combination of its choices, and settings at random."""

import itertools
import random

import pytest

from every_byte.widget.gpus import for_a_page
from every_byte.widget.settings import combinations
from utils.experiments.first_programs import OPTIMIZERS
from utils.explorers.phases import account, phases_explorer
from utils.formulas.phases import FROZEN


@pytest.fixture(scope="module")
def explorer():
    with for_a_page():  # on a machine with a GPU there is a control more, of which there are tests of its own
        return phases_explorer()


def start_of(explorer) -> dict:
    return {symbol: control.default for symbol, control in explorer.controls.items()}


def test_it_opens_on_the_published_figures(explorer):
    start = start_of(explorer)
    assert (start["n_in"], start["n_out"], start["d"], start["b"], start["L"]) == (100, 10, 100, 64, 200)
    found = account(start)
    assert {moment: sum(terms.values()) for moment, terms in found.terms.items()} == {
        "model to device": 8_135_168,
        "iteration 1": 41_445_376,
        "forward": 46_616_576,
        "backward": 49_580_544,
        "step": 49_580_544,
        "zero_grad": 41_445_376,
    }
    assert found.remark == "The second iteration peaks in step, at 57,715,712 bytes (55 MiB)."


@pytest.mark.long
@pytest.mark.parametrize("d", [100, 128])
def test_every_combination_of_choices_is_as_predicted(explorer, d):
    sizes = {"L": 20, "b": 64, "d": d, "f": 5}
    seen = set()
    for choice in combinations(list(explorer.controls.values())):
        chosen = choice["frozen"], choice["relu"], choice["optimizer"]
        settings = start_of(explorer) | choice | sizes
        if chosen not in seen:  # the GPU is a choice too: an A100's account is enough here
            assert explorer.predict(settings) == explorer.measure(settings).terms, settings
        seen.add(chosen)
    assert seen == set(itertools.product(FROZEN, (False, True), OPTIMIZERS))


@pytest.mark.parametrize("seed", range(8))
def test_random_settings_are_exact(explorer, seed):
    draw = random.Random(seed)
    settings = start_of(explorer)
    for symbol, control in explorer.controls.items():
        is_range = control.spec()["kind"] == "range"
        drawn = draw.randint(control.minimum, control.maximum) if is_range else draw.choice(list(control.values))
        settings[symbol] = drawn if is_range else control.values[drawn]
    settings |= {"L": draw.randint(1, 30), "gpu": draw.choice(("a100-80gb", "h100-80gb", "t4-16gb"))}
    settings["f"] = draw.randint(1, settings["L"])
    assert explorer.predict(settings) == explorer.measure(settings).terms, settings


def test_inputs_and_outputs_are_letters_of_the_formula(explorer):
    start = start_of(explorer) | {"L": 2, "b": 8, "f": 1}
    wide = explorer.predict(start | {"n_in": 200, "n_out": 256})
    plain = explorer.predict(start)
    assert wide["forward"]["input"] - plain["forward"]["input"] == 6_656 - 3_584  # 13 blocks for 6,400, 7 for 3,200
    assert wide["forward"]["activations"] == plain["forward"]["activations"]
    more = (80_384 - 40_448) + (102_400 - 4_096) + (1_024 - 512)  # in blocks: two weights and a bias
    assert wide["step"]["gradients"] - plain["step"]["gradients"] == more
