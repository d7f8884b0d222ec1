"""What each small remedy brings, in bytes that can be added up by hand."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from utils.experiments.held import (
    ENDS,
    KEPT,
    in_evaluation,
    kept_by_exception,
    kept_by_hook,
    list_of_losses,
    sum_of_losses,
)
from utils.experiments.small_remedies import (
    kept_by_layer,
    linear_cross_entropy,
    logits_let_go,
    rows_of_liger,
    saved_on_cpu,
    set_to_none,
)
from utils.layers import LinearStack
from utils.models.adapters import ATTENTION, EVERY_LINEAR
from utils.models.llama import SIZES, Llama

B, D, N_LAYERS, N_OUT = 64, 100, 201, 10  # of a LinearStack: each Linear but the last has D outputs
OUTPUTS = 4 * B * (N_LAYERS * D + N_OUT)
T = 1024
SEEDS = 16  # bytes that an H200's flash attention keeps, two of uint64


@pytest.mark.long
def test_gradients_that_are_gone_are_in_neither_instant():
    changes = set_to_none()
    model = Llama.from_name("llama-3.2-1b", device="meta")
    gradients = sum(2 * parameter.numel() for parameter in model.parameters())
    assert changes["end of forward"].saved_bytes == gradients
    assert changes["peak"].saved_bytes == gradients  # the loss's backward, where no other gradient is there yet


@pytest.mark.long
def test_logits_without_a_name_are_two_bytes_a_number_less():
    changes = logits_let_go()
    assert {change.saved_bytes for change in changes.values()} == {2 * 2048 * SIZES["llama-3.2-1b"]["vocabulary_size"]}


@pytest.mark.parametrize(
    ("rank", "names", "a_token"),
    [
        (0, (), 168_072),
        (8, ("q", "v"), 131_240),
        (16, ("q", "v"), 131_272),
        (8, ATTENTION, 131_272),
        (8, EVERY_LINEAR, 168_184),
        (16, EVERY_LINEAR, 168_296),
    ],
)
def test_what_a_layer_keeps_with_adapters(rank, names, a_token):
    """A frozen MLP does not keep the inputs of its Linears; what attention's out takes, attention keeps anyway."""
    d, f = SIZES["llama-3-8b"]["d_model"], SIZES["llama-3-8b"]["d_mlp"]
    not_kept = 2 * d + 2 * f if rank and "gate" not in names else 0
    assert a_token == 168_072 - not_kept + 2 * rank * len(names)
    assert kept_by_layer(rank, names, s=T) == a_token * T + SEEDS


def test_save_on_cpu_packs_weights_and_shared_inputs_each_time():
    found, s = saved_on_cpu(), 8192
    model = Llama.from_name("llama-3-8b", n_layers=1, device="meta")
    assert found.weights_bytes == sum(2 * parameter.numel() for parameter in model.blocks.parameters())
    x, table = 2 * s * 4096, 2 * s * 128
    assert found.once_bytes == 168_072 * s + SEEDS + 2 * table
    # once more: norm1's output for k and v, norm2's for up, attention's for out, each table for keys
    assert found.packed_bytes == found.once_bytes + found.weights_bytes + 4 * x + 2 * table
    assert found.held.before_bytes == found.once_bytes - x - 2 * table
    assert found.held.after_bytes == 0
    assert found.backward.saved_bytes > 0


def test_pytorchs_chunks_keep_both_gradients_and_nothing_else():
    rows, d, V = 1000, 64, 1000
    whole, chunked = (
        linear_cross_entropy(T=rows, d=d, V=V, dtype=torch.float32, in_chunks=is_on) for is_on in (False, True)
    )
    assert whole.kept_bytes == 4 * rows * V + 8  # log-probabilities, the loss, its weight
    assert chunked.kept_bytes == 4 * (rows * d + V * d) + 4
    assert chunked.backward_bytes == 2 * chunked.kept_bytes - 4 + 4
    assert chunked.forward_bytes < whole.forward_bytes


def test_ligers_rows_and_pytorchs_half_of_them():
    sizes = {"T": 8192, "d": 4096, "V": 128_256}
    assert rows_of_liger(**sizes) == 256
    options = nn.LinearCrossEntropyOptions(chunking_method="aspect_ratio")
    for n, d, V in ((8192, 4096, 128_256), (8192, 4096, 151_936), (1000, 64, 1000), (7, 64, 1000), (4096, 4096, 4096)):
        theirs = options._compute_batch_chunk_size(n, d, V, "aspect_ratio")
        assert min(n, rows_of_liger(T=n, d=d, V=V)) == theirs
        halves = options._compute_batch_chunk_size(n, d, V, "aspect_ratio:2")
        assert halves == min(n, rows_of_liger(T=n, d=d, V=V) // 2)
    with pytest.raises(ValueError, match="T must be"):
        rows_of_liger(T=0, d=4096, V=128_256)


def test_an_evaluation_without_gradients_keeps_nothing():
    change = in_evaluation()
    assert change.before_bytes == OUTPUTS - 4 * B * N_OUT  # each Linear's input but the first, which has a name
    assert change.after_bytes == 0


@pytest.mark.nightly
def test_a_list_of_losses_holds_graphs_where_none_was_walked():
    graph = OUTPUTS + 4 * B * D  # the batch too, which has no other name
    assert list_of_losses("the loss") == graph + 4
    assert [list_of_losses(keep, torch.no_grad) for keep in KEPT] == [4, 4, 0]
    assert [list_of_losses(keep, nullcontext, trains=True) for keep in KEPT] == [4, 4, 0]
    assert list_of_losses(".detach()") == 4


@pytest.mark.long
def test_a_sum_of_losses_holds_nothing_once_backward_is_through():
    assert sum_of_losses() == 0
    assert sum_of_losses(trains=False) == OUTPUTS + 4 * B * D


@pytest.mark.long
def test_a_hook_keeps_outputs_and_detach_does_not_help():
    stack = LinearStack(device="meta")
    n_layers = sum(isinstance(module, nn.Linear) for module in stack.modules())
    assert kept_by_hook(lambda output: output) == OUTPUTS
    assert kept_by_hook(lambda output: output.detach()) == OUTPUTS
    assert kept_by_hook(lambda output: output.detach().mean()) == 4 * n_layers
    assert kept_by_hook(lambda output: output.shape) == 0


def test_an_exception_holds_what_its_frames_do():
    inside, behind, named = (kept_by_exception(end) for end in ENDS)
    assert inside == named == OUTPUTS
    assert behind == 0
    with pytest.raises(ValueError, match="end must be one of inside except"):
        kept_by_exception("finally")
