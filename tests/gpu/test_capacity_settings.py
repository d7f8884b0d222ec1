"""Whether a run fits by the settings of the allocator: as a simulated GPU of that size has it, with these settings."""

import random
from dataclasses import replace
from math import gcd

import pytest
import torch

from every_byte.gpu.capacity import Fit, Room, fit
from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.requests import MOST_REPEATS, SEGMENT_STEP_BYTES
from every_byte.ledger.events import Event
from every_byte.ledger.trace import Trace
from every_byte.units import MiB
from utils import GPT, SimulatedGPU
from utils.experiments.gpt_step import GPTStep
from utils.experiments.training import StepSettings, random_tokens, train_steps

pytestmark = pytest.mark.sampled(3, slow=True)

V, S, D, N_LAYERS, HEADS = 5001, 96, 192, 4, 3
A100 = find_spec("a100-80gb")
STEP_2 = {"after": "step 1 zero_grad", "until": "step 2 zero_grad"}
SETTINGS = [
    "expandable_segments:True",
    "max_split_size_mb:20",
    "max_split_size_mb:24,max_non_split_rounding_mb:22",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[2:8,>:2]",
    "large_segment_size_mb:11",
    "expandable_segments:True,large_segment_size_mb:12",
    "expandable_segments:True,roundup_power2_divisions:8",
]
FREE = 0


def of_capacity(capacity_bytes, context_bytes=A100.context_bytes):
    return replace(A100, name="small", total_bytes=context_bytes + capacity_bytes, context_bytes=context_bytes)


def train(spec, settings, *, n_steps, b=4):
    with SimulatedGPU(spec, settings=settings) as gpu:
        train_steps(
            gpu,
            lambda: GPT(V, S, D, N_LAYERS, HEADS, device=gpu.device),
            lambda: random_tokens(gpu, b=b, s=S, V=V),
            StepSettings(),
            n_steps=n_steps,
        )
    return gpu


@pytest.fixture(scope="module")
def trace():
    """Of the default settings: what is asked for is the same with any."""
    return train(A100, "", n_steps=2, b=64).trace


def runs_on(capacity_bytes, settings) -> bool:
    try:
        train(of_capacity(capacity_bytes), settings, n_steps=30, b=64)
    except torch.OutOfMemoryError:
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("settings", SETTINGS)
def test_what_two_steps_need_is_what_six_reserve(trace, settings):
    found = fit(trace, A100, **STEP_2, settings=settings)
    assert found.needed_bytes == train(A100, settings, n_steps=6, b=64).max_memory_reserved()
    assert (found.fits, found.n_retries, found.settings) == (True, 0, settings)


@pytest.mark.long
@pytest.mark.parametrize("settings", SETTINGS)
def test_the_least_that_would_do_runs_and_a_segment_step_less_does_not(trace, settings):
    found = fit(trace, of_capacity(4 * MiB), **STEP_2, settings=settings)
    step_bytes = gcd(SEGMENT_STEP_BYTES, AllocatorSettings.parse(settings).large_segment_bytes)
    assert not found.fits
    assert runs_on(found.needed_bytes, settings)
    assert not runs_on(found.needed_bytes - step_bytes, settings)


@pytest.mark.nightly
def test_a_gpt_2_that_fits_with_expandable_segments_alone():
    """Not by the replay alone: on a simulated GPU of that size it runs out of memory, and with them it runs."""
    step = GPTStep(b=22, gpu="rtx3090-24gb")
    run = step.run()
    verdicts = {settings: run.fit(settings) for settings in ("", "expandable_segments:True")}
    assert {settings: found.fits for settings, found in verdicts.items()} == {
        "": False,
        "expandable_segments:True": True,
    }
    for settings, found in verdicts.items():
        room = Room()
        with SimulatedGPU(step.gpu, settings=settings) as gpu:
            try:
                train_steps(
                    gpu,
                    lambda: step.model_on(gpu.device),
                    lambda: random_tokens(gpu, b=step.b, s=step.s, V=step.letters["V"]),
                    StepSettings(autocast=step.half, optimizer="fused"),
                    n_steps=2 + MOST_REPEATS,
                    at_mark=lambda _, room=room, gpu=gpu: room.note(gpu),
                )
            except torch.OutOfMemoryError:
                assert not found.fits
            else:
                assert (found.fits, found.needed_bytes) == (True, room.reserved_bytes)


def test_a_block_that_another_stream_uses_comes_back_as_on_the_gpu():
    """What was freed while it waited for a stream is free once memory is asked for, by any settings.

    With max_split_size_mb:20 each step takes a segment of 20 MiB more: requests for less are not served from it again.
    """

    def steps(settings, n_steps):
        with SimulatedGPU("a100-80gb", settings=settings) as gpu:
            side = gpu.Stream()
            for step in range(1, n_steps + 1):
                gpu.trace.mark(f"begin {step}")
                x = torch.empty(30 * MiB, dtype=torch.uint8, device=gpu.device)
                with gpu.stream(side):
                    y = torch.empty(3 * MiB, dtype=torch.uint8, device=gpu.device)
                x.record_stream(side)
                del x
                z = torch.empty(28 * MiB, dtype=torch.uint8, device=gpu.device)
                del y, z
            gpu.trace.mark("end")
        return gpu

    trace = steps("", 2).trace
    for settings in ["", *SETTINGS]:
        found = fit(trace, A100, after="begin 2", until="end", settings=settings)
        assert found.needed_bytes == steps(settings, 2 + MOST_REPEATS).max_memory_reserved()


# ---- words


def test_the_verdict_names_the_settings_and_the_fraction():
    settings = "expandable_segments:True"
    found = Fit("a100-80gb", 85_097_971_712, 587_202_560, 14_883_487_744, settings=settings)
    assert found.headline == f"Fits on a100-80gb with {settings}: 69,627,281,408 bytes (64.8 GiB) to spare"
    half = Fit("a100-80gb", 85_097_971_712, 587_202_560, 50 << 30, 0, "step 1 forward", "x:1", 42_548_985_856)
    assert half.headline == "Does not fit on a100-80gb with x:1: 11,138,105,344 bytes (10.4 GiB) short"
    assert half.reasons.endswith(
        "and there are 42,548,985,856 for it: the fraction of 85,097,971,712 that the settings allow."
    )
    tight = Fit("a100-80gb", 85_097_971_712, 587_202_560, 1, 9, in_each_step=True)
    assert "It is tight: in each step the allocator had to give unused segments back" in tight.reasons


def test_settings_are_refused_as_pytorch_does(trace):
    with pytest.raises(ValueError, match="Unrecognized key 'expandable'"):
        fit(trace, A100, **STEP_2, settings="expandable:True")


# ---- against naive replays


def random_trace(pick) -> Trace:
    """Blocks that stay, of up to two streams, and a step whose blocks all go, or take the place of one that stays."""
    trace, live, number = Trace("simulated", "any"), {}, 0

    def allocate():
        nonlocal number
        n_bytes = pick.choice([pick.randint(1, 2000), pick.randint(1, MiB), pick.randint(MiB, 40 * MiB)])
        trace.events.append(Event("alloc", n_bytes, number, stream=pick.choice([0, 0, 0, 1])))
        live[number] = n_bytes
        number += 1

    def free(which):
        trace.events.append(Event("free", live.pop(which), which))

    for _ in range(pick.randint(0, 8)):
        allocate()
    for _ in range(pick.randint(0, len(live))):
        free(pick.choice(list(live)))
    stays = set(live)
    trace.mark("begin")
    for _ in range(pick.randint(1, 40)):
        if len(live) > len(stays) and pick.random() < 0.45:
            free(pick.choice(sorted(live.keys() - stays)))
        else:
            allocate()
    for which in pick.sample(sorted(live.keys() - stays), len(live) - len(stays)):
        free(which)
    trace.mark("end")
    return trace


def naive(trace, spec, settings, n_repeats=MOST_REPEATS) -> int | None:
    """What is reserved at most, one request after the other, on a GPU of this spec; None if memory runs out."""
    allocator = CachingAllocator(
        spec.allocator_bytes, settings=AllocatorSettings.parse(settings), total_bytes=spec.total_bytes
    )
    step = trace.events[trace.position("begin") :]
    live = {}
    try:
        for event in [*trace.events, *(step * n_repeats)]:
            if event.action == "alloc":
                live[event.allocation] = allocator.malloc(event.n_bytes, event.stream)
            elif event.action == "free":
                allocator.free(live.pop(event.allocation))
    except OutOfMemory:
        return None
    return allocator.max_reserved_bytes


def random_settings(pick) -> str:
    """Pages of expandable segments are a whole number of the driver's, which makes no others."""
    expands = pick.choice(["True", "False"])
    chosen = {
        "expandable_segments": expands,
        "max_split_size_mb": pick.choice([None, None, 20, 25, 64]),
        "max_non_split_rounding_mb": pick.choice([None, None, 20, 22, 30]),
        "roundup_power2_divisions": pick.choice([None, 2, 4, 16, "[1:2,8:4,>:8]"]),
        "large_segment_size_mb": pick.choice([None, None, 12, 16] if expands == "True" else [None, 11, 16, 17]),
        "per_process_memory_fraction": pick.choice([None, None, 0.5, 0.9, 1.0]),
        "garbage_collection_threshold": pick.choice([None, 0.3, 0.8]),
    }
    return ",".join(f"{name}:{value}" for name, value in chosen.items() if value is not None)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(150))
def test_random_steps_by_random_settings_as_naive_replays_have_it(seed):
    pick = random.Random(seed)
    trace, settings = random_trace(pick), random_settings(pick)
    for capacity_bytes in (pick.randint(2, 60) * MiB, pick.randint(60, 400) * MiB, 10_000 * MiB):
        spec = of_capacity(capacity_bytes)
        found = fit(trace, spec, after="begin", until="end", settings=settings)
        reserved = naive(trace, spec, settings)
        assert found.fits == (reserved is not None)
        if found.fits:
            assert found.needed_bytes == reserved
            assert found.margin_bytes >= 0
        else:
            assert found.margin_bytes < 0
            without = ",".join(one for one in settings.split(",") if "fraction" not in one)
            if without == settings:
                assert naive(trace, of_capacity(found.needed_bytes), settings) is not None


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(120))
def test_what_expandable_segments_need_has_room_for_their_addresses(seed):
    """They have addresses for 9/8 of the whole memory, which with a small CUDA context are few."""
    pick = random.Random(seed)
    settings = "expandable_segments:True"
    for trace in [random_trace(pick) for _ in range(6)]:
        found = fit(trace, of_capacity(4 * MiB, MiB), after="begin", until="end", settings=settings)
        if not found.fits:
            assert naive(trace, of_capacity(found.needed_bytes, MiB), settings) is not None
            assert naive(trace, of_capacity(found.needed_bytes - SEGMENT_STEP_BYTES, MiB), settings) is None
