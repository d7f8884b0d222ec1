"""How exact the gradients of each loss are: bounds that follow from the types, and what chunks change."""

import pytest
import torch

from every_byte.remedies.losses import fused_chunks, half_logits, recomputed_chunks, whole_logits
from utils.experiments.loss_gradients import TOKENS, compared, errors

LOSSES = [whole_logits, recomputed_chunks(64), fused_chunks(64)]


@pytest.mark.nightly
def test_float64_is_exact_to_its_own_rounding():
    assert max(errors(half_logits, torch.float64)) == 0
    assert max(errors(recomputed_chunks(64), torch.float64)) < 1e-6  # its softmax is in float32


@pytest.mark.nightly
@pytest.mark.parametrize("loss", LOSSES)
def test_an_error_is_that_of_the_type(loss):
    for dtype in (torch.float32, torch.bfloat16):
        eps = torch.finfo(dtype).eps
        for error in errors(loss, dtype):
            # a number is rounded a few times, and a sum of chunks once a chunk: errors add up as their squares do
            assert eps / 8 < error < eps * (1 + (TOKENS / 64) ** 0.5)


@pytest.mark.nightly
def test_a_sum_of_sums_is_less_exact_in_bfloat16_alone():
    (_, whole), (_, chunks) = (errors(loss, torch.bfloat16) for loss in LOSSES[:2])
    assert chunks > 1.5 * whole
    (_, whole), (_, chunks) = (errors(loss, torch.float32) for loss in LOSSES[:2])
    assert chunks < whole


@pytest.fixture
def n_threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.long
@pytest.mark.parametrize(("n_threads", "margin"), [(2, 1.5), (1, 1.25)], indirect=["n_threads"])
def test_what_the_chapter_shows_is_not_on_a_boundary(n_threads, margin):
    """Processors add up in orders of their own, and were off by 7 percent from each other: what is shown stays.

    One thread adds up in another order than two, too.
    """
    for dtype in (torch.float32, torch.bfloat16):
        whole = errors(whole_logits, dtype)
        assert max(whole) * margin < 4 * torch.finfo(dtype).eps
        for loss in (recomputed_chunks(32), fused_chunks(32)):
            found = errors(loss, dtype)
            assert max(found) * margin < 4 * torch.finfo(dtype).eps
            for one, other in zip(found, whole, strict=True):
                assert compared(one * 0.88, other) == compared(one, other) == compared(one * 1.12, other)


def test_how_errors_compare():
    assert [compared(x, 1.0) for x in (0.79, 0.81, 1.24, 1.26)] == [
        "more accurate",
        "as accurate",
        "as accurate",
        "less accurate",
    ]
