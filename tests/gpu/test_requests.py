"""The requests of a run, carried out once, and with what came after its last step: as the GPU has it that ran them."""

import pytest
import torch

from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.requests import MOST_REPEATS, ROOMY_BYTES, Requests
from every_byte.units import MiB
from utils import SimulatedGPU

DEFAULTS = AllocatorSettings()


def loop(gpu, n_steps: int, *, then: int = 0) -> list[int]:
    """Steps that find a batch and leave the next; where each ends in the trace; then some bytes for a moment."""
    weights = torch.empty(1000, 1000, device=gpu.device)
    batch, ends = torch.empty(900, 1000, device=gpu.device), []
    for _ in range(n_steps):
        hidden = batch @ weights
        del batch
        batch = torch.empty(900, 1000, device=gpu.device)
        del hidden
        ends.append(len(gpu.trace))
    if then:
        del batch
        torch.empty(then, dtype=torch.uint8, device=gpu.device)
    return ends


@pytest.mark.parametrize("then", [0, 3 * MiB, 300 * MiB])
def test_with_the_rest_it_is_what_a_longer_run_takes(then):
    with SimulatedGPU("a100-80gb") as short:
        ends = loop(short, 3, then=then)
    with SimulatedGPU("a100-80gb") as long:
        loop(long, 11, then=then)
    run = Requests.of(short.trace, ends[1] - 1, ends[2], DEFAULTS, with_rest=True)
    assert run.replay(ROOMY_BYTES, ROOMY_BYTES).max_reserved_bytes == long.max_memory_reserved()
    assert run.peak_bytes == long.max_memory_allocated()
    alone = Requests.of(short.trace, ends[1] - 1, ends[2], DEFAULTS)
    assert (alone.peak_bytes < run.peak_bytes) == (then > 100 * MiB)


def test_once_is_what_it_took():
    with SimulatedGPU("a100-80gb") as gpu:
        loop(gpu, 2, then=50 * MiB)
    found = Requests.once(gpu.trace, DEFAULTS).replay(ROOMY_BYTES, ROOMY_BYTES)
    assert (found.max_reserved_bytes, found.failed_at) == (gpu.max_memory_reserved(), None)


def test_what_was_refused_is_asked_for_again():
    with SimulatedGPU("a100-80gb") as gpu:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2**37, dtype=torch.uint8, device=gpu.device)
    position = len(gpu.trace) - 1
    run = Requests.once(gpu.trace, DEFAULTS, position)
    assert run.peak_bytes == 2**37
    assert run.replay(ROOMY_BYTES, ROOMY_BYTES).max_reserved_bytes == 2**37
    spec = gpu.spec
    assert run.replay(spec.allocator_bytes, spec.total_bytes).failed_at == position


def test_a_rest_that_does_not_fit_says_where():
    with SimulatedGPU("a100-80gb") as gpu:
        ends = loop(gpu, 3, then=300 * MiB)
    run = Requests.of(gpu.trace, ends[1] - 1, ends[2], DEFAULTS, with_rest=True)
    failed_at = run.replay(100 * MiB, 100 * MiB).failed_at
    assert gpu.trace.events[failed_at].n_bytes == 300 * MiB


def emptying(gpu, n_steps: int) -> list[int]:
    """Steps that empty the cache after something large, as an evaluation does; and where each ends in the trace."""
    weights, ends = torch.empty(1000, 1000, device=gpu.device), []
    for _ in range(n_steps):
        large = torch.empty(700 * MiB, dtype=torch.uint8, device=gpu.device)
        del large
        gpu.empty_cache()
        hidden = [weights @ weights for _ in range(90)]
        del hidden
        ends.append(len(gpu.trace))
    gpu.empty_cache()
    torch.empty(900 * MiB, dtype=torch.uint8, device=gpu.device)
    return ends


def test_where_the_program_empties_its_cache_a_replay_does():
    with SimulatedGPU("a100-80gb") as short:
        ends = emptying(short, 3)
    with SimulatedGPU("a100-80gb") as long:
        emptying(long, 12)
    run = Requests.of(short.trace, ends[1] - 1, ends[2], DEFAULTS, with_rest=True)
    found = run.replay(ROOMY_BYTES, ROOMY_BYTES)
    assert found.max_reserved_bytes == long.max_memory_reserved() == short.max_memory_reserved()
    assert Requests.once(short.trace, DEFAULTS).replay(ROOMY_BYTES, ROOMY_BYTES) == found
    short.trace.emptied.clear()
    assert run.peak_bytes == long.max_memory_allocated()
    kept = Requests.once(short.trace, DEFAULTS).replay(ROOMY_BYTES, ROOMY_BYTES)
    assert kept.max_reserved_bytes > found.max_reserved_bytes


def taking_turns(gpu, n_steps: int) -> list[int]:
    """Two buffers that are made anew in turn, as a batch and the one that is loaded meanwhile."""
    kept, ends = [torch.empty(n, dtype=torch.uint8, device=gpu.device) for n in (9 * MiB, 13 * MiB)], []
    for _ in range(n_steps):
        for i, n_bytes in enumerate((9 * MiB, 13 * MiB)):
            kept[i] = torch.empty(n_bytes, dtype=torch.uint8, device=gpu.device)
        ends.append(len(gpu.trace))
    return ends


def shuffling(gpu, n_steps: int) -> list[int]:
    """Steps that make four buffers anew beside others for a moment: only after a dozen there is a segment more."""

    def buffer(n_mib: int) -> torch.Tensor:
        return torch.empty(n_mib * MiB, dtype=torch.uint8, device=gpu.device)

    sizes = [7, 13, 9, 5]
    kept, ends = [buffer(size) for size in sizes], []
    for _ in range(n_steps):
        passing = []
        for i, size in [(2, 8), (3, 12), (0, 0), (2, 0), (1, 0), (2, 12)]:
            passing += [buffer(size)] if size else []
            kept[i] = buffer(sizes[i])
        while passing:
            del passing[0]
        ends.append(len(gpu.trace))
    return ends


@pytest.mark.parametrize("program", [taking_turns, shuffling])
def test_a_step_that_leads_to_an_earlier_one_is_settled(program):
    """Not the one before: it is repeated until all lies as after any earlier step, and then more steps take no more."""
    with SimulatedGPU("a100-80gb") as short:
        ends = program(short, 2)
    with SimulatedGPU("a100-80gb") as long:
        program(long, 100)
    found = Requests.of(short.trace, ends[0] - 1, ends[1], DEFAULTS).replay(ROOMY_BYTES, ROOMY_BYTES)
    assert found.is_settled
    assert found.max_reserved_bytes == long.max_memory_reserved()


def growing(gpu, n_steps: int) -> list[int]:
    """With max_split_size_mb:20 each step takes a segment of 20 MiB more: what is free serves no smaller request."""
    side, ends = gpu.Stream(), []
    for _ in range(n_steps):
        x = torch.empty(30 * MiB, dtype=torch.uint8, device=gpu.device)
        with gpu.stream(side):
            y = torch.empty(3 * MiB, dtype=torch.uint8, device=gpu.device)
        z = torch.empty(28 * MiB, dtype=torch.uint8, device=gpu.device)
        del x, y, z
        ends.append(len(gpu.trace))
    return ends


@pytest.mark.parametrize("text", ["", "max_split_size_mb:20"])
def test_a_step_that_takes_more_each_time_is_not_settled(text):
    settings = AllocatorSettings.parse(text)
    with SimulatedGPU("a100-80gb", settings=text) as gpu:
        ends = growing(gpu, 2)
    found = Requests.of(gpu.trace, ends[0] - 1, ends[1], settings).replay(ROOMY_BYTES, ROOMY_BYTES)
    with SimulatedGPU("a100-80gb", settings=text) as longer:
        growing(longer, 2 + MOST_REPEATS)
    assert found.max_reserved_bytes == longer.max_memory_reserved()
    with SimulatedGPU("a100-80gb", settings=text) as longest:
        growing(longest, 2 + 2 * MOST_REPEATS)
    assert found.is_settled == (longest.max_memory_reserved() == found.max_reserved_bytes) == (not text)
