"""Generators on "cuda": beyond what test_factories.py holds to the recordings."""

import pickle

import pytest
import torch
from torch.utils.checkpoint import checkpoint


def test_a_state_is_a_seed_and_an_offset(gpu):
    g = torch.Generator("cuda").manual_seed((1 << 63) + 5)
    g.set_offset(12)
    assert g.get_state().tolist() == [5, 0, 0, 0, 0, 0, 0, 128, 12, 0, 0, 0, 0, 0, 0, 0]
    other = g.clone_state()
    assert (other.initial_seed(), other.get_offset(), other.device) == ((1 << 63) + 5, 12, torch.device("cuda"))


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        (torch.zeros(5, dtype=torch.uint8), RuntimeError, "RNG state is wrong size: got 5 bytes, CUDA's has 16"),
        (torch.zeros(16), TypeError, "RNG state must be a torch.ByteTensor"),
    ],
)
def test_another_state_is_refused(gpu, state, error, message):
    with pytest.raises(error, match=message):
        torch.Generator("cuda").set_state(state)


def test_a_generator_of_another_device_is_refused_by_name(gpu):
    with pytest.raises(RuntimeError, match=r"Expected a 'cuda' device type for generator but found 'cpu'; make it by"):
        torch.randn(3, device="cuda", generator=torch.Generator())
    with pytest.raises(RuntimeError, match=r"Expected a 'cpu' device type for generator but found 'cuda'"):
        torch.randn(3, generator=torch.Generator("cuda"))
    assert gpu.memory_allocated() == 0


def test_the_seed_of_a_program_is_that_of_the_gpu(gpu):
    torch.manual_seed(11)
    assert (torch.cuda.initial_seed(), torch.cuda.default_generators[0].initial_seed()) == (11, 11)
    with torch.random.fork_rng(devices=[0]):
        torch.manual_seed(12)
        assert torch.cuda.initial_seed() == 12
    assert torch.cuda.initial_seed() == 11


def test_states_go_through_files_and_checkpoints(gpu):
    torch.cuda.manual_seed(3)
    torch.cuda.set_rng_state(pickle.loads(pickle.dumps(torch.cuda.get_rng_state())))
    assert torch.cuda.initial_seed() == 3
    x = torch.ones(100, device="cuda", requires_grad=True)
    checkpoint(torch.nn.functional.dropout, x, use_reentrant=False, preserve_rng_state=True).sum().backward()
    assert torch.cuda.initial_seed() == 3


def test_other_devices_have_pytorchs(gpu):
    assert type(torch.Generator()) is type(torch.Generator("cpu")) is torch._C.Generator
    assert torch.Generator().manual_seed(3).initial_seed() == 3


def test_setting_returns_the_generator_as_on_cuda(gpu):
    g = torch.Generator("cuda").manual_seed(3)
    assert g.set_offset(8) is g
    assert g.set_state(g.get_state()) is g
    assert (g.initial_seed(), g.get_offset()) == (3, 8)


def test_a_graphsafe_state_is_a_generator_that_shares_it(gpu):
    """As recorded over the CUDA build: what one of them draws or is told, the other knows."""
    g, other = torch.Generator("cuda").manual_seed(3), torch.Generator("cuda")
    shared = g.graphsafe_get_state()
    assert shared is not g
    shared.manual_seed(5)
    assert g.initial_seed() == 5
    assert other.graphsafe_set_state(g) is other
    other.set_offset(4)
    assert (g.get_offset(), shared.get_offset()) == (4, 4)
    g.clone_state().manual_seed(9)
    assert g.initial_seed() == 5


def test_what_is_no_state_and_no_offset(gpu):
    g = torch.Generator("cuda")
    with pytest.raises(TypeError, match="expected a Generator, but got Tensor"):
        g.graphsafe_set_state(g.get_state())
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        g.set_offset(6)
