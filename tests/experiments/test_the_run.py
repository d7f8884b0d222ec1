"""The run that opens the book: what it takes, and which changes let it fit."""

import pytest
import torch

from every_byte.remedies import losses
from every_byte.units import MiB
from utils.experiments.the_run import frozen, tried, tried_on_ranks
from utils.models.data_parallel import fully_sharded
from utils.models.gpt import GPT
from utils.models.regions import set_regions


def with_checkpoints(model):
    return set_regions(model, "every block")


@pytest.mark.parametrize(
    ("change", "fits"),
    [
        ({}, False),
        ({"b": 11}, False),
        ({"b": 10}, True),
        ({"act_fn": "relu"}, False),
        ({"act_fn": "relu", "allocator": "expandable_segments:True"}, True),
        ({"autocast": torch.float16}, True),
        ({"wrap": with_checkpoints}, True),
        ({"b": 6, "micro_batches": 2}, True),
        ({"b": 11, "micro_batches": 2}, False),
        ({"wrap": frozen(range(6))}, True),
        ({"wrap": frozen(range(6, 12))}, False),
        ({"loss": losses.fused_chunks(1024)}, True),
    ],
)
def test_which_changes_let_it_fit(change, fits):
    assert tried("so", **change).verdict.fits == fits


def test_the_gradients_of_the_first_of_two_micro_batches_are_there_in_the_second():
    one, two = (tried("so", b=6, micro_batches=number).at_peak.parts for number in (1, 2))
    assert "gradients" not in one
    assert two["gradients"] == one["parameters"]


def test_relu_drops_one_tensor_of_each_block():
    less = tried("GELU").at_peak.requested_bytes - tried("ReLU", act_fn="relu").at_peak.requested_bytes
    assert less == 12 * 4 * 4 * 12 * 1024 * 768


@pytest.mark.parametrize(
    ("blocks", "embeddings"), [(range(6), True), ([0], True), (range(6, 12), False), ([], False), ([11], False)]
)
def test_frozen_freezes_its_blocks_and_with_the_first_the_embeddings(blocks, embeddings):
    model = GPT(vocabulary_size=8, context_length=4, d_model=4, n_heads=1)
    assert frozen(blocks)(model) is model
    names = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    expected = {f"blocks.{n}.{name}" for n in blocks for name, _ in model.blocks[n].named_parameters()}
    assert names == expected | ({"tokens.weight", "positions.weight"} if embeddings else set())
    assert model.head.weight.requires_grad != embeddings  # it shares the token embedding's weight


def test_a_block_that_there_is_not_is_not_frozen():
    with pytest.raises(IndexError):
        frozen([12])(GPT(vocabulary_size=8, context_length=4, d_model=4, n_heads=1))


def test_it_prints_in_one_line():
    assert str(tried("as it is", b=10)) == ("as it is                     peak 12.87 GiB, needs 13.89 of 14.03: fits")
    assert str(tried("as it is")).endswith("out of memory in step 1 backward")
    assert tried("as it is").verdict.margin_bytes < -2_000 * MiB


N = 124_373_760


def parts(found):
    """What the ledger has at the peak, without what the allocator rounds up."""
    return {name: n_bytes for name, n_bytes in found.at_peak.parts.items() if name != "slack"}


@pytest.mark.parametrize("views", [False, True])
def test_on_two_cards_ddp_adds_its_buckets_and_nothing_else(views):
    alone, shared = tried("alone", b=6), tried_on_ranks("DDP", gradient_as_bucket_view=views)
    more = {name: parts(shared)[name] - parts(alone).get(name, 0) for name in parts(shared)}
    assert more.pop("gradient buckets") == 4 * N
    assert all(abs(n_bytes) < 10_000 for n_bytes in more.values()), more
    assert shared.verdict.fits


def test_on_two_cards_activations_halve_and_states_do_not():
    alone, shared = parts(tried("alone")), parts(tried_on_ranks("DDP"))
    assert abs(2 * shared["activations"] - alone["activations"]) < 20_000
    assert shared["parameters"] == alone["parameters"] == 4 * N
    assert shared["optimizer state"] == alone["optimizer state"]


def test_fsdp_halves_the_states_and_has_the_root_and_a_block_gathered_at_the_peak():
    alone, shared = tried("alone", b=6), tried_on_ranks("FSDP2", engine=fully_sharded)
    before, after = parts(alone), parts(shared)
    assert 2 * after["parameters"] == before["parameters"]
    assert 2 * (after["optimizer state"] - 300) == before["optimizer state"] - 300  # the fused AdamW's counts of steps
    assert after["gathered parameters"] == 4 * (768 * (50_304 + 1024 + 1) + 12 * 768**2 + 2 * 768)
    assert "gradient buckets" not in after
    assert alone.at_peak.allocated_bytes - shared.at_peak.allocated_bytes > 480 * MiB


def test_it_needs_less_on_two_cards_than_with_checkpoints_on_one():
    needed = [
        tried_on_ranks("FSDP2", engine=fully_sharded).verdict.needed_bytes,
        tried_on_ranks("DDP").verdict.needed_bytes,
        tried("checkpoints", wrap=with_checkpoints).verdict.needed_bytes,
    ]
    assert needed == sorted(needed)


@pytest.mark.parametrize(("b", "fits"), [(9, True), (10, False)])
def test_the_buckets_take_the_place_of_a_sequence(b, fits):
    """Alone, a card has room for ten."""
    assert tried_on_ranks("DDP", b=b).verdict.fits == fits


def test_the_batch_must_divide():
    with pytest.raises(ValueError, match="n must divide the 12 sequences: got n=5; give b"):
        tried_on_ranks("five cards", 5)
