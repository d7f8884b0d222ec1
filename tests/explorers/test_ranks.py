"""The kernel's half of the explorer of a mesh of ranks: account and verdict, its choices, limits, sentences."""

import json
import re

import pytest

from every_byte.gpu.memory.specs import EXPLORED
from every_byte.units import exact
from every_byte.widget.settings import of_the_account
from utils.experiments.mesh_step import SHAPES, MeshStep
from utils.experiments.rank_steps import MODELS
from utils.explorers.ranks import WITH_BFLOAT16, account, ranks_explorer, remark
from utils.formulas.mesh import ATTENTIONS, MOMENTS, RECOMPUTE, SEQUENCE, STAGES

pytestmark = pytest.mark.sampled(3, slow=True)

SMALL = {"model": "gpt2", "t": 2, "b": 1, "s": 64}
HEADS = (
    "t must divide the number of heads: 64 of 22B, 96 of 175B, 128 of 530B, 160 of 1T, 12 of gpt2, 16 of gpt2-medium, "
    "20 of gpt2-large, 25 of gpt2-xl."
)


@pytest.fixture(scope="module")
def explorer():
    return ranks_explorer()


def start_of(explorer):
    return {symbol: control.default for symbol, control in explorer.controls.items()}


def step_of(explorer, settings):
    return MeshStep(**of_the_account(explorer.controls, settings))


def test_its_first_setting_is_the_paper_s_22_billion_on_eight_ranks(explorer):
    """Predicted alone here: the table that the chapter stores has the account."""
    assert start_of(explorer) == {s: getattr(MeshStep(), s) for s in explorer.controls if s != "allocator"} | {
        "allocator": ""
    }
    held = explorer.predict(start_of(explorer))["end of forward"]
    model = MODELS["22B"]
    L, sbd = model["L"], 2048 * model["b"] * model["d"]
    blocks = L * (34 * sbd + 16 * model["b"] * 2048) // 8 + L * 4 * sbd * 7 // 8
    assert 0 < held["activations"] - blocks < 0.03 * blocks  # embeddings, the last norm, the head and the loss


@pytest.mark.nightly
def test_it_predicts_what_the_simulated_gpu_accounts_for(explorer):
    for changed in ({}, {"sequence": "off", "recompute": "full", "attention": "flash"}, {"stage": "0", "t": 1}):
        settings = start_of(explorer) | SMALL | changed
        answer = explorer.answer_at(settings)
        assert answer["error"] == ""
        assert explorer.predict(settings) == answer["terms"]


def test_each_choice_has_the_formula_of_its_own(explorer):
    for t in (1, 4):
        for sequence, recompute in zip(SEQUENCE, RECOMPUTE, strict=True):
            for attention in ATTENTIONS:
                for stage in STAGES:
                    chosen = dict(t=t, sequence=sequence, recompute=recompute, attention=attention, stage=stage)
                    settings = start_of(explorer) | SMALL | chosen
                    step = step_of(explorer, settings)
                    assert explorer.predict(settings) == {
                        moment: form.by_term(**step.letters) for moment, form in step.held.items()
                    }


@pytest.mark.nightly
def test_what_it_says_of_the_engines(explorer):
    def said(**changed):
        return remark(step_of(explorer, start_of(explorer) | SMALL | changed).run())

    assert said() == "16 GPUs. FSDP2, tensor parallel over 2 ranks."
    assert said(t=1, stage="none") == "1 GPU. No data parallelism, the model whole."
    assert said(stage="3, weights kept").startswith("16 GPUs. FSDP2 with reshard_after_forward=False, ")
    assert said(stage="1") == (
        "16 GPUs. DDP and ZeroRedundancyOptimizer, tensor parallel over 2 ranks. ZeroRedundancyOptimizer deals out "
        "whole parameters, not 1/n of each, so rank 0's state is larger by 46,340,440 bytes (44.2 MiB)."
    )


@pytest.mark.long
def test_a_rank_may_get_less_than_its_share(monkeypatch):
    monkeypatch.setitem(SHAPES, "small", {"L": 3, "d": 256, "a": 8, "V": 4096})
    said = remark(MeshStep(model="small", t=2, stage="1", n=3, b=1, s=64).run())
    assert said.endswith("rank 0's state is smaller by 2,464 bytes (2.41 KiB).")


@pytest.mark.nightly
def test_where_the_figure_reserves_other_bytes_than_the_verdict_it_is_said(explorer):
    for chosen, differs in (({"stage": "0"}, True), ({"stage": "3"}, False)):
        settings = start_of(explorer) | SMALL | chosen
        answer = explorer.answer_at(settings)
        in_the_figure = max(answer["timeline"]["reserved"])
        assert (in_the_figure != step_of(explorer, settings).run().fit().needed_bytes) == differs
        assert (f"which reserves {exact(in_the_figure)} at most. " in answer["remark"]) == differs


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("changed", "fits"),
    [
        pytest.param({}, True, marks=pytest.mark.nightly),
        ({"stage": "0"}, True),
        ({"recompute": "none"}, True),
        pytest.param({"t": 1, "n": 64}, False, marks=pytest.mark.nightly),
        pytest.param({"model": "1T", "b": 1, "n": 24}, False, marks=pytest.mark.nightly),
        pytest.param(
            {"model": "1T", "b": 1, "n": 24, "sequence": "on, gathered again"}, "tightly", marks=pytest.mark.nightly
        ),
    ],
    ids=str,
)
def test_the_answers_that_chapter_6_gives_to_its_questions(changed, fits):
    found = MeshStep(**changed).run().fit()
    assert found.fits == bool(fits)
    assert fits != "tightly" or found.n_retries


def test_stage_2_is_predicted_alone(explorer):
    answer = explorer.answer_at(start_of(explorer) | SMALL | {"stage": "2"})
    assert answer["terms"] is None
    assert answer["error"].startswith("PyTorch has no engine for ZeRO's stage 2, so there is only the prediction.")
    assert set(explorer.predict(start_of(explorer) | SMALL | {"stage": "2"})) == set(MOMENTS)


@pytest.mark.parametrize(
    ("changed", "reason", "error"),
    [
        ({"t": 8}, HEADS, "the number of ranks must divide n_heads"),
        (
            {"s": 65},
            "t must divide s: take another s, or no sequence parallel.",
            "the number of ranks must divide the positions",
        ),
    ],
)
def test_what_cannot_be_split_has_no_prediction_and_says_why(explorer, changed, reason, error):
    settings = start_of(explorer) | SMALL | changed
    assert explorer.predict(settings) == {}
    explorer.value = settings
    said = repr(explorer.table())
    assert said.endswith(f"No prediction of end of forward, middle of the loss, end of backward: {reason}")
    assert error in said


def test_positions_that_are_not_split_need_not_be_divided(explorer):
    assert set(explorer.predict(start_of(explorer) | SMALL | {"s": 65, "sequence": "off"})) == set(MOMENTS)
    assert set(explorer.predict(start_of(explorer) | SMALL | {"s": 65, "t": 1})) == set(MOMENTS)


@pytest.mark.nightly
def test_a_large_model_s_verdict_is_of_its_share(explorer):
    """Whole, it would fit on no card."""
    assert 2 * SHAPES["22B"]["L"] * 12 * SHAPES["22B"]["d"] ** 2 > 40e9
    settings = {"model": "gpt2-xl", "t": 1, "b": 1, "s": 64, "n": 64, "gpu": "rtx3090-24gb"}
    found = account(of_the_account(explorer.controls, start_of(explorer) | settings))
    assert found.fit.fits
    assert found.fit.needed_bytes < 2 * 1.6e9


def test_every_gpu_has_its_workspaces_and_its_size(explorer):
    capacity = explorer.spec["capacity"]
    gpus = {name: spec for name, spec in EXPLORED.items() if spec.capability >= WITH_BFLOAT16}
    assert list(capacity["bytes"]) == list(gpus) == explorer.controls["gpu"].enabled
    for name, spec in gpus.items():
        assert explorer.controls["gpu"].letters(name) == {"W": spec.cublas_workspace_bytes}


@pytest.mark.long
def test_what_a_page_gets_is_small(explorer):
    answer = explorer.answer_at(start_of(explorer) | SMALL)
    assert len(json.dumps(answer)) < 50_000
    assert len(json.dumps(explorer.spec)) < 100_000


@pytest.mark.long
def test_the_plain_table_reads_alone(explorer):
    explorer.value = start_of(explorer) | SMALL
    text = repr(explorer.table())
    assert re.search(r"\nend of forward +[\d,]+ bytes \(.* MiB\) +[\d,]+ bytes \(.* MiB\) +0 bytes\n", text)
    assert "simulated on a100-80gb, PyTorch 2.13 rules. Fits on a100-80gb: " in text
