"""The kernel's half of the checkpoint explorer: account and outline, what is saved and added, limits, sentences."""

import json
import re

import pytest

from utils.experiments.checkpointed_step import OPTIMAL, CheckpointedStep
from utils.experiments.gpt_step import predicted
from utils.explorers.checkpoint import WITHOUT, account, checkpoint_explorer, remark
from utils.formulas.gpt import MOMENTS
from utils.models.regions import REGIONS

SMALL = {"model": "gpt2", "b": 2, "s": 128}


@pytest.fixture(scope="module")
def explorer():
    return checkpoint_explorer()


def answer_of(explorer, **changed):
    """What the page gets for a request."""
    defaults = {symbol: control.default for symbol, control in explorer.controls.items()}
    explorer.value = defaults
    settings = explorer.get_state("value")["value"] | changed
    explorer._handle_custom_msg({"request": explorer.answer["request"] + 1, "settings": settings}, [])
    return json.loads(json.dumps(explorer.answer))


@pytest.mark.long
def test_it_predicts_what_the_simulated_gpu_accounts_for(explorer):
    for changed in ({"regions": "every k-th block", "k": 5}, {"regions": "sqrt(L) segments", "policy": "keep matmuls"}):
        answer = answer_of(explorer, **SMALL | changed)
        assert answer["error"] == ""
        assert explorer.predict(explorer.value | SMALL | changed) == answer["terms"]


@pytest.mark.long
def test_the_answer_has_both_steps_and_is_small(explorer):
    timeline = answer_of(explorer)["timeline"]
    assert timeline["outline"]["name"] == WITHOUT
    assert len(timeline["outline"]["bytes"]) == len(timeline["places"])
    assert (
        max(timeline["outline"]["bytes"])
        == 13_324_775_424
        > sum(numbers[timeline["peak"]] for numbers in timeline["columns"].values())
    )
    assert timeline["caption"].endswith(f"The peak {WITHOUT}: 13,324,775,424 bytes (12.4 GiB) allocated.")
    assert len(json.dumps(explorer.answer)) < 50_000
    assert len(json.dumps(explorer.spec)) < 130_000  # each GPU's attention kernels are there


def test_without_regions_there_is_no_second_step(explorer):
    answer = answer_of(explorer, **SMALL, regions="none", policy=OPTIMAL)
    assert answer["timeline"]["outline"] is None
    assert answer["remark"].startswith("Nothing is checkpointed. Requested: ")
    assert len(explorer.predict(explorer.value | SMALL | {"regions": "none", "policy": OPTIMAL})) == len(MOMENTS)


@pytest.mark.long
def test_what_is_saved_and_added_is_said_in_bytes_and_flops():
    assert remark(CheckpointedStep(regions="k segments", k=3).run()) == (
        "Saves 4,142,924,064 bytes (3.86 GiB) at the end of forward; saves 4,142,924,064 bytes (3.86 GiB) at the peak. "
        "Computes 2,377 GFLOP again: 22.1% of the 10,734 GFLOP of a step. Requested: 6,702,048,564 bytes (6.24 GiB) at "
        "the end of forward, 9,174,590,776 bytes (8.54 GiB) at the peak."
    )


def test_what_a_plan_does_with_its_budget_is_said():
    step = CheckpointedStep(**SMALL, policy=OPTIMAL, budget_mib=3)
    run = step.run()
    assert run.step.plans[1].kept_bytes <= 3 * 2**20
    assert remark(run).endswith(f"MiB of the budget of 3 MiB a block, {run.kept_bytes:,d} bytes (36 MiB) in all.")


def test_keeping_too_much_takes_more_than_no_checkpoint():
    step = CheckpointedStep(**SMALL, policy=OPTIMAL, budget_mib=1000)
    said = remark(step.run())
    assert said.startswith("Takes ")
    assert " more at the end of forward; saves 0 bytes at the peak. " in said  # which lies in the embedding's backward
    assert "Computes 0 GFLOP again: 0.0% of" in said


@pytest.mark.long
def test_few_flops_have_digits_too():
    assert "Computes 1.82 GFLOP again" in remark(CheckpointedStep(b=1, s=16).run())


@pytest.mark.long
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"regions": "k segments", "k": 13},
            "k may be the number of blocks at most: got k=13, and the model has 12. No prediction of end of forward, "
            "backward of the loss, backward of the embedding: there are no such regions.",
        ),
        (
            {"policy": OPTIMAL, "budget_mib": 1, "s": 2048},
            "No prediction of end of forward, backward of the loss: what is kept follows from a solver's choice, not "
            "from a formula. No prediction of backward of the embedding: for more than 3,072 tokens its kernel sorts "
            "them, in buffers of its own.",
        ),
    ],
)
def test_what_there_is_no_prediction_of_is_said_with_the_reason(explorer, changed, message):
    explorer.value = {symbol: control.default for symbol, control in explorer.controls.items()} | SMALL | changed
    assert explorer.predict(explorer.value) == {}
    assert repr(explorer.table()).endswith(message)


def test_a_k_that_does_not_count_may_be_anything(explorer):
    answer = answer_of(explorer, **SMALL, k=40)
    assert answer["error"] == ""
    assert explorer.predict(explorer.value | SMALL | {"k": 40}) == answer["terms"]


def test_an_optimal_plan_leaves_the_prediction_of_the_end_of_backward(explorer):
    settings = explorer.value | SMALL | {"policy": OPTIMAL, "budget_mib": 3}
    assert list(explorer.predict(settings)) == ["backward of the embedding"]
    accounted = account(settings).terms["backward of the embedding"]
    assert explorer.predict(settings)["backward of the embedding"] == accounted


def test_each_choice_has_the_formula_of_its_own(explorer):
    for regions in REGIONS:
        settings = explorer.value | {"regions": regions, "policy": "none", "k": 3, "b": 2, "s": 64}
        step = CheckpointedStep(**settings)
        forms = {moment: form.by_term(**step.letters) for moment, form in predicted(step.held).items()}
        assert explorer.predict(settings) == forms


def test_the_plain_table_reads_alone(explorer):
    explorer.value = {symbol: control.default for symbol, control in explorer.controls.items()} | SMALL
    text = repr(explorer.table())
    assert re.search(r"\nend of forward +[\d,]+ bytes \(.* GiB\) +[\d,]+ bytes \(.* GiB\) +0 bytes\n", text)
    assert "simulated on a100-80gb, PyTorch 2.13 rules. Saves " in text
