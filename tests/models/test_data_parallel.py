"""DDP, ZeRO's optimizer and FSDP2 on ranks: what they share, in which buckets, and that real ranks agree with one."""

import warnings

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torchrun import SUMMED_IN_ANOTHER_ORDER, Run

from every_byte.gpu.ranks import by_rank, ranks
from every_byte.units import MiB
from utils import GPT, Ledger, SimulatedGPU
from utils.experiments.training import StepSettings, random_tokens, train_steps
from utils.models.data_parallel import fully_sharded, rank_parameters, replicated, states_sharded


def small_gpt(gpu, **settings):
    return GPT(100, 16, 8, 2, 1, device=gpu.device, **settings)


def one_step(gpu, model):
    tokens = torch.zeros(1, 16, dtype=torch.int64, device=gpu.device)
    model(tokens, tokens)[1].backward()


@pytest.mark.nightly
@pytest.mark.parametrize("n", [2])
def test_real_ranks_agree_with_one_process_and_hold_what_simulated_ranks_hold(n, tmp_path):
    """Two steps of Adam: losses, gradients, parameters; bytes of these, of Adam's state, of what autograd keeps."""
    run = Run(n, tmp_path, script="data_rank_program.py")
    assert run.status == 0, run.printed
    assert not run.left
    assert len(run.written) == n
    for found in run.written:
        assert len(found) == 6
        for item in found.values():
            assert max(item[name] for name in ("losses", "gradients", "parameters")) < SUMMED_IN_ANOTHER_ORDER
            assert item["held"] == item["held by the simulated rank"]
            assert all(n_bytes > 0 for n_bytes in item["held"].values())


@pytest.mark.parametrize("view", [False, True])
def test_buckets_are_views_or_are_not(view):
    with SimulatedGPU("a100-80gb") as gpu, ranks(4) as mesh:
        model = replicated(small_gpt(gpu), mesh, gradient_as_bucket_view=view)
        for _ in range(3):
            one_step(gpu, model)
            storages = {parameter.grad.untyped_storage()._cdata for parameter in model.parameters()}
            assert (len(storages) == 1) == view
            model.zero_grad()


def buckets(trace, mark):
    return sorted(row.n_bytes for row in Ledger.at(trace, mark).of(category="gradient buckets").rows)


def test_one_bucket_at_first_then_of_1_and_of_25_mib():
    with SimulatedGPU("a100-80gb") as gpu, ranks(2) as mesh:
        made = []

        def make_model():
            made.append(GPT(1000, 64, 512, 5, 8, device=gpu.device))
            return replicated(made[0], mesh)

        train_steps(gpu, make_model, lambda: random_tokens(gpu, b=1, s=64, V=1000), n_steps=2)
        sizes = [4 * p.numel() for p in made.pop().parameters()]
    assert buckets(gpu.trace, "step 1 backward") == [sum(sizes)]
    later = buckets(gpu.trace, "step 2 backward")
    assert sum(later) == sum(sizes)
    assert len(later) == 4
    # a bucket takes tensors until it has its size: the first 4d^2 of down and up are 4 MiB each, the last one the rest
    assert later[-2] >= 25 * MiB > later[-2] - max(sizes)
    assert all(size >= 1 * MiB for size in later[1:])


def test_what_a_rank_updates_is_what_zero_s_optimizer_says():
    def parts(gpu, mesh):
        model = replicated(small_gpt(gpu, bias=True), mesh)
        optimizer = states_sharded(model, mesh)
        theirs = [[p for group in groups for p in group["params"]] for groups in optimizer._partition_parameters()]
        ours = rank_parameters(model, mesh.size())
        assert [[id(p) for p in part] for part in ours] == [[id(p) for p in part] for part in theirs]
        one_step(gpu, model)
        optimizer.step()
        state = Ledger.now(gpu).parts["optimizer state"]
        assert state == 2 * 4 * sum(p.numel() for p in ours[mesh.get_local_rank()])
        return state

    shares = by_rank(parts, 5)
    assert sum(shares) == 2 * 4 * (8 * 116 + 2 * (12 * 64 + 13 * 8) + 16)
    assert len(set(shares)) > 1, "whole tensors cannot be shared evenly"


def test_fsdp2_s_shares_and_what_it_gathers():
    with SimulatedGPU("a100-80gb") as gpu, ranks(4) as mesh:
        model = small_gpt(gpu)
        whole = Ledger.now(gpu).parts["parameters"]
        assert fully_sharded(model, mesh) is model
        assert model.head.weight is model.tokens.weight
        assert all(isinstance(parameter, DTensor) for parameter in model.parameters())
        assert Ledger.now(gpu).parts["parameters"] == whole / 4 == gpu.memory_stats()["requested_bytes.all.current"]
        tokens = torch.zeros(1, 16, dtype=torch.int64, device=gpu.device)
        loss = model(tokens, tokens)[1]
        outside = 4 * (8 * 116 + 8)
        assert Ledger.now(gpu).parts["gathered parameters"] == outside
        loss.backward()
        parts = Ledger.now(gpu).parts
        assert "gathered parameters" not in parts
        assert parts["gradients"] == whole / 4
    assert not gpu.unmodelled


def test_fsdp2_s_gradients_on_their_way():
    """At the moment before a block's are exchanged: its own, whole, and the buffer that takes them all."""
    with SimulatedGPU("a100-80gb") as gpu, ranks(4) as mesh:
        one_step(gpu, fully_sharded(small_gpt(gpu), mesh))
        taken = [e for e in gpu.trace if e.action == "alloc" and "_chunk_cat" not in e.operation]
        block = 4 * (12 * 64 + 2 * 8)
        positions = [gpu.trace.events.index(e) + 1 for e in taken if e.n_bytes == block and e.phase == "backward"]
        parts = [Ledger.at(gpu.trace, position).parts for position in positions]
    assert any(p.get("gradient buckets") == block and p["gradients"] >= block for p in parts)


def test_accumulated_gradients_stay_shared():
    """FSDP2 adds each micro-batch's to its share."""
    with SimulatedGPU("a100-80gb") as gpu, ranks(4) as mesh:
        train_steps(
            gpu,
            lambda: fully_sharded(small_gpt(gpu), mesh),
            lambda: random_tokens(gpu, b=1, s=16, V=100),
            StepSettings(micro_batches=3),
            n_steps=1,
        )
        marks = [f"step 1 micro {micro} backward" for micro in (1, 2, 3)]
        shared = {Ledger.at(gpu.trace, mark).parts["gradients"] for mark in marks}
    assert shared == {8 * 116 + 8 + 2 * (12 * 64 + 2 * 8)}


def test_a_model_without_blocks():
    with SimulatedGPU("a100-80gb") as gpu, ranks(2) as mesh:
        model = fully_sharded(nn.Linear(8, 8, device=gpu.device), mesh)
        model(torch.ones(2, 8, device=gpu.device)).sum().backward()
        assert Ledger.now(gpu).parts["gradients"] == 4 * (64 + 8) / 2


def test_nothing_warns_of_values():
    """DDP reads numbers from the GPU to compare models and to sort buckets: these the ranks have told each other."""
    with SimulatedGPU("a100-80gb") as gpu, ranks(4) as mesh, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = replicated(small_gpt(gpu), mesh)
        for _ in range(2):
            one_step(gpu, model)
            model.zero_grad()
    assert not caught


def test_frozen_models_have_nothing_to_exchange():
    with SimulatedGPU("a100-80gb") as gpu, ranks(2) as mesh:
        model = small_gpt(gpu).requires_grad_(False)
        with pytest.raises(RuntimeError, match="DistributedDataParallel is not needed when a module doesn't have any"):
            replicated(model, mesh)
