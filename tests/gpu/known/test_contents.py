"""What is known of a storage: how it follows writes, what bounds it, and that it keeps nothing alive."""

import copy
import gc
import subprocess
import sys
import warnings

import pytest
import torch

from every_byte.gpu.known import content as contents
from every_byte.gpu.known.content import HELD, MOST_BYTES, MOST_FLOAT_BYTES
from every_byte.gpu.known.evaluation import MOST_DEPTH
from every_byte.gpu.known.reading import known_values, read
from every_byte.gpu.memory.records import RECORDS
from utils import SimulatedGPU

TOLD = "nothing is computed on a simulated GPU"


def content_of(x: torch.Tensor):
    return RECORDS[x.untyped_storage()._cdata].content


def test_nothing_known_keeps_a_block_alive(gpu):
    x = torch.arange(300, device=gpu.device)
    y = x[::2].add(1).cumsum(0)
    z = torch.cat([x, y])
    del x, y
    assert gpu.memory_allocated() == 4096, "z alone"
    assert z[-1].item() == sum(range(1, 301, 2)), "what it was made of is known all the same"
    del z
    assert gpu.memory_allocated() == 0


def test_what_is_held_goes_with_the_tensor(gpu):
    gc.collect()
    before = HELD.n_bytes
    x = torch.arange(1000).to(gpu.device)
    assert HELD.n_bytes == before + x.nbytes
    del x
    assert HELD.n_bytes == before


def test_a_copy_from_the_host_is_of_its_values_then(gpu):
    host = torch.tensor([1, 2])
    x = host.to(gpu.device)
    host.fill_(7)
    assert x.tolist() == [1, 2]


def test_what_is_large_is_not_known(gpu):
    whole = torch.zeros(MOST_BYTES, dtype=torch.uint8, device=gpu.device)
    assert content_of(whole) is not None
    assert content_of(torch.zeros(MOST_BYTES + 1, dtype=torch.uint8, device=gpu.device)) is None
    assert content_of(torch.zeros(MOST_FLOAT_BYTES // 4 + 1, device=gpu.device)) is None
    assert content_of(torch.zeros(contents.MOST_BROUGHT_BYTES + 1, dtype=torch.uint8).to(gpu.device)) is None


def test_beyond_what_may_be_held_nothing_more_is(gpu, monkeypatch):
    monkeypatch.setattr(contents, "MOST_HELD_BYTES", HELD.n_bytes + 100)
    assert content_of(torch.zeros(12, dtype=torch.int64).to(gpu.device)) is not None
    assert content_of(torch.zeros(13, dtype=torch.int64).to(gpu.device)) is None


@pytest.mark.parametrize("change", [lambda x: x.add_(1), lambda x: x + 1, lambda x: torch.cat([x, x[-1:] + 1])])
def test_long_chains_are_folded(gpu, change):
    x = torch.zeros(1, dtype=torch.int64, device=gpu.device)
    for _ in range(5 * MOST_DEPTH):
        x = change(x)
        assert content_of(x).depth <= MOST_DEPTH
    assert x[-1].item() == 5 * MOST_DEPTH


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.random_(0, 2),
        lambda x: x.bernoulli_(0.5),
        lambda x: x.copy_(torch.rand(4, device=x.device)),
        lambda x: x[1:2].copy_(torch.rand(1, device=x.device).long()),
        lambda x: torch.argmax(torch.rand(4, 3, device=x.device), 1, out=x),
        lambda x: x.untyped_storage().resize_(64),
        lambda x: torch._foreach_mul_([x], 2),
    ],
)
def test_what_is_written_from_what_is_unknown_is_unknown(gpu, write):
    x = torch.ones(4, dtype=torch.int64, device=gpu.device)
    write(x)
    assert not read(x).is_known


def test_what_an_optimizer_counts_stays_known(gpu):
    steps = [torch.tensor(4.0).to(gpu.device), torch.zeros(3, dtype=torch.int64, device=gpu.device)]
    torch._foreach_add_(steps, 1)
    assert all(read(x).is_known for x in steps)
    assert steps[0].item() == 5.0
    assert steps[1].tolist() == [1, 1, 1]


def test_random_and_new_memory_is_unknown(gpu):
    for x in (
        torch.randint(0, 3, (4,), device=gpu.device),
        torch.empty(4, dtype=torch.bool, device=gpu.device),
        torch.ones(4, device=gpu.device).multinomial(2),
        torch.nn.functional.dropout(torch.ones(4, device=gpu.device)),
    ):
        assert not read(x).is_known


def test_a_write_through_a_view_changes_the_base_and_all_views(gpu):
    x = torch.zeros(3, 4, dtype=torch.int32, device=gpu.device)
    column, before = x[:, 1], x.clone()
    column += 2
    x.data[0, 0] = 5
    x.detach()[2].fill_(9)
    assert x.tolist() == [[5, 2, 0, 0], [0, 2, 0, 0], [9, 9, 9, 9]]
    assert column.tolist() == [2, 2, 9]
    assert known_values(before).count_nonzero() == 0


def test_part_of_a_storage_can_be_known(gpu):
    x = torch.empty(4, dtype=torch.int64, device=gpu.device)
    x[1:3] = 6
    assert known_values(x[1:3]).tolist() == [6, 6]
    assert known_values(x) is None


def test_values_that_were_read_as_zeros_do_not_come_back_as_known(gpu):
    x = torch.rand(3, device=gpu.device)
    with pytest.warns(UserWarning, match=TOLD):
        host = x.cpu()
    assert not read(host.to(gpu.device)).is_known
    assert not read(torch.zeros(3, device=gpu.device).copy_(host)).is_known


def test_a_deep_copy_is_known(gpu):
    module = torch.nn.Module()
    module.register_buffer("places", torch.arange(3, device=gpu.device))
    assert copy.deepcopy(module).places.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["tensor", "as_tensor", "asarray"])
def test_numbers_are_known(gpu, name):
    make = getattr(torch, name)
    x = make([[1, 2], [3, 4]], device=gpu.device)
    assert x.tolist() == [[1, 2], [3, 4]]
    assert x.new_tensor([7]).item() == 7
    with torch.inference_mode():
        assert make([True, False], device=gpu.device).tolist() == [True, False]


def test_generation_ends_where_it_may(gpu):
    """As in a library's loop: tokens are unknown, the greatest length is not."""
    ids, pad, end = torch.ones(2, 3, dtype=torch.int64, device=gpu.device), 0, 2
    unfinished, n_steps = torch.ones(2, dtype=torch.int64, device=gpu.device), 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", TOLD)
        while n_steps < 9:
            tokens = torch.rand(2, 10, device=gpu.device).argmax(-1) * unfinished + pad * (1 - unfinished)
            ids = torch.cat([ids, tokens[:, None]], 1)
            too_long = torch.full((2,), ids.shape[1] >= 8, device=gpu.device)
            is_done = too_long | torch.isin(ids[:, -1], torch.tensor([end], device=gpu.device))
            unfinished = unfinished & ~is_done
            n_steps += 1
            if unfinished.max() == 0:
                break
    assert n_steps == 5
    assert known_values(unfinished).tolist() == [0, 0]
    assert len(gpu.values_read) == 1


def test_where_a_training_step_reads_nothing_nothing_is_told(gpu):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mask = torch.ones(2, 8, dtype=torch.int64).to(gpu.device)
        assert (mask == 1).all()
        assert mask.sum().item() == 16
        assert mask.bool().all()
    assert gpu.values_read == ()


def test_two_gpus_know_apart():
    with SimulatedGPU() as first:
        x = torch.ones(2, device=first.device)
        with SimulatedGPU() as second:
            assert torch.zeros(2, device=second.device).tolist() == [0.0, 0.0]
        assert x.tolist() == [1.0, 1.0]


@pytest.mark.nightly
def test_what_outlives_the_module_s_names_ends_quietly():
    """As what a thread, or a frame of a traceback, still holds when the process ends."""
    code = (
        "import torch; from every_byte.gpu.known import content; "
        "kept = content.Content(8, content.Value(torch.UntypedStorage(8), None)); "
        "vars(content).update(dict.fromkeys(vars(content))); del kept"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
