"""Each remedy for a run that does not fit against PyTorch's CUDA build: every figure and every event, 0 bytes off."""

import random

import pytest
from running import cases, module_of, run_as_recorded
from verified import LISTED

pytestmark = pytest.mark.sampled(8)

CASES = cases("remedy_cases")


def recordings():
    """Each case and card; 8 billion parameters take seconds: the second card waits for the night."""
    for name, case in CASES.items():
        for card in case.cards:
            waits = hasattr(case, "memory_bytes") and card != case.cards[0]
            yield pytest.param(name, card, marks=[pytest.mark.nightly] if waits else [])


@pytest.mark.long
@pytest.mark.filterwarnings(
    "ignore:nothing is computed on a simulated GPU"
)  # what goes to the host, or Adafactor reads
@pytest.mark.parametrize(("name", "card"), list(recordings()))
def test_marks_and_events_are_those_of_cuda(name, card):
    run = run_as_recorded("remedy_cases", name, card)
    assert run.gpu.operations <= LISTED, "run tools/verified_operations.py"


def test_the_draw_meets_every_choice():
    module = module_of("remedy_cases")
    drawn = [module.draw(random.Random(module.SEED + number)) for number in range(module.N_DRAWN)]
    steps = [step for _, step in drawn]
    for name, options in {
        "precision": module.PRECISIONS,
        "loss": module.LOSSES,
        "optimizer": module.OPTIMIZERS,
    }.items():
        assert {getattr(step, name) for step in steps} == set(options), name
    assert {step.offload for step in steps} == set(module.OFFLOADS)
    for name in ("is_checkpointed", "steps_in_backward", "sets_to_none", "keeps_logits"):
        assert {getattr(step, name) for step in steps} == {False, True}, name
    assert {step.rank > 0 for step in steps} == {step.micro_batches > 1 for step in steps} == {False, True}
    assert {sizes["is_tied"] for sizes, _ in drawn} == {False, True}
