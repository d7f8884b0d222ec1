"""Sparse tensors: moved, merged, made dense and multiplied, as over the CUDA build where it can tell."""

import pytest
import torch
from running import cases, run_as_recorded
from torch import nn

from utils import SimulatedGPU

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks")

INDICES, SHAPE = [[0, 1, 1, 2, 49], [3, 4, 4, 5, 39]], (50, 40)


@pytest.fixture
def gpu():
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        yield gpu


@pytest.fixture
def x(gpu):
    return torch.sparse_coo_tensor(torch.tensor(INDICES), torch.ones(5), SHAPE).cuda()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "card"), [(name, card) for name, case in cases("merging_cases").items() for card in case.cards]
)
def test_as_recorded(name, card):
    run_as_recorded("merging_cases", name, card)


def test_what_the_host_knows_of_indices_stays_known(x):
    y = x.coalesce()
    assert (x._nnz(), y._nnz(), x.is_coalesced(), y.is_coalesced()) == (5, 4, False, True)
    assert y.indices().tolist() == [[0, 1, 2, 49], [3, 4, 5, 39]]
    assert (y.device, y.values().shape, y.to(torch.float64).dtype) == (torch.device("cuda", 0), (4,), torch.float64)
    assert y.cpu().indices().tolist() == y.indices().tolist()
    with pytest.raises(RuntimeError, match="Cannot get indices on an uncoalesced tensor"):
        x.indices()


def test_computed_indices_are_an_upper_bound_that_is_named(gpu):
    rows = torch.randint(0, 9, (1, 20), device="cuda")
    y = torch.sparse_coo_tensor(rows, torch.ones(20, device="cuda"), (9,))
    with pytest.warns(UserWarning, match="as many are counted as there were, which is the most that can be left"):
        assert y.coalesce()._nnz() == 20
    assert gpu.unmodelled == {"aten::_coalesce of computed indices"}


def test_a_graph_network_trains(gpu, x):
    square = torch.sparse_coo_tensor(torch.tensor(INDICES), torch.ones(5), (50, 50)).cuda()
    first, second = nn.Linear(24, 16, device="cuda"), nn.Linear(16, 4, device="cuda")
    with pytest.warns(UserWarning, match="cuSPARSE's workspace is not counted"):
        y = torch.spmm(square, second(torch.sparse.mm(square, first(torch.ones(50, 24, device="cuda"))).relu()))
    y.sum().backward()
    assert (y.shape, first.weight.grad.shape) == ((50, 4), (16, 24))
    assert gpu.unmodelled == {"aten::_sparse_addmm (cuSPARSE's workspace)"}


def test_transposed_is_a_copy_that_is_not_merged(x):
    y = x.coalesce().t()
    assert (y.shape, y.is_coalesced(), y._indices().tolist()) == ((40, 50), False, [[3, 4, 5, 39], [0, 1, 2, 49]])


def test_sums_and_products_with_numbers(x):
    assert (torch.sparse.sum(x.coalesce()).shape, (x * 2)._nnz(), (x + x)._nnz()) == ((), 5, 10)


@pytest.mark.parametrize(
    ("dense", "sparse", "is_merged", "in_place", "kept_bytes", "peak_bytes"),
    [
        (torch.float32, torch.float32, False, False, 240_128, 248_320),
        (torch.float32, torch.float32, True, True, 0, 0),
        (torch.float32, torch.bfloat16, False, False, 240_128, 252_416),
        (torch.float32, torch.bfloat16, True, True, 0, 4_096),
        (torch.bfloat16, torch.float32, False, True, 0, 488_448),
        (torch.bfloat16, torch.float32, True, False, 240_128, 480_256),
        (torch.int64, torch.bfloat16, False, False, 120_320, 248_832),
    ],
)
def test_a_sparse_tensor_is_added_to_a_dense_one_of_another_type(
    gpu, dense, sparse, is_merged, in_place, kept_bytes, peak_bytes
):
    """What PyTorch's CUDA build allocates for it (tools/cuda_build/run.sh, PyTorch 2.13.0)."""
    x = torch.zeros(200, 300, dtype=dense, device="cuda")
    indices, values = torch.randint(0, 200, (2, 1_000)).cuda(), torch.ones(1_000, dtype=sparse, device="cuda")
    y = torch.sparse_coo_tensor(indices, values, x.shape, is_coalesced=is_merged or None, check_invariants=False)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    total = x.add_(y) if in_place else x + y
    assert total.dtype == (dense if in_place else torch.result_type(x, y))
    assert torch.cuda.memory_allocated() - before == kept_bytes
    assert torch.cuda.max_memory_allocated() - before == peak_bytes


def test_a_sum_that_does_not_fit_the_dense_type_is_refused_as_by_pytorch(gpu, x):
    with pytest.raises(RuntimeError, match="Can't convert result type Float to output Long"):
        torch.zeros(SHAPE, dtype=torch.int64, device="cuda").add_(x)


@pytest.mark.parametrize(("dtype", "peak_bytes"), [(torch.float32, 270_336), (torch.bfloat16, 612_864)])
def test_the_values_of_a_sparse_addend_are_trained(gpu, dtype, peak_bytes):
    """As peft's SHiRA does it; the indices need not be merged. Source: as of the sums above."""
    frozen = torch.zeros(200, 300, dtype=dtype, device="cuda")
    trained = nn.Parameter(torch.zeros(1_000, device="cuda"))
    indices = torch.randint(0, 200, (2, 1_000)).cuda()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    weight = frozen.clone() if dtype is torch.float32 else frozen * 1
    weight += torch.sparse_coo_tensor(indices, trained * 2.0, frozen.shape)
    weight.sum().backward()
    del weight
    assert trained.grad.shape == (1_000,)
    assert torch.cuda.memory_allocated() - before == 4_096
    assert torch.cuda.max_memory_allocated() - before == peak_bytes
