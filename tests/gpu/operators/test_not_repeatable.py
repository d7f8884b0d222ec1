"""What deterministic runs refuse, fill and compose otherwise, beside what is recorded of them."""

import pytest
import torch
import torch.nn.functional as F

from utils import SimulatedGPU


@pytest.fixture
def gpu():
    torch.use_deterministic_algorithms(True)
    try:
        with SimulatedGPU("a100-80gb") as gpu:
            yield gpu
    finally:
        torch.use_deterministic_algorithms(False)


REFUSED = {
    "put_": lambda x, i: x.put_(i, x[:1], True),
    "nll_loss2d_forward_out_cuda_template": lambda x, i: F.nll_loss(x.view(1, 4, 2, 2), i.new_zeros(1, 2, 2)),
    "_histc_cuda with floating point input": lambda x, i: x.histc(4),
    "_bincount_cuda": lambda x, i: torch.bincount(i, x[:1]),
    "median CUDA with indices output": lambda x, i: x.median(0),
    "index_reduce_cuda": lambda x, i: x.index_reduce(0, i, x[:1], "prod"),
    "scatter_reduce_cuda_prod_": lambda x, i: x.scatter_reduce(0, i, x[:1], "prod"),
    "grid_sampler_2d_backward_cuda": lambda x, i: (
        F.grid_sample(x.view(1, 1, 4, 4).requires_grad_(), x.new_zeros(1, 2, 2, 2), align_corners=False)
        .sum()
        .backward()
    ),
    "adaptive_avg_pool2d_backward_cuda": lambda x, i: (
        F.adaptive_avg_pool2d(x.view(1, 4, 4).requires_grad_(), 2).sum().backward()
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_deterministic_form_is_refused_by_its_name(gpu, name):
    x, i = torch.zeros(16, device=gpu.device), torch.zeros(1, dtype=torch.int64, device=gpu.device)
    with pytest.raises(RuntimeError, match=f"^{name} does not have a deterministic implementation"):
        REFUSED[name](x, i)


def test_where_it_may_warn_it_runs(gpu):
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="_histc_cuda with floating point input does not have"):
        assert torch.zeros(16, device=gpu.device).histc(4).shape == (4,)


def test_modes_are_not_refused(gpu):
    values, places = torch.zeros(3, 16, device=gpu.device).mode(-1)
    assert values.shape == places.shape == (3,)


def test_what_is_resized_is_filled_unless_told_otherwise(gpu):
    taken = []
    for fills in (True, False):
        torch.utils.deterministic.fill_uninitialized_memory = fills
        try:
            start = len(gpu.trace.events)
            torch.empty(4, device=gpu.device).resize_(9)
            taken.append([e.n_bytes for e in gpu.trace.events[start:] if e.action == "alloc"])
        finally:
            torch.utils.deterministic.fill_uninitialized_memory = True
    assert taken == [[16, 36, 4], [16, 36]]


def test_cublas_takes_the_workspace_that_the_settings_say(gpu, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    with SimulatedGPU("a100-80gb", settings={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}) as gpu:
        x = torch.zeros(4, 4, device=gpu.device)
        _ = x @ x
    assert 8 * 4096 * 1024 in [e.n_bytes for e in gpu.trace.events]


@pytest.mark.parametrize("config", [None, ":0:0", ":16:8"])
def test_products_run_whatever_the_workspaces_are(config):
    """Over the CUDA build of 2.13 no product is refused: cuBLAS 13 repeats its results without the variable."""
    torch.use_deterministic_algorithms(True)
    try:
        with SimulatedGPU("a100-80gb", settings={"CUBLAS_WORKSPACE_CONFIG": config} if config else "") as gpu:
            x = torch.zeros(8, 8, device=gpu.device)
            assert (x @ x).shape == F.linear(x, x, x[0]).shape == torch.bmm(x[None], x[None])[0].shape
    finally:
        torch.use_deterministic_algorithms(False)
