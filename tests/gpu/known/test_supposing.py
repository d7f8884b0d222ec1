"""Sizes that depend on values which nobody computes: by an assumption, which is told, or not at all."""

import pytest
import torch
from torch.nn import functional as F

from every_byte.gpu.memory.assumptions import Assumptions
from utils import SimulatedGPU


def opened(*assume):
    return SimulatedGPU("a100-80gb", cuda=True, assume=assume)


def assumed(gpu):
    return {name.partition(" at ")[0] for name in gpu.trace.notes.assumed}


@pytest.mark.parametrize(("how", "n"), [("all", 600), ("none", 0), ("77", 77)])
def test_a_mask_has_as_many_elements_as_is_assumed(how, n):
    with opened(f"nonzero={how}") as gpu:
        x = torch.randn(100, 6, device="cuda")
        mask = x > 0
        assert x[mask].shape == (n,)
        assert mask.nonzero().shape == (n, 2)
        assert torch.masked_select(x, mask).shape == (n,)
        assert mask.sum().item() == n
        x[mask] = torch.randn(n, device="cuda")
        assert assumed(gpu) == {f"nonzero={how}"}
        assert not gpu.trace.notes.values_read


def test_what_is_known_of_a_mask_is_not_assumed():
    with opened() as gpu:
        lengths = torch.tensor([1, 3]).cuda()
        mask = torch.arange(4, device="cuda") < lengths[:, None]
        assert torch.randn(2, 4, device="cuda")[mask].shape == (4,)
        assert not gpu.trace.notes.assumed


@pytest.mark.parametrize(("how", "n"), [("all", 50), ("none", 1), ("7", 7)])
@pytest.mark.filterwarnings("ignore:aten::_unique2 is not modelled")
def test_as_many_values_differ(how, n):
    with opened(f"nonzero={how}"):
        assert (torch.randn(50, device="cuda") * 9).long().unique().shape == (n,)


def test_what_has_no_bound_is_refused():
    with opened(), pytest.raises(RuntimeError, match="must not depend on values that are computed: aten::bincount"):
        torch.randn(10, device="cuda").long().bincount()


def test_nothing_is_assumed_where_that_is_asked_for():
    with opened("nonzero=refuse", "routing=refuse") as gpu:
        x = torch.randn(10, device="cuda")
        for ask in (lambda: x[x > 0], lambda: x.topk(2).indices.bincount()):
            with pytest.raises(RuntimeError, match="must not depend on values"):
                ask()
        assert not gpu.trace.notes.assumed


def experts(x, chosen, n):
    """As transformers spells a mixture of experts: those of one expert are found, computed and added."""
    outputs = torch.zeros_like(x)
    mask = F.one_hot(chosen, n).permute(2, 1, 0)
    sizes = []
    for expert in mask.sum(dim=(-1, -2)).greater(0).nonzero():
        _, tokens = torch.where(mask[expert[0]])
        sizes.append(len(tokens))
        outputs.index_add_(0, tokens, x[tokens] * 2)
    return sizes


@pytest.mark.parametrize(("how", "sizes"), [("balanced", [16] * 8), ("worst", [64, 64])])
def test_a_router_spreads_tokens_as_is_assumed_and_as_if_it_were_known(how, sizes):
    with opened(f"routing={how}") as gpu:
        x = torch.randn(64, 512, device="cuda")
        chosen = torch.randn(64, 8, device="cuda").softmax(-1).topk(2).indices
        torch.cuda.reset_peak_memory_stats()
        assert experts(x, chosen, 8) == sizes
        peak = torch.cuda.max_memory_allocated()
        assert assumed(gpu) == {f"routing={how}"}
        given = torch.arange(128) % (8 if how == "balanced" else 2)
        chosen = given.view(64, 2).cuda()
        torch.cuda.reset_peak_memory_stats()
        assert experts(x, chosen, 8) == sizes
        assert torch.cuda.max_memory_allocated() == peak


def test_counts_of_a_router_come_to_the_host_as_they_were_assumed():
    with opened() as gpu:
        chosen = torch.randn(60, 6, device="cuda").topk(2).indices
        counts = chosen.flatten().bincount(minlength=6).tolist()
        assert counts == [20] * 6
        assert torch.randn(120, 8, device="cuda").split(counts)[5].shape == (20, 8)
        assert assumed(gpu) == {"routing=balanced"}
        assert not gpu.trace.notes.values_read


def test_scores_over_a_vocabulary_are_no_routers():
    with opened() as gpu:
        with pytest.warns(UserWarning, match="nothing is computed"):
            torch.randn(4, 5000, device="cuda").topk(3).indices.tolist()
        assert not gpu.trace.notes.assumed


def test_assumptions_are_read():
    assert Assumptions.read(["nonzero=12", "routing=worst"]) == Assumptions(12, "worst")
    for wrong in ("nonzero=half", "routing=all", "nonzero", "values=1"):
        with pytest.raises(ValueError, match="an assumption must be nonzero=all"):
            Assumptions.read([wrong])
