"""What ranks have told each other is known on each of them, as far as it was known on this one."""

import pytest
import torch
import torch.distributed as dist

from every_byte.gpu.known.reading import known_values
from every_byte.gpu.ranks import ranks
from utils import SimulatedGPU


@pytest.fixture
def rank():
    with SimulatedGPU("a100-80gb") as gpu, ranks(3):
        yield gpu


ZEROS = pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")


def test_what_was_sent_to_all_is_known(rank):
    x = torch.arange(6).view(2, 3).to(rank.device)
    dist.broadcast(x, 0)
    assert x.cpu().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x[1, 2].item() == 5
    assert x.t()[2].cpu().tolist() == [2, 5]


def test_what_was_copied_into_a_tensor_is_known(rank):
    x = torch.empty(3, dtype=torch.int32, device=rank.device)
    x.copy_(torch.tensor([7, 8, 9]))
    dist.broadcast(x, 0)
    assert x.cpu().tolist() == [7, 8, 9]


def test_the_others_have_what_this_rank_has(rank):
    x = torch.tensor([4, 2]).to(rank.device)
    everyone = [torch.empty_like(x) for _ in range(3)]
    dist.all_gather(everyone, x)
    assert [y.tolist() for y in everyone] == [[4, 2]] * 3


def test_into_one_tensor_too(rank):
    x, whole = torch.tensor([[4, 2]]).to(rank.device), torch.empty(3, 2, dtype=torch.int64, device=rank.device)
    dist.all_gather_single(whole, x)
    assert whole.tolist() == [[4, 2]] * 3
    dist.all_gather_single(whole, torch.empty_like(x))
    assert known_values(whole) is None


@pytest.mark.parametrize("change", [lambda x: x.add_(1), lambda x: x[0].fill_(5), lambda x: x.copy_(x + 1)])
@pytest.mark.parametrize("sent_first", [True, False])
def test_what_has_changed_is_known_as_it_is_now(rank, change, sent_first):
    x, expected = torch.tensor([4, 2]).to(rank.device), torch.tensor([4, 2])
    if sent_first:
        dist.broadcast(x, 0)
    change(x)
    change(expected)
    if not sent_first:
        dist.broadcast(x, 0)
    assert x.cpu().tolist() == expected.tolist()


@ZEROS
def test_what_nobody_knows_is_not_known_when_it_was_sent(rank):
    x = torch.empty(2, dtype=torch.int64, device=rank.device)
    dist.broadcast(x, 0)
    assert x.tolist() == [0, 0]
    assert rank.values_read


@ZEROS
def test_a_sum_over_ranks_is_not_known(rank):
    x = torch.tensor([4, 2]).to(rank.device)
    dist.all_reduce(x)
    assert x.tolist() == [0, 0]
    assert rank.values_read
