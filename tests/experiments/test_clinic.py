"""The nine patients: each check singles out the one that it is for, and no other."""

import pytest

from every_byte.units import GiB
from utils.experiments.clinic import CHECKS, PATIENTS, Findings, chart, examined

N = 749_242_368  # of eight blocks, and an embedding that is the head too
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def found():
    """What the checks find of each patient."""
    return {name: examined(name) for name in PATIENTS}


def test_outside_of_pytorch_there_is_the_context_and_in_one_case_a_neighbour(found):
    contexts = {name: findings.outside for name, findings in found.items()}
    assert contexts.pop("D") == 30 * GiB + contexts["A"]
    assert set(contexts.values()) == {587_202_560}


def test_one_has_its_memory_in_pieces_and_none_other_at_that_peak(found):
    of_g, of_e = found["G"], found["E"]
    assert of_g.by_phase == of_e.by_phase | {"step": of_g.by_phase["step"]}  # the last batch is as long
    assert of_g.unused > 19 * GiB > 6 * GiB > max(findings.unused for name, findings in found.items() if name != "G")


def test_one_grows_by_a_graph_a_step(found):
    grown = {name for name, findings in found.items() if findings.growth}
    assert grown == {"C"}
    first, second, third = found["C"].after_steps
    assert third - second == second - first


def test_one_is_highest_in_the_optimizer_by_the_square_roots(found):
    highest = {name for name, findings in found.items() if max(findings.by_phase, key=findings.by_phase.get) == "step"}
    assert highest == {"A"}
    norms = 17 * 2048
    temporaries = found["A"].by_phase["step"] - found["A"].after_steps[-1] - found["A"].named["gradients"]
    assert abs(temporaries - 2 * (N - norms)) < 2**22  # the slack of 57 blocks


@pytest.mark.parametrize(
    ("name", "named"), [("H", "weights"), ("F", "state"), ("I", "gradients"), ("B", "weights"), ("E", "weights")]
)
def test_what_has_a_name(name, named, found):
    names = found[name].named
    expected = {"H": 2 * N, "F": 8 * N, "I": 4 * N, "B": 2 * N, "E": 2 * N}[name]
    assert 0 <= names[named] - expected < 0.02 * expected  # adapters, and the counts of steps


def test_every_check_is_a_column(found):
    heads = chart(*CHECKS, patients="AB").splitlines()
    assert heads[0].split()[1:] == [
        "outside",
        "unused",
        "growth",
        "forward",
        "backward",
        "step",
        "weights",
        "gradients",
        "state",
    ]
    assert [line.split()[0] for line in heads[1:]] == ["A", "B"]
    assert float(heads[1].split()[6]) == round(found["A"].by_phase["step"] / GiB, 2)


def test_growth_is_that_of_the_last_step():
    assert Findings(after_steps=[1, 5, 6]).growth == 1
