"""A backward that begins at an edge of the graph, not at a tensor, is that of the tensor."""

import torch
from torch.autograd.graph import get_gradient_edge

from every_byte import Ledger, SimulatedGPU


def peak_of_a_backward(begin):
    """Who owns the peak of a backward of a chain, and which operations are kept for which nodes then."""
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        x = torch.ones(300, 4, device="cuda", requires_grad=True)
        y = (x.exp() * x).tanh()
        torch.autograd.backward([begin(y)], [torch.ones_like(y)])
        ledger = Ledger.at_peak(gpu.trace)
        return torch.cuda.max_memory_allocated(), ledger.parts, [(row.operation, row.kept_for) for row in ledger.rows]


def test_its_peak_belongs_to_the_same_owners():
    of_an_edge = peak_of_a_backward(get_gradient_edge)
    assert of_an_edge == peak_of_a_backward(lambda y: y)
    assert of_an_edge[1]["activations"] > 0


def test_through_a_graph_that_a_backward_made():
    """As recorded over the CUDA build on an A100."""
    with SimulatedGPU("a100-80gb", cuda=True):
        x = torch.ones(4, 4, device="cuda", requires_grad=True)
        y = (x * x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        z = g * g
        torch.autograd.backward(get_gradient_edge(z), torch.ones_like(z))
        assert x.grad.shape == (4, 4)
        assert (torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()) == (2560, 4608)
