"""A Block and a GPT split over ranks: what each rank holds, computes and takes, and what is refused."""

import re

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor

from every_byte.gpu.ranks import by_rank, ranks
from utils import GPT, MLP, Block, Ledger, SimulatedGPU
from utils.models.regions import set_regions
from utils.models.tensor_parallel import own_share, tensor_parallel

SEQUENCE = pytest.mark.parametrize("sequence", [False, True], ids=["tensor", "sequence"])


def small_gpt(gpu, **settings):
    return GPT(128, 32, 64, 2, 8, device=gpu.device, dtype=torch.bfloat16, **settings)


@pytest.mark.long
@SEQUENCE
@pytest.mark.parametrize("t", [1, 2, 4, 8])
def test_a_block_s_share(sequence, t):
    d, s = 64, 32
    with SimulatedGPU("a100-80gb") as gpu, ranks(t, t - 1) as mesh:
        block = tensor_parallel(Block(d, 8, "gelu", device=gpu.device), mesh, sequence=sequence)
        x = torch.randn(2, s // t if sequence else s, d, device=gpu.device, requires_grad=True)
        y = block(x)
        y.sum().backward()
        assert block.attention.n_heads == 8 // t
        assert y.shape == x.grad.shape == x.shape
        assert all(isinstance(p, DTensor) and isinstance(p.grad, DTensor) for p in block.parameters())
        split = 12 * d * d + 3 * d + 4 * d  # the weights, and the biases of qkv and up
        whole = 2 * d + 4 * d  # the biases of out and down, and the norms
        assert Ledger.now(gpu).parts["parameters"] == 4 * (split // t + whole)
    assert not gpu.unmodelled


@pytest.mark.long
@SEQUENCE
@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
def test_a_gpt_trains(sequence, kind):
    """All parameters are DTensors, as foreach optimizers ask; the token embedding and the head are one again."""
    t = 4
    with SimulatedGPU("a100-80gb") as gpu, ranks(t) as mesh:
        model = tensor_parallel(small_gpt(gpu, kind=kind, dropout_prob=0.1), mesh, sequence=sequence)
        assert model.head.weight is model.tokens.weight
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            tokens, targets = (torch.randint(128, (2, 32), device=gpu.device) for _ in range(2))
            logits, loss = model(tokens, targets)
            assert logits.to_local().shape == (2, 32, 128 // t)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        parts = Ledger.now(gpu).parts
        n = 128 * 64 // t + 32 * 64 + 2 * (12 * 64 * 64 // t + 2 * 64) + 64
        assert (parts["parameters"], parts["optimizer state"]) == (2 * n, 4 * n)
    assert not gpu.unmodelled


@pytest.mark.long
@pytest.mark.parametrize("regions", ["every block", "attention only"])
def test_regions_may_be_set_before_or_after(regions):
    kept = []
    for steps in ((set_regions, tensor_parallel), (tensor_parallel, set_regions)):
        with SimulatedGPU("a100-80gb") as gpu, ranks(4) as mesh:
            model, settings = small_gpt(gpu), {set_regions: regions, tensor_parallel: mesh}
            for step in steps:
                step(model, settings[step])
            tokens = torch.zeros(2, 32, dtype=torch.int64, device=gpu.device)
            loss = model(tokens, tokens)[1]
            kept.append(Ledger.now(gpu).parts["activations"])
            loss.backward()
    assert kept[0] == kept[1]


def test_a_rank_s_rows_of_qkv_are_those_of_its_heads():
    """Of q's, k's and v's rows, a quarter each; not the first quarter of all, which would be three parts of q."""

    def share(gpu, mesh):
        return own_share(torch.arange(24), mesh, 0, parts=3).tolist()

    rows = by_rank(share, 4)
    assert rows[0] == [0, 1, 8, 9, 16, 17]
    assert rows[3] == [6, 7, 14, 15, 22, 23]


def refused(model, t, **settings):
    with SimulatedGPU("a100-80gb") as gpu, ranks(t) as mesh:
        made = model(gpu)
        tensor_parallel(made, mesh, **settings)
        return made(torch.zeros(2, 30, dtype=torch.int64, device=gpu.device))


@pytest.mark.parametrize(
    ("model", "t", "message"),
    [
        (
            lambda gpu: Block(64, 4, "gelu", device=gpu.device),
            3,
            "the number of ranks must divide n_heads: got 3 ranks, n_heads=4; take 2 ranks, or 6 heads for 3.",
        ),
        (
            lambda gpu: Block(64, 1, "gelu", device=gpu.device),
            2,
            "the number of ranks must divide n_heads: got 2 ranks, n_heads=1; take 1 rank, or 2 heads for 2.",
        ),
        (
            lambda gpu: GPT(129, 32, 64, 1, 8, device=gpu.device),
            2,
            "the number of ranks must divide vocabulary_size: got 2 ranks, vocabulary_size=129; take 1 rank, or 130 "
            "tokens, unused ones at the end, for 2.",
        ),
    ],
)
def test_ranks_that_do_not_divide(model, t, message):
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        refused(model, t)


def test_positions_that_ranks_do_not_divide():
    message = "the number of ranks must divide the positions, with sequence=True: got 4 ranks, s=30; take s=28."
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        refused(small_gpt, 4, sequence=True)


def test_a_model_that_is_split_already():
    with SimulatedGPU("a100-80gb") as gpu, ranks(2) as mesh:
        block = tensor_parallel(Block(64, 4, "gelu", device=gpu.device), mesh)
        with pytest.raises(ValueError, match="model must be whole: this one is split over ranks already"):
            tensor_parallel(block, mesh)


def test_another_model():
    with pytest.raises(TypeError, match="model must be a Block or a GPT of this book: got MLP"):
        refused(lambda gpu: MLP(64, "gelu", device=gpu.device), 2)
