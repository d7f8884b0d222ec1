"""Training on a mesh of ranks: real ones agree with one process, and what the simulated ones say of a GPU's size."""

import re
from itertools import accumulate

import pytest
import torch
from torchrun import SUMMED_IN_ANOTHER_ORDER, Run

from every_byte.gpu.capacity import fit
from every_byte.gpu.ranks import ranks
from utils import SimulatedGPU
from utils.experiments import mesh_step
from utils.experiments.mesh_step import MeshStep
from utils.models.data_parallel import fully_sharded, replicated
from utils.models.gpt import GPT
from utils.models.regions import set_regions
from utils.models.tensor_parallel import plain_shares, tensor_parallel

SMALL = dict(model="small", t=2, b=2, s=128, n=4)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(mesh_step.SHAPES, "small", {"L": 3, "d": 256, "a": 8, "V": 4096})


@pytest.mark.nightly
def test_two_groups_of_two_real_ranks_agree_with_one_process(tmp_path):
    """Two steps of Adam, DDP and FSDP2 over tensor parallel: losses, gradients, parameters."""
    run = Run(4, tmp_path, script="mesh_rank_program.py")
    assert run.status == 0, run.printed
    assert not run.left
    assert len(run.written) == 4
    for found in run.written:
        assert list(found) == ["DDP, tensor", "DDP, sequence", "FSDP2, tensor", "FSDP2, sequence"]
        for item in found.values():
            assert item.pop("ranks") == 4
            assert max(item.values()) < SUMMED_IN_ANOTHER_ORDER


@pytest.mark.long
@pytest.mark.parametrize("stage", ["none", "0", "3"])
def test_a_third_step_asks_for_the_same(small, stage):
    """What is held does not grow from step to step, or the verdict would be another."""
    run = MeshStep(**SMALL, stage=stage).run()
    ends = [f"step {i} zero_grad" for i in range(1, run.step.n_steps + 1)]
    held = [run.trace.requested_bytes(run.trace.position(end)) for end in ends]
    assert held[-2] == held[-1]


def test_a_rank_needs_room_for_its_share_alone(small):
    """The whole model, which the simulated run makes and cuts, is not part of it."""
    run = MeshStep(**SMALL | {"t": 8, "b": 1, "s": 16}, stage="none").run()
    whole = fit(run.trace, run.step.spec, after=run.after, until=run.until)
    assert run.fit().needed_bytes < whole.needed_bytes
    peak = run.trace.peak_position(after=run.after, until=run.until)
    assert run.trace.requested_bytes(peak) < run.fit().needed_bytes


@pytest.mark.long
def test_segments_of_streams_do_not_serve_one_another(small):
    """FSDP2 gathers in a stream of its own: what is free in another is of no use to it."""
    run = MeshStep(**SMALL, stage="3").run()
    assert {event.stream for event in run.trace if event.action == "alloc"} > {0}
    apart = run.fit().needed_bytes
    for event in run.trace:
        event.stream = 0
    assert run.fit().needed_bytes < apart


def test_what_one_replay_needs_is_what_the_run_reserved(small):
    """The allocator of the run and that of the verdict are asked for the same, in the same streams."""
    step = MeshStep(**SMALL, stage="3")
    run = step.run()
    assert fit(run.trace, step.spec, after=run.after, until=run.until).needed_bytes == max(reserved(run.trace))


def test_nothing_of_the_whole_model_stays_reserved(small):
    """But what shares its segment with a share."""
    run = MeshStep(**SMALL | {"t": 8}, stage="none").run()
    made = run.trace.position("model")
    assert reserved(run.trace)[made] < max(reserved(run.trace)[:made]) / 2


def reserved(trace):
    """What the allocator has of the driver after each event."""
    signs = {"segment_alloc": 1, "segment_free": -1}
    return list(accumulate(signs.get(event.action, 0) * event.n_bytes for event in trace.events))


def test_stage_2_has_no_engine(small):
    with pytest.raises(
        ValueError, match=r"PyTorch has no engine for ZeRO's stage 2, so there is only the prediction\."
    ):
        MeshStep(**SMALL, stage="2").run()


def test_ranks_without_data_parallelism_are_one_group(small):
    assert MeshStep(**SMALL, stage="none").n_ranks == 2
    assert MeshStep(**SMALL, stage="0").n_ranks == 8


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"model": "23B"}, "must be one of 22B, 175B"),
        ({"gpu": "a100"}, "a100-80gb"),
        ({"stage": 3}, "stage must"),
        ({"n": 1}, "n must be 2 groups or more: got n=1; without data parallelism, stage='none'."),
        ({"t": "2"}, "t must be a positive integer"),
    ],
)
def test_names_are_checked_at_once(setting, message):
    with pytest.raises(ValueError, match=message):
        MeshStep(**setting)


def test_ddp_refuses_dtensors_and_says_what_to_do():
    with SimulatedGPU("a100-80gb") as gpu, ranks(4) as mesh:
        model = tensor_parallel(GPT(128, 16, 64, 2, 4, device=gpu.device), mesh)
        with pytest.raises(TypeError, match=re.escape("call plain_shares(model) first")):
            replicated(model, mesh)
        tokens = torch.zeros(1, 16, dtype=torch.int64, device=gpu.device)
        wrapped = replicated(plain_shares(model), mesh)
        before = list(wrapped.parameters())
        for _ in range(2):
            wrapped(tokens, tokens)[1].backward()
        assert [id(x) for x in wrapped.parameters()] == [id(x) for x in before]
        assert all(x.grad is not None for x in before)
        assert model.head.parametrizations.weight.original is model.tokens.parametrizations.weight.original


def test_what_has_plain_shares_already_or_never_can():
    with SimulatedGPU("a100-80gb") as gpu, ranks(4) as mesh:
        model = plain_shares(tensor_parallel(GPT(128, 16, 64, 2, 4, device=gpu.device), mesh))
        with pytest.raises(ValueError, match="model must be whole: this one is split over ranks already"):
            tensor_parallel(model, mesh)
        sharded = fully_sharded(GPT(128, 16, 64, 2, 4, device=gpu.device), mesh)
        with pytest.raises(TypeError, match="that tensor_parallel has split: got FSDPGPT"):
            plain_shares(sharded)
        with pytest.raises(TypeError, match="a model of fully_sharded needs no DDP"):
            replicated(sharded, mesh)


def test_a_frozen_parameter_stays_frozen():
    with SimulatedGPU("a100-80gb") as gpu, ranks(4) as mesh:
        model = tensor_parallel(GPT(128, 16, 64, 2, 4, device=gpu.device), mesh)
        model.norm.weight.requires_grad_(False)
        plain_shares(model)
        assert [name for name, p in model.named_parameters() if not p.requires_grad] == [
            "norm.parametrizations.weight.original"
        ]


@pytest.mark.parametrize("regions", ["every block", "attention only"])
def test_a_model_with_regions_may_be_sharded(regions):
    kept = []
    for shard_first in (True, False):
        with SimulatedGPU("a100-80gb") as gpu, ranks(4) as mesh:
            model = GPT(128, 16, 64, 3, 4, device=gpu.device)
            if shard_first:
                set_regions(fully_sharded(model, mesh), regions)
            else:
                fully_sharded(set_regions(model, regions), mesh)
            tokens = torch.zeros(1, 16, dtype=torch.int64, device=gpu.device)
            loss = model(tokens, tokens)[1]
            kept.append(gpu.memory_stats()["requested_bytes.all.current"])
            loss.backward()
    assert kept[0] == kept[1]
