"""A GPT's step with regions checkpointed: the closed forms, the bytes that plans promise, FLOPs as they are counted."""

import random

import pytest

from every_byte.remedies.operations import FlopCounter
from every_byte.remedies.policies import reason_against
from every_byte.units import MiB
from utils import SimulatedGPU
from utils.experiments.checkpointed_step import OPTIMAL, POLICIES, CheckpointedStep, step_flops
from utils.experiments.gpt_step import ATTENTIONS, predicted
from utils.experiments.step_run import roomy
from utils.experiments.training import random_tokens
from utils.models.regions import REGIONS, WITH_K, set_regions

pytestmark = pytest.mark.sampled(5, slow=True)

N_DRAWN = 16


def drawn(seed) -> CheckpointedStep:
    draw = random.Random(seed)
    b = draw.randint(1, 4)
    return CheckpointedStep(
        b=b,
        s=draw.randint(16, 3072 // b),  # more tokens would be sorted in the embedding's backward
        precision=draw.choice(["autocast", "half"]),
        attention=ATTENTIONS[seed % 2],
        regions=REGIONS[1:][seed % 5],
        k=draw.randint(1, 12),
        policy=POLICIES[seed % 4],
        budget_mib=draw.choice([0, 1, 20, 100, 500]),
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(N_DRAWN))
def test_each_category_at_each_moment_is_as_predicted(seed):
    """An optimal plan has no closed form: it keeps what it says, beside what a checkpoint holds that keeps nothing."""
    step = drawn(seed)
    run = step.run()
    assert run.step is step
    accounted, forms = run.run.account(), predicted(step.held)
    if step.policy != OPTIMAL:
        assert {moment: form.by_term(**step.letters) for moment, form in forms.items()} == accounted
        kept = 0
    else:
        kept = run.kept_bytes
    without = forms["end of forward"].bytes(**step.letters)
    assert run.held_bytes == sum(accounted["end of forward"].values()) == without + kept
    plain = predicted(step.plain.held)["end of forward"].bytes(**step.plain.letters)
    assert run.saved_held_bytes == plain - run.held_bytes


def test_the_draw_meets_every_choice():
    steps = [drawn(seed) for seed in range(N_DRAWN)]
    for name, options in {"attention": ATTENTIONS, "regions": REGIONS[1:], "policy": POLICIES}.items():
        assert {getattr(step, name) for step in steps} == set(options)
    assert len({step.regions for step in steps if step.policy == OPTIMAL}) > 2


def counted_flops(step: CheckpointedStep) -> int:
    """Of a whole step, by the counter that is on all the time."""
    with SimulatedGPU(roomy(step.plain.spec)) as gpu:
        model = step.plain.model_on(gpu.device)
        if step.lengths:
            k = step.k if step.regions in WITH_K else None
            set_regions(model, step.regions, k=k, run=step._run_region())
        batch = list(random_tokens(gpu, b=step.b, s=step.s, V=step.letters["V"]))
        with FlopCounter() as counter:
            with gpu.autocast(step.plain.half, enabled=step.precision == "autocast"):
                _, loss = model(*batch)
            loss.backward()
    return counter.total


@pytest.mark.long
@pytest.mark.parametrize("seed", range(0, N_DRAWN, 2))
def test_flops_are_those_of_a_counter_that_sees_the_whole_step(seed):
    step = drawn(seed)
    run = step.run()
    assert run.step_flops == counted_flops(CheckpointedStep(**vars(step) | {"regions": "none"}))
    assert run.added_flops == counted_flops(step) - run.step_flops


@pytest.mark.nightly
@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("regions", ["every block", "sqrt(L) segments", "attention only"])
def test_the_optimal_plan_keeps_within_its_budget_and_adds_no_more_than_the_lists(attention, regions):
    setting = {"b": 2, "s": 512, "attention": attention, "regions": regions}
    for listed in ("keep matmuls", "keep compute-intensive"):
        by_list = CheckpointedStep(**setting, policy=listed).run()
        per_block = [plan.kept_bytes / max(1, n) for n, plan in by_list.step.plans.items()]
        budget = int(-(-max(per_block) // MiB))  # the next whole MiB
        best = CheckpointedStep(**setting, policy=OPTIMAL, budget_mib=budget).run()
        assert best.added_flops <= by_list.added_flops
        for length, plan in best.step.plans.items():
            assert plan.kept_bytes <= budget * MiB * max(1, length)
            assert reason_against(plan.region, plan.kept) == ""


@pytest.mark.long
def test_gpt2_small_as_the_chapter_has_it():
    found = {}
    for regions, k in [("none", 1), ("every block", 1), ("k segments", 3), ("k segments", 1)]:
        run = CheckpointedStep(regions=regions, k=k).run()
        found[regions, k] = run.held_bytes, run.peak_bytes
    assert found == {
        ("none", 1): (10_844_972_628, 13_317_514_840),
        ("every block", 1): (7_041_787_188, 9_514_329_400),
        ("k segments", 3): (6_702_048_564, 9_174_590_776),
        ("k segments", 1): (6_626_551_092, 9_099_093_304),
    }


def test_without_regions_there_is_no_policy_and_nothing_is_saved_or_added():
    step = CheckpointedStep(b=1, s=64, regions="none", policy=OPTIMAL)
    run = step.run()
    assert run.run is run.plain
    assert (run.saved_held_bytes, run.saved_peak_bytes, run.added_flops, run.kept_bytes) == (0, 0, 0, 0)
    assert step.held == step.plain.held


@pytest.mark.long
def test_a_budget_of_nothing_is_a_plain_checkpoint():
    setting = {"b": 2, "s": 128, "regions": "every k-th block", "k": 5}
    plain, optimal = (CheckpointedStep(**setting, policy=policy).run() for policy in ("none", OPTIMAL))
    assert optimal.held_bytes == plain.held_bytes
    assert optimal.added_flops == plain.added_flops > 0


@pytest.mark.long
def test_the_run_without_is_made_once():
    step = CheckpointedStep(b=1, s=80)
    first = step.run()
    again = CheckpointedStep(b=1, s=80, regions="attention only").run()
    assert again.plain is first.plain
    assert again.run is not first.run
    assert step_flops(step.plain) == again.step_flops


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"regions": "some"}, "regions must be one of none; every block; .*: got regions='some'"),
        ({"policy": "keep all"}, "policy must be one of none; keep matmuls; .*; optimal .*: got policy='keep all'"),
        ({"regions": "k segments", "k": 13}, "k may be the number of blocks at most: got k=13, and the model has 12"),
        ({"b": 0}, "b must be a positive integer: got b=0"),
        ({"s": 2.5}, "s must be a positive integer: got s=2.5"),
        ({"budget_mib": -1}, "budget_mib must not be negative: got budget_mib=-1; 0 keeps nothing"),
        ({"attention": "flash"}, "attention must be one of fused; explicit: got attention='flash'"),
    ],
)
def test_settings_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        CheckpointedStep(**settings)


def test_k_counts_where_the_regions_have_one():
    assert CheckpointedStep(k=20).lengths == [1] * 12
    assert CheckpointedStep(model="gpt2-xl", regions="k segments", k=20).lengths == [3] * 8 + [2] * 12
