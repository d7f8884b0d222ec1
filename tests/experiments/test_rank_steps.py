"""One rank of several: what a block keeps and exchanges, and what training in data parallel holds, in closed form."""

import subprocess
import sys

import pytest

from utils import Ledger
from utils.experiments.rank_steps import MODELS, S, T, as_rank, kept_of_models, train_on_ranks, whole_and_divided
from utils.formulas.data_parallel import held_on_rank, rank_states
from utils.formulas.estimates import half_precision_activations
from utils.formulas.settings import GPTSettings
from utils.formulas.tensor_parallel import rank_saved

pytestmark = pytest.mark.sampled(3)

SMALL = {"b": 2, "s": 40, "d": 64, "a": 8}
ODD = {"b": 3, "s": 24, "d": 48, "a": 8}
HOW = [
    {},
    {"core": False},
    {"sequence": True},
    {"sequence": True, "core": False},
    {"sequence": True, "again": True},
    {"sequence": True, "again": True, "core": False},
]


def saved_formula(sequence=False, again=False, core=True):
    return rank_saved(
        attention="explicit", activation="gelu", dropout=0.1, sequence=sequence, gathers_again=again, core=core
    )


@pytest.mark.long
@pytest.mark.parametrize("how", HOW, ids=lambda how: " ".join(how) or "tensor")
@pytest.mark.parametrize("t", [1, 2, 4, 8])
def test_a_rank_keeps_what_the_closed_form_says(t, how):
    for size in (SMALL, ODD):
        kept = as_rank(t, rank=t - 1, **size, **how).saved_bytes
        assert kept == saved_formula(**how).bytes(**size, t=t, e=2)
        assert kept == sum(whole_and_divided(t, **size, **how).values())


@pytest.mark.long
@pytest.mark.parametrize("core", [True, False])
def test_gathered_again_it_is_the_papers_count(core):
    for size in (SMALL, ODD):
        b, s = size["b"], size["s"]
        paper = half_precision_activations(sequence=True, selective=not core).bytes(**size, L=1, t=8)
        beyond = 16 * b * s // 8 + (s * s if core else 0)
        assert as_rank(8, **size, sequence=True, again=True, core=core).saved_bytes == paper + beyond


def test_gathering_again_computes_nothing_again():
    once, again = (as_rank(4, **SMALL, sequence=True, again=again) for again in (False, True))
    assert (
        once.n_products == again.n_products == 4 * 3 + 2 * 3
    )  # forward's and two of backward's, of each Linear and of attention's two
    assert again.exchanged - once.exchanged == {("backward", "all-gather"): 2}
    assert not once.exchanged - again.exchanged
    assert 4 * again.sent_bytes == 5 * once.sent_bytes


@pytest.mark.long
@pytest.mark.parametrize("t", [2, 4, 8])
def test_sequence_parallel_sends_what_tensor_parallel_sends(t):
    tensor, sequence = (as_rank(t, **SMALL, sequence=sequence) for sequence in (False, True))
    stream = 2 * SMALL["b"] * SMALL["s"] * SMALL["d"]
    assert tensor.exchanges == [(phase, "all-reduce", stream) for phase in ("forward",) * 2 + ("backward",) * 2]
    assert [n_bytes for *_, n_bytes in sequence.exchanges] == [stream] * 8
    assert tensor.sent_bytes == sequence.sent_bytes == 4 * 2 * (t - 1) * stream // t
    assert as_rank(1, **SMALL).sent_bytes == 0


def test_gathering_again_needs_something_that_is_gathered():
    with pytest.raises(ValueError, match="gathers_again=True needs sequence=True"):
        saved_formula(again=True)


def test_the_models_of_the_paper_can_be_split():
    for model in MODELS.values():
        assert model["a"] % T == model["d"] % model["a"] == S % T == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("stage", "how"),
    [
        (0, {}),
        (0, {"gradient_as_bucket_view": True}),
        (1, {}),
        (3, {}),
        (3, {"reshard_after_forward": False}),
    ],
)
def test_training_on_ranks_is_itemised_to_0(stage, how):
    trace, letters = train_on_ranks(stage, 8, b=3, s=64, **how)
    view = {name: value for name, value in how.items() if name == "gradient_as_bucket_view"}
    settings = GPTSettings()
    states = rank_states(settings, stage, **view).by_term(**letters)
    parts = Ledger.at(trace, "step 2 backward").parts
    assert {name: parts[name] for name in states} == states
    forward = held_on_rank(settings, stage, "after forward", **how)
    assert Ledger.at(trace, "step 2 forward").requested_bytes == forward.bytes(**letters)


def test_a_stage_without_an_engine():
    with pytest.raises(ValueError, match="stage must be 0, 1 or 3, for which PyTorch has an engine: got stage=2"):
        train_on_ranks(2, 8)


@pytest.mark.nightly
def test_nothing_is_said_to_the_terminal():
    """DDP would say once that it has no timer for this kind of device."""
    program = "from utils.experiments.rank_steps import train_on_ranks; train_on_ranks(0, 2, b=1, s=8)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


def test_what_a_rank_keeps_of_the_paper_s_models():
    """Of one layer, by the bracket: 34 + 5as/d on one GPU, and what each way makes of it."""
    for name, kept in kept_of_models().items():
        L, d, a, b = (MODELS[name][letter] for letter in "Ldab")
        sbd, scores = S * b * d, 5 * a * S * S * b
        assert kept == {
            "one GPU": L * (34 * sbd + scores),
            "tensor": L * (10 * sbd + (24 * sbd + scores) // T),
            "sequence": L * (34 * sbd + scores) // T,
            "selective": L * 34 * sbd // T,
            "full": L * 2 * sbd // T,
        }
