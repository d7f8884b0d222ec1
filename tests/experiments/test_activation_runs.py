"""The small model learns, and keeps the bytes that the formula says."""

import pytest
import torch
from torch import nn

from utils.experiments.activation_runs import BATCH, LENGTH, SYMBOLS, WIDTH, _sequences, train_small
from utils.models import activations


def test_each_symbol_is_the_sum_of_the_two_before_it():
    symbols = _sequences()
    assert symbols.shape == (BATCH, LENGTH + 1)
    assert torch.equal(symbols[:, 2:], (symbols[:, 1:-1] + symbols[:, :-2]) % SYMBOLS)


def test_it_learns_and_starts_alike():
    runs = [train_small(name, steps=100) for name in ("relu", "gelu")]
    assert all(run.losses[0] > 1.9 and run.last_loss < 0.5 for run in runs)
    assert len(runs[0].losses) == 100


def test_ours_trains_to_the_same_losses_with_a_tensor_less():
    theirs, ours = (train_small(leaky, steps=20) for leaky in (nn.LeakyReLU(), activations.LeakyReLU()))
    assert theirs.losses == ours.losses
    assert theirs.kept_bytes - ours.kept_bytes == 4 * BATCH * LENGTH * WIDTH * 4
    assert train_small("gelu", steps=1).kept_bytes == theirs.kept_bytes
    assert train_small("relu", steps=1).kept_bytes == ours.kept_bytes


def test_threads_are_as_before():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train_small("relu", steps=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_what_the_whole_model_keeps_and_what_is_no_run():
    assert train_small("gelu", steps=1).kept_bytes == 894_080
    with pytest.raises(ValueError, match="steps must be a positive integer: got steps=0"):
        train_small("gelu", steps=0)
