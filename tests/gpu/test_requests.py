"""The requests of a run, carried out once, and with what came after its last step: as the GPU has it that ran them."""

import pytest
import torch

from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.requests import ROOMY_BYTES, Requests
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
