"""What a live GPU's memory notes while a program runs: handles of tensors, instants, labels; on a pretended card."""

import threading
from functools import partial

import pytest
import torch
from pretended_card import DEVICE
from torch import nn
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from every_byte.ledger.attribution import Role
from utils import LiveGPU, SimulatedGPU


@pytest.fixture
def memory(live):
    return live.trace.memory


def elsewhere(function):
    """What a function returns on another thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


# -------------------------------------------------------------------------------------------------------------- tensors


def test_a_tensor_is_known_by_its_storage(card, memory):
    x, y = card.tensor(torch.ones(4, 3)), card.tensor(torch.ones(5))
    (one,), (other,) = memory.numbers_of(x), memory.numbers_of(y)
    assert one != other
    assert memory.numbers_of(x.t()[1:]) == [one] == memory.numbers_of(x)
    assert memory.owners.live == {one, other}
    assert memory.owners.tensors[one] == ((4, 3), torch.float32)


def test_a_view_says_the_shape_of_the_whole(card, memory):
    x = card.tensor(torch.ones(4, 3))
    (number,) = memory.numbers_of(x[1:])
    assert memory.owners.tensors[number][0] == (4, 3)


def test_what_lies_elsewhere_has_no_number(card, memory):
    other = card.tensor(torch.ones(3))
    other.on_card.device = torch.device("cuda", 1 - DEVICE.index)
    for tensor in (torch.ones(3), torch.ones(3, device="meta"), other, card.tensor(torch.ones(0))):
        assert memory.numbers_of(tensor) == []
    assert memory.owners.tensors == {}


def test_what_dies_is_forgotten_and_its_address_is_another_s(card, memory):
    x = card.tensor(torch.ones(4))
    (one,), address = memory.numbers_of(x), x.on_card.data_ptr()
    del x
    assert memory.owners.live == set() == set(memory.handles)
    y = card.tensor(torch.ones(4))
    assert y.on_card.data_ptr() == address
    (other,) = memory.numbers_of(y)
    assert other != one
    assert memory.owners.live == {other}


def test_what_is_resized_is_another_allocation_of_the_same_kind(card, memory):
    x = card.tensor(torch.ones(4))
    (one,) = memory.numbers_of(x)
    memory.owners.add(one, Role("parameters", "a", "weight"))
    x.on_card.resize_(4000)
    (other,) = memory.numbers_of(x)
    assert other != one
    assert memory.owners.live == {other}
    assert memory.owners.role(other) == Role("parameters", "a", "weight")
    assert memory.numbers_of(x) == [other]
    del x
    assert memory.owners.live == set() == set(memory.handles)


def test_what_is_forgotten_is_another_one_at_the_same_address(card, memory):
    x = card.tensor(torch.ones(4))
    (one,) = memory.numbers_of(x)
    memory.forget(x.on_card)
    assert memory.owners.live == set()
    memory.forget(x.on_card)
    (other,) = memory.numbers_of(x)
    assert other != one
    assert memory.owners.live == {other}


def test_nothing_is_kept_alive(card, live, memory):
    model = card.model(nn.Linear(8, 8))
    y = model(card.tensor(torch.ones(8, 8))).sin().sum()
    live.trace.mark("here")
    y.backward()
    live.trace.attribution()
    del model, y
    assert live.memory_allocated() == 0


# ------------------------------------------------------------------------------------------------------------- instants


def test_a_position_counts_allocations_frees_and_marks(card):
    before = card.tensor(torch.ones(4))
    with LiveGPU() as gpu:
        memory, positions = gpu.trace.memory, []
        for _ in range(2):
            positions.append(memory.position())
            x = card.tensor(torch.ones(4))
            positions.append(memory.position())
            gpu.trace.mark("here")
            positions.append(memory.position())
            del x
    assert positions == [0, 1, 2, 3, 4, 5]
    assert before is not None


def test_what_comes_behind_a_mark_of_its_instant_is_behind_it(card, live, memory):
    live.trace.mark("first")
    x = card.tensor(torch.ones(4))
    live.trace.mark("second")
    live.trace.mark("third")
    y = card.tensor(torch.ones(4))
    assert [memory.position_at(tick) for tick in range(3)] == [1, 4, 5]
    assert (x, y) != (None, None)


def test_counters_may_be_set_to_0_by_who_says_so(card, live, memory):
    x = card.tensor(torch.ones(4))
    position = memory.position()
    live.reset_accumulated_memory_stats()
    assert torch._C._cuda_memoryStats(DEVICE.index)["allocation"]["all"]["allocated"] == 0
    assert memory.position() == position == 1
    y = card.tensor(torch.ones(4))
    live.trace.mark("here")
    assert [event.action for event in live.trace if event.action != "segment_alloc"] == ["alloc", "alloc", "mark"]
    assert (x, y) != (None, None)


def test_at_one_instant_the_counters_are_asked_once(card, memory, monkeypatch):
    x, asked = card.tensor(torch.ones(4)), []
    monkeypatch.setattr(torch._C, "_cuda_memoryStats", lambda index: asked.append(index) or card.stats(index))
    with memory.at_one_instant():
        memory.numbers_of(x)
        with memory.at_one_instant():
            memory.position()
        memory.position()
    assert asked == [DEVICE.index]
    memory.position()
    assert len(asked) == 2


def test_how_many_nodes_there_are_is_counted_on_its_own_thread_alone(card, memory):
    """Each thread counts from 0."""
    counted = []

    def allocates():
        counted.append(card.tensor(torch.ones(4)))
        return memory.position()

    assert elsewhere(allocates) == 1
    assert memory.sequence_numbers == []
    counted.append(card.tensor(torch.ones(4)))
    assert memory.position() == 2
    assert memory.sequence_numbers == [(2, torch.autograd._get_sequence_nr())]


def test_each_thread_s_nodes_have_numbers_of_their_own(memory):
    here, there = memory.shift(), elsewhere(memory.shift)
    assert here == 0
    assert there >= 1 << 48
    assert memory.shift() == here
    assert elsewhere(memory.shift) not in (here,)


# ----------------------------------------------------------------------------------------------------------- who is it


def test_only_its_own_thread_is_watched(memory):
    assert memory.is_watched()
    assert not elsewhere(memory.is_watched)


def test_inside_of_a_simulated_gpu_nothing_is(memory):
    with SimulatedGPU("a100-80gb"):
        assert not memory.is_watched()
    assert memory.is_watched()


def test_autograd_s_threads_are_watched_while_its_backward_is_under_way(card, memory):
    """Other threads that run a backward stand for them."""
    heard = {}

    def backward(when):
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        y.register_hook(lambda _: heard.update({when: memory.is_watched()}))
        y.sum().backward()

    elsewhere(partial(backward, "before"))
    y = card.tensor(torch.ones(2)).requires_grad_().exp()
    y.register_hook(lambda _: elsewhere(partial(backward, "meanwhile")))
    y.sum().backward()
    elsewhere(partial(backward, "after"))
    assert heard == {"before": False, "meanwhile": True, "after": False}


def test_what_led_to_a_tensor_may_concern_it_unless_that_is_simulated(card, memory):
    assert memory.concerns(card.tensor(torch.ones(1)))
    assert memory.concerns(torch.ones(1)), "as a loss that was copied to the CPU"
    assert not memory.concerns(torch.ones(1, device="meta"))


# --------------------------------------------------------------------------------------------------------------- labels


def phases_and_modules(trace):
    return [(event.phase, event.module) for event in trace if event.action == "alloc"]


def test_labels_are_those_of_the_instant(card, live):
    class Inner(nn.Module):
        def forward(self, x):
            return x + 1

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x) * 2 + self.inner(x)

    x = card.tensor(torch.ones(4))
    kept = [Outer()(x), x * 3]
    forward = [("forward", "inner"), ("forward", ""), ("forward", "inner"), ("forward", "")]
    assert phases_and_modules(live.trace) == [("", ""), *forward, ("", "")]
    assert len(kept) == 2


def test_a_phase_of_the_program_s_own_goes_before(card, live):
    x = card.tensor(torch.ones(4)).requires_grad_()
    y = nn.Tanh()(x)
    with live.trace.in_phase("mine"):
        live.trace.mark("here")
        z = nn.Tanh()(y * 2).sum()
        z.backward()
    y * 2
    found = [event.phase for event in live.trace if event.action == "alloc"]
    assert len(found) > 6
    assert found == ["", "forward", *["mine"] * (len(found) - 3), ""]
    assert [event.phase for event in live.trace if event.action == "mark"] == ["mine"]


def test_another_thread_s_modules_and_steps_change_no_label(card, live, memory):
    x, model = card.tensor(torch.ones(4)), nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), foreach=False)

    class Waits(nn.Module):
        def forward(self, x):
            elsewhere(lambda: model(torch.ones(2)).sum().backward() or optimizer.step())
            return x * 2

    n_changes = len(memory.changes)
    y = Waits()(x)
    assert len(memory.changes) == n_changes + 2
    assert phases_and_modules(live.trace)[-1] == ("forward", "")
    assert y is not None


def test_closed_it_hears_nothing_more(card):
    hooks = [_global_forward_pre_hooks, _global_forward_hooks]
    hooks += [_global_optimizer_pre_hooks, _global_optimizer_post_hooks]
    before = [list(found) for found in hooks]
    with LiveGPU() as gpu:
        assert [list(found) for found in hooks] != before
    assert [list(found) for found in hooks] == before
    n_changes = len(gpu.trace.memory.changes)
    nn.Tanh()(card.tensor(torch.ones(1)))
    assert len(gpu.trace.memory.changes) == n_changes
