"""Each category has a rule that a call stack either holds to or not; where none holds, nothing is guessed."""

import pytest
from recorded_snapshots import Making, told

from every_byte.snapshots.categories import CATEGORIES, Categories, Within

LIB = "site-packages/torch"


def category_of(history, number: int) -> str:
    return Categories(history).of(history.allocations[number]).name


def test_of_a_recorded_program_the_peak_is_told_apart():
    """An MLP of 256 and 1024 with AdamW, whose tensors one can count by hand: weights, biases, and two of each."""
    it = told("train")
    parameters = 4 * (2 * 256 * 1024 + 1024 + 256)
    groups = {group.name: group.n_bytes for group in it.by_category(it.at_peak)}
    assert groups["parameters and buffers"] == parameters
    assert groups["optimizer state"] == 2 * parameters
    assert groups["gradients"] == parameters
    assert groups["made in optimizer steps"] == parameters
    assert groups["cuBLAS workspace"] == 2 * 8519680
    assert groups["unattributed"] == 4 * 64 * 256 + 4  # the batch, and the loss
    assert sum(groups.values()) == sum(each.n_bytes for each in it.at_peak)


@pytest.mark.parametrize(
    ("lines", "more", "category"),
    [
        ((f"{LIB}/optim/adam.py:1 _init_group", f"{LIB}/optim/adam.py:2 step"), {}, "optimizer state"),
        ((f"{LIB}/optim/adam.py:3 _multi_tensor_adam",), {}, "made in optimizer steps"),
        ((), {"node": "AccumulateGrad"}, "gradients"),
        ((), {"node": "MmBackward0", "operator": "mm"}, "made in backward"),
        ((f"{LIB}/utils/checkpoint.py:1 recompute_fn",), {"node": "MmBackward0"}, "recomputed for backward"),
        ((f"{LIB}/nn/modules/module.py:1 _apply",), {}, "parameters and buffers"),
        ((f"{LIB}/nn/modules/linear.py:1 __init__",), {}, "parameters and buffers"),
        ((f"{LIB}/nn/parallel/distributed.py:1 forward",), {}, "communication"),
        (("train.py:1 forward", f"{LIB}/nn/modules/module.py:1 _call_impl"), {}, "made in a module's forward"),
        (("train.py:1 main",), {"operator": "randn"}, "unattributed"),
        ((), {}, "unattributed"),
    ],
)
def test_rules(lines, more, category):
    made = Making()
    made.alloc(0, 8, *lines, **more)
    assert category_of(made.history(), 0) == category


def test_made_in_backward_and_freed_in_zero_grad_is_a_gradient():
    made = Making()
    for address in (0, 512, 1024):
        made.alloc(address, 8, node="MmBackward0")
    made.free(0, 8, f"{LIB}/optim/optimizer.py:1 zero_grad")
    made.free(512, 8)
    made.free(1024, 8, "train.py:3 main")
    made.named("Optimizer.zero_grad#SGD.zero_grad", 5, 7)
    assert [category_of(made.history(), i) for i in range(3)] == ["gradients", "gradients", "made in backward"]


def test_what_an_operator_frees_again_is_its_temporary():
    made = Making()
    made.alloc(0, 8, "train.py:3 main", operator="sort")
    made.alloc(512, 8, "train.py:3 main", operator="sort")
    made._event("free_requested", 0, 8, made.entries[0]["frames"])
    made.free(512, 8, "train.py:4 main")
    assert [category_of(made.history(), i) for i in range(2)] == ["temporary of an operator", "unattributed"]


def test_within_an_annotation():
    made = Making()
    for address in range(6):
        made.alloc(address * 512, 8)
    made.named("Optimizer.step#A.step", 1, 3)
    made.named("Optimizer.step#A.step", 4, 5)
    within = Within(made.history())
    assert [within.covers("Optimizer.step", i) for i in range(6)] == [False, True, True, False, True, False]
    assert not within.covers("forward", 1)
    assert not within.covers("Optimizer.step", None)


def test_each_category_states_its_rule():
    assert all(one.rule and not one.rule.endswith(".") for one in CATEGORIES)
    assert len({one.name for one in CATEGORIES}) == len(CATEGORIES)
