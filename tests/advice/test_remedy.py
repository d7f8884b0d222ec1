"""Remedies: which go together, in which order they are applied, and what their lines do to the step's model."""

import inspect
from dataclasses import replace
from itertools import permutations

import pytest
from torch import nn

from every_byte.account import numbers
from every_byte.advice.remedy import ORDER, Changed, DoesNotApply, Remedy, by_lines, n_statements, together, with_lines
from every_byte.step.training_step import TrainingStep


def mlp(d: int) -> nn.Module:
    """Two layers, as a reader's function makes them."""
    return nn.Sequential(nn.Linear(d, 2 * d), nn.Linear(2 * d, d))


STEP = TrainingStep(mlp, numbers("b", "d"), lambda out, _: out.square().mean(), letters={"b": 4, "d": 8})


def remedy(kind: str, *excludes: str, apply=lambda step: Changed(step, "")) -> Remedy:
    return Remedy(f"a {kind}", kind, apply, excludes=frozenset(excludes))


def test_one_of_each_kind_goes_with_those_of_others():
    assert remedy("loss").goes_with(())
    assert remedy("loss").goes_with((remedy("regions"), remedy("precision")))
    assert not remedy("loss").goes_with((remedy("regions"), remedy("loss")))


def test_whoever_excludes_the_other_they_do_not_go_together():
    alone, other = remedy("step in backward", "micro-batches"), remedy("micro-batches")
    assert not alone.goes_with((other,))
    assert not other.goes_with((alone,))
    assert alone.goes_with((remedy("regions"),))


@pytest.mark.parametrize("kinds", list(permutations(("settings", "regions", "precision"), 3)))
def test_they_are_applied_in_one_order_each_to_what_the_one_before_has_made(kinds):
    def noting(kind: str):
        return lambda step: Changed(replace(step, letters={**step.letters, kind: len(step.letters)}), f"# {kind}")

    changed = together(tuple(remedy(kind, apply=noting(kind)) for kind in kinds), STEP)
    assert changed.lines == "# precision\n# regions\n# settings"
    assert changed.step.letters == {"b": 4, "d": 8, "precision": 2, "regions": 3, "settings": 4}
    assert STEP.letters == {"b": 4, "d": 8}
    assert set(kinds) <= set(ORDER)


def test_without_remedies_the_step_is_what_it_was():
    assert together((), STEP, "expandable_segments:True") == Changed(STEP, "", "expandable_segments:True")


def test_settings_stay_unless_a_remedy_has_others():
    others = remedy("settings", apply=lambda step: Changed(step, "", "expandable_segments:True"))
    assert together((remedy("loss"),), STEP, "max_split_size_mb:64").settings == "max_split_size_mb:64"
    assert together((others,), STEP, "max_split_size_mb:64").settings == "expandable_segments:True"


def test_one_that_does_not_apply_says_so():
    def refuse(step):
        raise DoesNotApply("the model has no layers that repeat.")

    with pytest.raises(DoesNotApply, match="no layers that repeat"):
        together((remedy("regions", apply=refuse),), STEP)


def test_lines_are_run_on_each_model_that_is_made():
    changed = with_lines(STEP, "for layer in model:\n    layer.bias.requires_grad_(False)")
    first, second = changed.make(d=3), changed.make(d=3)
    assert first is not second
    for model in (first, second):
        assert [p.requires_grad for p in model.parameters()] == [True, False, True, False]
    assert all(p.requires_grad for p in STEP.make(d=3).parameters())


def test_the_function_has_the_letters_and_the_name_of_the_readers_own():
    changed = with_lines(with_lines(STEP, "pass"), "pass")
    assert inspect.signature(changed.make) == inspect.signature(mlp)
    assert changed.make.__name__ == "mlp"
    assert changed.wanted == STEP.wanted == {"b", "d"}
    assert replace(changed, make=mlp) == STEP


def test_what_the_lines_raise_is_raised_when_the_model_is_made():
    changed = with_lines(STEP, "model.no_such_layer")
    with pytest.raises(AttributeError, match="no_such_layer"):
        changed.make(d=3)


def test_a_remedy_of_lines_shows_them_as_they_are_run():
    lines = "model[1] = model[1].bfloat16()"
    changed = by_lines(lines)(STEP)
    assert changed.lines == lines
    assert [str(p.dtype) for p in changed.step.make(d=2).parameters()] == ["torch.float32"] * 2 + ["torch.bfloat16"] * 2


@pytest.mark.parametrize(
    ("lines", "n"),
    [
        ("", 0),
        ("# a comment\n\nimport torch\nfrom torch import nn", 0),
        ("model.bfloat16()  # all of it", 1),
        ('def f(x):\n    """What it does."""\n    y = x\n    return (\n        y\n    )', 3),
        ("with autocast:\n    ...  # the model", 1),
        ("for p in model:\n    p.step(); p.grad = None", 3),
        ("PYTORCH_ALLOC_CONF=expandable_segments:True python train.py", 1),
        ("model.bfloat16()\nPYTORCH_ALLOC_CONF=expandable_segments:True python train.py", 2),
    ],
)
def test_statements_are_counted_and_no_comments_or_imports(lines, n):
    assert n_statements(lines) == n
