"""Captured graphs are flagged, and run once."""

import pytest
import torch


def test_a_capture_counts_as_it_runs_and_is_flagged(gpu):
    x = torch.zeros(1000, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with pytest.warns(UserWarning, match="torch.cuda.CUDAGraph is not modelled: .*Leave the capture out"):
        with torch.cuda.graph(graph):
            y = x * 2
    assert gpu.unmodelled == {"torch.cuda.CUDAGraph"}
    assert y.device == torch.device("cuda", 0)
    before = len(gpu.trace)
    graph.replay()
    assert len(gpu.trace) == before
    assert isinstance(graph.pool(), tuple)
    graph.reset()
    assert not torch.cuda.is_current_stream_capturing()


def test_a_callable_that_is_captured_trains(gpu):
    m, x = torch.nn.Linear(4, 4).cuda(), torch.zeros(2, 4, device="cuda", requires_grad=True)
    with pytest.warns(UserWarning, match="torch.cuda.CUDAGraph is not modelled"):
        captured = torch.cuda.make_graphed_callables(m, (x,))
    captured(x).sum().backward()
    assert m.weight.grad.shape == (4, 4)


def test_a_pool_of_a_programs_own_is_refused(gpu):
    with pytest.raises(NotImplementedError, match="torch.cuda.MemPool is not modelled"):
        torch.cuda.MemPool()
