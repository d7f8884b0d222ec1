"""What a rule holds is given back when its operator is over, however that ends."""

from dataclasses import replace

import pytest
import torch

from every_byte.gpu.memory.specs import find_spec
from utils import SimulatedGPU

MiB = 2**20


def room_for(n_bytes: int):
    """A GPU on which programs can have so many bytes."""
    spec = find_spec("a100-80gb")
    return replace(spec, total_bytes=spec.total_bytes - spec.allocator_bytes + n_bytes)


def sums_of_equal_rows(gpu):
    table = torch.zeros(MiB, 4, device=gpu.device)
    rows = torch.zeros(MiB, dtype=torch.int64, device=gpu.device)
    values = torch.zeros(MiB, 4, device=gpu.device)
    return lambda: table.index_put_((rows,), values, accumulate=True)


def sorted_gradient(gpu):
    gradient = torch.zeros(MiB, 4, device=gpu.device)
    rows = torch.zeros(MiB, dtype=torch.int64, device=gpu.device)
    return lambda: torch.ops.aten.embedding_dense_backward(gradient, rows, MiB, -1, False)


def log_of_sums(gpu):
    x = torch.zeros(4 * MiB, device=gpu.device)
    return lambda: x.logsumexp(0)


@pytest.mark.long
@pytest.mark.parametrize("prepare", [sums_of_equal_rows, sorted_gradient, log_of_sums])
def test_after_out_of_memory_the_temporaries_of_the_operator_are_gone(prepare):
    """At each place at which it can run out: with a MiB more of room each time, until it fits."""
    n_failed = 0
    for more in range(1, 200):
        with SimulatedGPU(room_for(2 * MiB * more)) as gpu:
            try:
                run = prepare(gpu)
            except torch.OutOfMemoryError:
                continue
            before = gpu.memory_allocated()
            try:
                result = run()
            except torch.OutOfMemoryError:
                n_failed += 1
                assert gpu.memory_allocated() == before
                continue
            del result
            break
    assert n_failed > 3


def test_temporaries_that_are_taken_together_go_where_the_last_finds_no_room():
    with SimulatedGPU(room_for(64 * MiB)) as gpu:
        with pytest.raises(torch.OutOfMemoryError):
            gpu._memory.allocate_and_free(8 * MiB, 16 * MiB, 80 * MiB)
        assert gpu.memory_allocated() == 0
        assert gpu.max_memory_allocated() == 24 * MiB
