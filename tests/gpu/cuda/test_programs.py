"""The same program says "cuda" on one simulated GPU and `gpu.device` on another: both tell the same, event by event."""

import gc
import warnings

import pytest
from as_cuda import begun, programs, ran, recorded

from utils import SimulatedGPU

TRAINING, OF_CUDA, DROPPED = recorded("training"), recorded("cuda_only"), recorded("dropped")


@pytest.mark.long
@pytest.mark.parametrize("name", TRAINING)
def test_as_on_cuda(warm_gpu, name):
    assert ran(programs("training")[name]) == TRAINING[name]


@pytest.mark.long
@pytest.mark.parametrize("name", OF_CUDA)
def test_as_on_cuda_alone(warm_gpu, name):
    assert ran(programs("cuda_only")[name]) == OF_CUDA[name]


@pytest.mark.long
@pytest.mark.parametrize("name", DROPPED)
def test_after_a_program_no_more_is_held_than_on_cuda(warm_gpu, name):
    (left, took), (left_on_cuda, took_on_cuda) = ran(programs("dropped")[name]), DROPPED[name]
    assert (left, took[:4]) == (left_on_cuda, took_on_cuda[:4])  # without the peak: that is not what these are about


def test_every_program_is_recorded():
    assert list(DROPPED) == list(programs("dropped"))
    assert list(TRAINING) == list(programs("training"))
    assert list(OF_CUDA) == list(programs("cuda_only"))


def events_of(name: str, cuda: bool, *, labels: bool):
    """What a program does on a GPU of its own: each event, and with labels the operator, module and phase of it."""
    program = programs("training")[name]
    with SimulatedGPU("a100-80gb", cuda=cuda) as gpu, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.disable()  # a parametrized module is a cycle, which is found when it may be
        for _ in begun(program, gpu.device):
            pass
        gc.enable()
        told = [(e.operation, e.node, e.module, e.phase) if labels else () for e in gpu.trace]
        found = [(e.action, e.n_bytes, e.allocation, *more) for e, more in zip(gpu.trace, told)]
        return found, gpu.unmodelled


WITHOUT_LABELS = {"states"}  # a file has other operators make what it holds on meta
ONLY_ON_CUDA = {"scripts"}  # what torch.jit.trace checks, it does not on meta


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in TRAINING if name not in ONLY_ON_CUDA])
def test_the_word_changes_nothing(name):
    labels = name not in WITHOUT_LABELS
    there, here = (events_of(name, cuda, labels=labels) for cuda in (False, True))
    assert here == there
    assert len(here[0]) > 10
