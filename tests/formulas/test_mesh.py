"""The closed form of a rank on a mesh against PyTorch's engines on a simulated GPU: every byte at three moments."""

import itertools
import random

import pytest

from utils.experiments import mesh_step
from utils.experiments.mesh_step import MeshStep
from utils.formulas.mesh import ATTENTIONS, MOMENTS, RECOMPUTE, SEQUENCE, STAGES, MeshSettings, held_on_mesh

pytestmark = pytest.mark.sampled(3, slow=True)

SIZES = {"L": 3, "d": 256, "a": 8, "V": 4096}
WAYS = list(itertools.product((1, 2, 4), SEQUENCE, RECOMPUTE, ATTENTIONS, STAGES))
WITH_ENGINE = [way for way in WAYS if STAGES[way[-1]] != 2]


@pytest.fixture(autouse=True)
def a_small_model(monkeypatch):
    monkeypatch.setitem(mesh_step.SHAPES, "small", SIZES)


def drawn(seed, n_ways):
    """Ways to train at random sizes; the numbers of ranks need not divide the rows."""
    draw = random.Random(seed)
    for t, sequence, recompute, attention, stage in draw.sample(WITH_ENGINE, n_ways):
        yield MeshStep(
            model="small", t=t, sequence=sequence, recompute=recompute, attention=attention, stage=stage,
            s=draw.choice([64, 96, 128]), b=draw.randint(1, 3), n=draw.choice([2, 3, 7]), gpu="h100-80gb",
        )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(3, 12))])
def test_every_byte_of_a_rank(seed):
    for step in drawn(seed, 10):
        accounted = step.run().account()
        for moment, formula in step.held.items():
            predicted = formula.by_term(**step.letters)
            if step.stage == "1":  # whole parameters are dealt out
                accounted[moment].pop("optimizer state"), predicted.pop("optimizer state")
            assert accounted[moment] == predicted, (step, moment)


def test_the_state_of_stage_1_is_a_share_rounded_up():
    way = dict(model="small", t=2, stage="1", b=1, s=64)
    states = {n: MeshStep(**way, n=n).held[MOMENTS[0]].by_term(**MeshStep(**way, n=n).letters) for n in (2, 3)}
    N = 12 * 3 * 256**2 // 2 + 2 * 3 * 256 + 4096 * 256 // 2 + 64 * 256 + 256
    assert states[2]["optimizer state"] == 2 * N + 4 * 21
    assert states[3]["optimizer state"] == 4 * -(-N // 3) + 4 * 21


def test_stage_2_divides_gradients_and_state_but_not_parameters():
    whole, divided = at_end("none"), at_end("2")
    assert whole["parameters"] == divided["parameters"]
    assert whole["gradients"] == 4 * divided["gradients"] == whole["parameters"]
    assert whole["optimizer state"] - 4 * 21 == 4 * (divided["optimizer state"] - 4 * 21)


def at_end(stage):
    step = MeshStep(model="small", t=2, stage=stage, n=4, b=1, s=64)
    return step.held["end of backward"].by_term(**step.letters)


def test_all_stages_have_the_same_moments():
    assert {tuple(held_on_mesh(MeshSettings(stage=stage))) for stage in STAGES} == {MOMENTS}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"sequence": "yes"}, "sequence must be one of off; on; on, gathered again: got sequence='yes'."),
        ({"recompute": "all"}, "recompute must be one of none; selective; full: got recompute='all'."),
        ({"stage": "4"}, "stage must be one of none; 0; 1; 2; 3; 3, weights kept: got stage='4'."),
        ({"attention": "fused"}, "attention must be one of explicit; flash: got attention='fused'."),
    ],
)
def test_what_is_not_known_is_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        MeshSettings(**setting)
