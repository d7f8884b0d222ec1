"""A compiled GPT-2's step: what is stored, that it comes out again, and what chapters 4 and 5 say of it."""

import sys

import pytest
import torch

from utils.experiments.compiled_step import (
    BUDGETS,
    GRADIENTS,
    KEPT,
    LOSS,
    TEMPORARIES,
    WAYS,
    held_table,
    of_name,
    peaks_table,
    rows_table,
    run,
    stored,
)

LOGITS = 12 * 1024 * 50304 * 2
followed = [
    pytest.mark.skipif(sys.platform != "linux", reason="Triton has wheels for Linux alone"),
    pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the compiler is known in PyTorch 2.13"),
    pytest.mark.filterwarnings("ignore"),  # the compiler's own, of which there are many
]


def test_each_is_stored_once():
    names = [one.name for one in stored()]
    assert len(set(names)) == len(names) == 1 + len(BUDGETS) + 1 + 3
    assert names[:3] == ["eager", "compiled", "budget 0.9"]
    for one in stored():
        assert sum(group.n_bytes for group in one.rows) <= one.peak_bytes
        assert one.held_bytes <= one.peak_bytes
        assert one.peak[LOSS] % LOGITS == 0


def test_returned_logits_have_a_gradient_of_zeros_and_keep_their_own_room():
    whole, alone = of_name("compiled"), of_name("compiled, loss alone")
    assert whole.held == alone.held
    assert (whole.peak[LOSS], alone.peak[LOSS]) == (3 * LOGITS, LOGITS)
    assert any(group.operation == "zeros" and group.n_bytes == LOGITS for group in whole.rows)


def test_a_smaller_budget_keeps_less_and_may_peak_higher():
    by_budget = {one.budget: one for one in stored() if one.way == WAYS[0] and one.budget is not None}
    kept = [by_budget[budget].held_bytes for budget in BUDGETS]
    assert kept == sorted(kept, reverse=True)
    peaks = {budget: one.peak_bytes for budget, one in by_budget.items()}
    assert peaks[0.4] > peaks[0.5]  # a tooth
    assert peaks[0.0] > peaks[0.05] > peaks[0.1]  # another
    assert abs(peaks[0.0] / peaks[1.0] - 1) < 0.02
    assert max(by_budget[0.0].peak[KEPT], by_budget[1.0].peak[TEMPORARIES]) < 65536  # tokens, and the loss
    assert all(one.peak[LOSS] == 3 * LOGITS for one in by_budget.values())


def test_block_by_block_nothing_of_another_block_comes_back():
    steps = [of_name(f"{name}, block by block") for name in ("compiled", "budget 0.5", "budget 0")]
    peaks = [one.peak_bytes for one in steps]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < of_name("budget 0").peak_bytes / 2


def test_tables_have_a_row_for_each():
    steps = [of_name("eager"), of_name("compiled")]
    assert [line.split()[0] for line in peaks_table(steps).splitlines()] == ["MiB", "eager", "compiled"]
    assert held_table(steps).splitlines()[-1].split()[-2:] == ["10,082", "7,726"]
    assert len(rows_table(steps[0], most=3).splitlines()) == 5
    assert rows_table(steps[1]).splitlines()[0] == "compiled"


@pytest.mark.parametrize(("arguments", "words"), [({"b": 0}, "b"), ({"way": "loss"}, "way must be one of 'logits")])
def test_what_cannot_be_run_is_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        run(1.0, **arguments)


def test_without_a_compiler_that_is_followed_it_says_why(monkeypatch):
    monkeypatch.setattr("utils.experiments.compiled_step.why_not", lambda stands_for_cuda: "Triton is not installed")
    with pytest.raises(
        RuntimeError, match=r"torch.compile makes of a step must be followed: Triton is not installed\."
    ):
        run(1.0)


def test_eager_it_is_the_same_whatever_is_installed():
    assert run(None) == of_name("eager")


class TestAnew:
    pytestmark = followed

    @pytest.mark.long
    def test_block_by_block(self):
        assert run(0.0, WAYS[2]) == of_name("budget 0, block by block")

    @pytest.mark.nightly
    @pytest.mark.parametrize("one", stored()[1:], ids=lambda one: one.name)
    def test_all(self, one):
        assert run(one.budget, one.way) == one

    @pytest.mark.long
    def test_gradients_are_there_at_the_peak_where_they_are(self):
        step = run(0.0, WAYS[2], n_layers=1, b=1, s=64)
        assert step.peak[GRADIENTS] > 0
