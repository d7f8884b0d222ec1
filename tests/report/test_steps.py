"""Steps of several optimizers: those that step together make one, those that take turns one each, and that is said."""

import pytest
import torch
from reported import of_a_gpt, reported

from every_byte.report.fits import IN_TURN, ONCE
from every_byte.report.steps import Step, turns_of
from every_byte.step.training import Training

A, B, BOTH = frozenset({1}), frozenset({2}), frozenset({1, 2})


@pytest.mark.parametrize(
    ("order", "n"),
    [
        ([], 1),
        ([A], 1),
        ([A, A, A], 1),
        ([BOTH, BOTH], 1),
        ([A, B], 2),
        ([A, B, A], 2),
        ([A, A, B, A, A, B], 2),
        ([A, A, B, B], 1),  # another one for the rest of the run
        ([A, B, BOTH], 3),
    ],
)
def test_turns(order, n):
    assert turns_of([Step(i, i, i, 0, 0, 0, 0, each) for i, each in enumerate(order, start=1)]) == n


def gan(gpu, n_iterations: int, n_models: int = 2):
    models = [torch.nn.Linear(31, 31, device=gpu.device) for _ in range(n_models)]
    optimizers = [torch.optim.Adam(model.parameters()) for model in models]
    with Training(gpu) as training:
        for _ in range(n_iterations):
            for model, optimizer in zip(models, optimizers, strict=True):
                model(torch.randn(8, 31, device=gpu.device)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    return training.steps()


@pytest.mark.parametrize(
    ("n_models", "said"),
    [(2, "Two optimizers stepped at different times"), (3, "Three optimizers"), (5, "5 optimizers")],
)
def test_optimizers_that_take_turns_are_told_once_with_how_to_choose_steps(n_models, said):
    report = reported(gan, 2, n_models)
    assert [sorted(step.optimizers) for step in report.steps] == [[i + 1] for i in range(n_models)] * 2
    for text in (" ".join(repr(report).split()), report.html()):
        assert text.count(said) == 1
        assert f"that is {n_models} steps: --steps {3 * n_models} runs three iterations." in text


def test_one_optimizer_or_several_at_once_are_not_told():
    assert "optimizers stepped" not in repr(of_a_gpt())

    def together(gpu):
        model = torch.nn.Linear(31, 31, device=gpu.device)
        optimizers = [torch.optim.SGD([p], momentum=0.9) for p in model.parameters()]
        with Training(gpu) as training:
            for _ in range(3):
                model(torch.randn(8, 31, device=gpu.device)).sum().backward()
                for optimizer in optimizers:
                    optimizer.step()
        return training.steps()

    report = reported(together)
    assert [step.optimizers for step in report.steps] == [BOTH] * 3
    assert "optimizers stepped" not in repr(report)


def test_an_iteration_of_all_turns_is_what_is_repeated():
    assert reported(gan, 3).fits.basis == IN_TURN.format(n=2)
    assert reported(gan, 1).fits.basis == ONCE


def test_json_has_no_optimizers():
    assert all("optimizers" not in step for step in reported(gan, 2).to_json()["steps"])
