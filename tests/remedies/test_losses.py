"""Losses of a head: the numbers of each beside those of all logits at once, on the CPU."""

import pytest
import torch
from torch import nn

from every_byte.remedies.losses import fused_chunks, half_logits, recomputed_chunks, whole_logits

ROWS = 7  # of 20: the last chunk is smaller
LOSSES = {
    "half": half_logits,
    "recomputed": recomputed_chunks(ROWS),
    "fused": fused_chunks(ROWS),
    "recomputed at once": recomputed_chunks(20),
}
V, D = 37, 12


def numbers(loss, dtype=torch.float32, *, is_frozen=False, all_count=True):
    """The loss, the gradient of what the head is given, and of its weight."""
    torch.manual_seed(0)
    head = nn.Linear(D, V, bias=False, dtype=dtype).requires_grad_(not is_frozen)
    h = torch.randn(2, 10, D, dtype=dtype, requires_grad=True)
    targets = torch.randint(V, (2, 10))
    if not all_count:
        targets[0, 3:8] = -1
    value = loss(h, head, targets)[-1]
    value.backward()
    return value.detach(), h.grad, head.weight.grad


@pytest.mark.parametrize("all_count", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_in_float32_each_gives_the_numbers_of_all_logits(name, all_count):
    found, expected = numbers(LOSSES[name], all_count=all_count), numbers(whole_logits, all_count=all_count)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)  # float32, sums in another order


def test_in_float32_what_is_not_cast_changes_no_bit():
    for one, other in zip(numbers(half_logits), numbers(whole_logits), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("all_count", [True, False])
def test_in_bfloat16_recomputed_chunks_change_the_heads_gradient_alone(all_count):
    (_, of_h, of_head), (_, of_h_whole, of_head_whole) = (
        numbers(loss, torch.bfloat16, all_count=all_count) for loss in (LOSSES["recomputed"], whole_logits)
    )
    assert torch.equal(of_h, of_h_whole)  # a row's own: no other chunk has a part in it
    assert not torch.equal(of_head, of_head_whole)  # each of three chunks' sums is rounded to 8 bits
    torch.testing.assert_close(of_head, of_head_whole, rtol=2**-6, atol=2**-8 * of_head_whole.abs().max().item())


def test_one_chunk_of_all_rows_changes_no_gradient_in_bfloat16():
    found, whole = (numbers(loss, torch.bfloat16) for loss in (LOSSES["recomputed at once"], whole_logits))
    assert torch.equal(found[1], whole[1])
    assert torch.equal(found[2], whole[2])


@pytest.mark.parametrize("name", LOSSES)
def test_a_frozen_head_has_no_gradient_and_its_input_the_same(name):
    _, of_h, of_head = numbers(LOSSES[name], is_frozen=True)
    assert of_head is None
    assert torch.equal(of_h, numbers(LOSSES[name])[1])


def test_fused_chunks_are_scaled_by_the_gradient_of_the_loss():
    one = numbers(lambda *args: (3 * LOSSES["fused"](*args)[0],))
    for tripled, plain in zip(one, numbers(LOSSES["fused"]), strict=True):
        torch.testing.assert_close(tripled, 3 * plain)


def test_the_loss_in_bfloat16_has_8_bits():
    value = numbers(half_logits, torch.bfloat16)[0]
    assert value.dtype == torch.bfloat16
    for loss in (whole_logits, LOSSES["recomputed"], LOSSES["fused"]):
        assert numbers(loss, torch.bfloat16)[0].dtype == torch.float32
