"""A live GPU is recorded while its scope is open, and leaves PyTorch as it was: on a pretended card."""

import threading
from contextlib import suppress

import pytest
import torch
from pretended_card import DEVICE
from torch import nn

from every_byte.gpu.patches.backward import watch
from utils import Ledger, LiveGPU, SimulatedGPU


def made(trace):
    """The sizes of a trace's allocations."""
    return [event.n_bytes for event in trace if event.action == "alloc"]


def actions(trace):
    return [event.name or event.action for event in trace]


# ----------------------------------------------------------------------------------------------------- while it is open


def test_it_has_what_happens_from_then_on_and_what_was_there_first(card):
    before, gone = card.tensor(torch.ones(10)), card.tensor(torch.ones(20))
    del gone
    with LiveGPU() as gpu:
        x = card.tensor(torch.ones(30))
        assert made(gpu.trace) == [40, 120]
        assert gpu.trace.n_found == 1
        del before
        assert actions(gpu.trace) == ["segment_alloc", "alloc", "alloc", "free"]
        assert [event.operation for event in gpu.trace if event.action == "alloc"] == ["", "aten::_to_copy"]
    assert x is not None


def test_sums_are_the_allocator_s_at_every_event(card, live):
    x = [card.tensor(torch.ones(n)) for n in (10, 300_000, 1000)]
    counted = []
    for i in (1, 0, 0):
        del x[i]
        live.trace.mark("here")
        counted.append((card.allocator.allocated_bytes, card.allocator.requested_bytes))
    marks = [event for event in live.trace if event.action == "mark"]
    assert [(event.allocated_bytes, event.requested_bytes) for event in marks] == counted
    frees = [event for event in live.trace if event.action == "free"]
    assert [(event.allocated_bytes, event.requested_bytes) for event in frees] == counted


def test_marks_stand_between_what_the_allocator_does_as_a_whole(card, live):
    """Also where nothing is allocated or freed between: memory that goes back to the driver is counted, too."""
    live.trace.mark("first")
    x = card.tensor(torch.ones(10))
    live.trace.mark("second")
    del x
    live.trace.mark("third")
    card.allocator.empty_cache()
    live.trace.mark("fourth")
    live.trace.mark("fifth")
    alone = ["first", "segment_alloc", "alloc", "second", "free", "third", "segment_free", "fourth", "fifth"]
    assert actions(live.trace) == alone


def test_what_fails_for_want_of_memory_is_in_it(card, live):
    class Greedy(nn.Module):
        def forward(self, x):
            with suppress(torch.OutOfMemoryError):
                card.malloc(1 << 40, ["at::_ops::empty::call("])
            return x * 2 + 1

    nn.Sequential(Greedy())(card.tensor(torch.ones(4)))
    inside = [(e.action, e.n_bytes, e.module) for e in live.trace if e.phase == "forward"]
    assert inside == [("oom", 1 << 40, "0"), *[("alloc", 16, "0")] * 2, ("free", 16, "")]


def test_it_is_read_anew_when_there_is_more_and_only_then(card, live):
    x = card.tensor(torch.ones(10))
    events = live.trace.events
    assert live.trace.events is events
    assert live.trace.owners is live.trace.owners
    live.trace.mark("here")
    assert actions(live.trace)[-1] == "here"
    y = card.tensor(torch.ones(20))
    assert made(live.trace) == [40, 80]
    assert (x, y) != (None, None)


def test_another_gpu_s_memory_is_not_its_own(card, live):
    """PyTorch's snapshot holds all; the history that the card pretends for another one would be an allocation more."""
    assert len(torch.cuda.memory_snapshot()) == 1, "the other one's"
    assert live.device == DEVICE
    assert list(live.trace) == []
    x = card.tensor(torch.ones(10))
    assert made(live.trace) == [40]
    assert x is not None


def test_looking_around_shows_what_no_forward_has_shown(card, live):
    layer = card.model(nn.Linear(4, 4))
    assert set(Ledger.at(live.trace).parts) == {"parameters", "slack"}
    assert Ledger.now(live).trace is live.trace
    assert {row.name for row in Ledger.now(live)} == {"weight", "bias"}
    layer.register_buffer("more", card.tensor(torch.ones(2)))
    assert {row.category for row in Ledger.now(live)} == {"parameters", "buffers"}


# -------------------------------------------------------------------------------------------------------------- its end


def test_closed_it_can_be_read_and_hears_nothing_more(card):
    with LiveGPU() as gpu:
        x = card.tensor(torch.ones(10))
        gpu.trace.mark("here")
    events = list(gpu.trace)
    y = card.tensor(torch.ones(20))
    assert list(gpu.trace) == events
    assert Ledger.at(gpu.trace, "here").requested_bytes == 40
    with pytest.raises(RuntimeError, match="the live GPU must be open: mark was asked of its trace, and it is closed"):
        gpu.trace.mark("late")
    assert (x, y) != (None, None)


def test_it_leaves_pytorch_as_it_was(card):
    def in_the_place_of():
        check = torch.utils.checkpoint._CheckpointFrame.check_recomputed_tensors_match
        return torch.autograd._engine_run_backward, torch.UntypedStorage.resize_, check

    before = in_the_place_of()
    with LiveGPU():
        assert torch._C._cuda_isHistoryEnabled()
        assert all(one is not other for one, other in zip(in_the_place_of(), before))
        assert len(watch) == 1
    assert not torch._C._cuda_isHistoryEnabled()
    assert in_the_place_of() == before
    assert watch == []


def test_it_is_closed_where_the_program_fails(card):
    def program():
        with LiveGPU() as gpu:
            x = card.tensor(torch.ones(10))
            gpu.trace.mark("here")
            del x
            raise KeyError(gpu)

    with pytest.raises(KeyError) as error:
        program()
    (gpu,) = error.value.args
    assert watch == []
    assert not torch._C._cuda_isHistoryEnabled()
    assert Ledger.at(gpu.trace, "here").requested_bytes == 40


def test_opened_again_it_begins_anew(card):
    gpu, x = LiveGPU(), card.tensor(torch.ones(10))
    with gpu:
        y = card.tensor(torch.ones(20))
    first = gpu.trace
    with gpu:
        assert made(gpu.trace) == [40, 80]
        assert gpu.trace.n_found == 2
    assert first.n_found == 1
    assert (x, y) != (None, None)


# ----------------------------------------------------------------------------------------------- a history of another's


def test_a_history_that_the_program_has_switched_on_itself_goes_on(card):
    torch.cuda.memory._record_memory_history()
    x = card.tensor(torch.ones(10))
    with LiveGPU() as gpu:
        y = card.tensor(torch.ones(20))
        assert made(gpu.trace) == [40, 80]
        assert [event.operation for event in gpu.trace if event.action == "alloc"] == ["", "aten::_to_copy"]
    assert torch._C._cuda_isHistoryEnabled()
    assert [entry["size"] for entry in card.entries if entry["action"] == "alloc"] == [40, 80]
    assert (x, y) != (None, None)


def test_one_scope_inside_of_another_has_its_own_trace(card):
    with LiveGPU() as outer:
        x = card.tensor(torch.ones(10))
        with LiveGPU() as inner:
            y = card.tensor(torch.ones(20))
        z = card.tensor(torch.ones(30))
        assert torch._C._cuda_isHistoryEnabled()
    assert made(inner.trace) == [40, 80]
    assert (outer.trace.n_found, inner.trace.n_found) == (0, 1)
    assert made(outer.trace) == [40, 80, 120]
    assert not torch._C._cuda_isHistoryEnabled()
    assert (x, y, z) != (None, None, None)


def test_without_a_history_there_is_no_trace_and_the_rest_works(card, monkeypatch):
    def fails(*_settings):
        raise RuntimeError("cudaMallocAsync does not yet support recordHistory")

    monkeypatch.setattr(torch._C, "_cuda_record_memory_history", fails)
    x = card.tensor(torch.ones(10))
    with LiveGPU() as gpu:
        assert not hasattr(gpu, "trace")
        with pytest.raises(RuntimeError, match="keeps no memory history here: cudaMallocAsync does not yet support"):
            gpu.trace  # noqa: B018
        assert gpu.memory_allocated() == 512
        assert Ledger.now(gpu).requested_bytes == 40
    assert watch == []
    assert x is not None


# ------------------------------------------------------------------------------------------------- it must be the whole


def test_a_reset_of_the_counters_by_the_gpu_is_none(card, live):
    x = card.tensor(torch.ones(10))
    live.reset_accumulated_memory_stats()
    live.trace.mark("here")
    y = card.tensor(torch.ones(20))
    assert [event.n_bytes for event in live.trace if event.action in ("alloc", "mark")] == [40, 0, 80]
    assert (x, y) != (None, None)


def test_a_reset_of_the_counters_by_another_is_told(card, live):
    x = card.tensor(torch.ones(10))
    live.trace.mark("here")
    y = card.tensor(torch.ones(20))
    torch.cuda.reset_accumulated_memory_stats(live.device)
    with pytest.raises(RuntimeError, match=r"must agree with the allocator's counters: .* has reset the counters"):
        list(live.trace)
    assert (x, y) != (None, None)


def test_a_history_that_is_cut_short_is_told(card, live):
    x = card.tensor(torch.ones(10))
    torch.cuda.memory._record_memory_history(None)
    torch.cuda.memory._record_memory_history()
    del x
    with pytest.raises(
        RuntimeError, match="something has switched it off, or cut it short, while the live GPU was open"
    ):
        list(live.trace)


def test_what_was_wrong_is_told_when_the_trace_is_asked_and_not_when_the_scope_ends(card):
    with LiveGPU() as gpu:
        x = card.tensor(torch.ones(10))
        torch.cuda.memory._record_memory_history(None)
        torch.cuda.memory._record_memory_history()
        del x
    for _ in range(2):
        with pytest.raises(RuntimeError, match="must hold the allocation of all that is freed"):
            list(gpu.trace)
    assert watch == []


def test_an_entry_too_many_is_told(card, live):
    x = card.tensor(torch.ones(10))
    card.entries.append(card.entries[-1] | {"addr": card.entries[-1]["addr"] + 512})
    with pytest.raises(RuntimeError, match="must agree with the allocator's counters"):
        list(live.trace)
    card.entries.pop()
    assert x is not None


def test_where_blocks_are_cut_by_other_rules_only_requests_are_told(card, monkeypatch):
    """As under `roundup_power2_divisions`."""
    monkeypatch.setattr(card.allocator, "_round_size", lambda n_bytes: 1 << (n_bytes - 1).bit_length())
    with LiveGPU() as gpu:
        x = [card.tensor(torch.ones(n)) for n in (256, 300)]
        gpu.trace.mark("here")
        events = [event for event in gpu.trace if event.action in ("alloc", "mark")]
    assert [(e.n_bytes, e.block_bytes, e.allocated_bytes) for e in events[:2]] == [(1024, 0, None), (1200, 0, None)]
    assert events[2].allocated_bytes == 1024 + 2048
    assert [event.requested_bytes for event in events] == [1024, 2224, 2224]
    ledger = Ledger.at(gpu.trace, "here")
    assert (ledger.requested_bytes, ledger.slack_bytes) == (2224, 0)
    assert len(x) == 2


# -------------------------------------------------------------------------------------------------- without a recording


def test_a_glance_shows_what_is_in_use_by_looking_around(card):
    layer = card.model(nn.Linear(4, 4))
    raw, y = card.malloc(5000), layer(card.tensor(torch.ones(3, 4)).requires_grad_()).sin()
    gpu = LiveGPU()
    ledger = Ledger.now(gpu)
    assert ledger.allocated_bytes == gpu.memory_allocated()
    assert {row.name for row in ledger.of(category="parameters")} == {"weight", "bias"}
    assert [row.n_bytes for row in ledger.of(category="unattributed")] == [5000]
    assert {slot for row in ledger for slot in row.kept_for} == {
        "AddmmBackward0.mat1",
        "AddmmBackward0.mat2",
        "SinBackward0.self",
    }
    assert watch == []
    assert not torch._C._cuda_isHistoryEnabled()
    assert len(card.entries) == 0
    assert (raw, y) != (None, None)


def test_a_glance_is_of_its_instant(card):
    x, gpu = card.tensor(torch.ones(10)), LiveGPU(traced=False)
    with gpu:
        first = Ledger.now(gpu)
        y = card.tensor(torch.ones(20))
        assert Ledger.now(gpu).requested_bytes == 120
    assert first.requested_bytes == 40
    assert Ledger.at(first.trace).requested_bytes == 40
    assert (x, y) != (None, None)


# ----------------------------------------------------------------------------------------------- beside a simulated one


def step(model, x):
    model(x).sum().backward()
    torch.optim.SGD(model.parameters(), foreach=False).step()


def test_a_simulated_gpu_around_hears_nothing_of_it(card):
    found = []
    for inside in (False, True):
        with SimulatedGPU("a100-80gb") as gpu:
            model, x = nn.Linear(8, 8).to(gpu.device), torch.ones(3, 8).to(gpu.device)
            y = model(x).sum()
            if inside:
                with LiveGPU() as live:
                    layer = card.model(nn.Linear(4, 4))
                    step(layer, card.tensor(torch.ones(2, 4)))
                    assert Ledger.now(live).parts.keys() == {"parameters", "gradients", "slack"}
            y.backward()
            events = [(e.action, e.n_bytes, e.operation, e.phase, e.module, e.node) for e in gpu.trace]
            found.append((events, Ledger.now(gpu).parts, len(gpu.trace.owners.spans)))
    assert found[0] == found[1]
    assert "forward" in {event.phase for event in live.trace}


def test_of_a_simulated_gpu_inside_it_hears_nothing(card, live):
    layer = card.model(nn.Linear(4, 4))
    with SimulatedGPU("t4-16gb") as gpu:
        step(nn.Linear(8, 8).to(gpu.device), torch.ones(3, 8).to(gpu.device))
    assert live.trace.owners.spans == []
    assert set(Ledger.now(live).parts) == {"parameters", "slack"}
    assert {event.phase for event in live.trace} == {""}
    assert layer is not None


def test_a_training_step_of_another_thread_is_in_the_history_and_nobody_s(card, live):
    """On the CPU, where a GPU's backward has a thread of its own, that thread's backward is the other program's."""
    kept = []

    def other():
        model = card.model(nn.Linear(4, 4))
        step(model, card.tensor(torch.ones(2, 4)))
        kept.append(model)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert live.trace.owners.spans == []
    assert live.trace.owners.passes == []
    assert {event.phase for event in live.trace} == {""}
    assert sum(event.action == "alloc" for event in live.trace) > 5
