"""A memory history is read as allocations and frees: numbers, lives, blocks, and sums as the allocator counts them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from every_byte.gpu.live.history import Counters, History
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.events import Event
from every_byte.ledger.formats import viewer_snapshot
from every_byte.units import MiB

SEGMENT = {"address": 0, "total_size": 2 * MiB, "blocks": [{"address": 0, "size": 2 * MiB, "state": "inactive"}]}


def entry(action, address, n_bytes, **more):
    return {"action": action, "addr": address, "size": n_bytes, "stream": 0, **more}


def test_an_address_used_again_is_another_allocation():
    history = History([SEGMENT])
    events = [entry("alloc", 0, 100), entry("free_requested", 0, 100), entry("free_completed", 0, 100)]
    history.read([*events, entry("alloc", 0, 200)])
    history.read([*events, entry("alloc", 0, 200), entry("alloc", 512, 50)])
    assert [(e.action, e.n_bytes, e.allocation, e.block_bytes) for e in history.events] == [
        ("alloc", 100, 0, 512),
        ("free", 100, 0, 512),
        ("alloc", 200, 1, 512),
        ("alloc", 50, 2, 512),
    ]
    assert [history.number_at(0, tick) for tick in range(5)] == [None, 0, 0, 1, 1]
    assert history.number_at(99, 4) is None
    assert [event.allocated_bytes for event in history.events] == [512, 0, 512, 1024]


def test_a_block_that_another_stream_uses_is_free_for_the_program_and_not_for_the_allocator():
    history = History([SEGMENT])
    history.read([entry("alloc", 0, 100), entry("free_requested", 0, 100), entry("alloc", 512, 100)])
    assert [event.allocated_bytes for event in history.events] == [512, 0, 512]
    assert history.whole


def test_what_was_in_use_at_first_comes_first():
    used = {"address": 512, "size": 512, "state": "active_allocated", "requested_size": 300}
    rest = {"address": 1024, "size": 2 * MiB - 1024, "state": "inactive"}
    pending = {"address": 0, "size": 512, "state": "active_pending_free", "requested_size": 10}
    history = History([SEGMENT | {"blocks": [pending, used, rest]}])
    history.read([entry("free_completed", 0, 10), entry("free_requested", 512, 300), entry("free_completed", 512, 300)])
    assert [(e.action, e.n_bytes, e.operation) for e in history.events] == [("alloc", 300, ""), ("free", 300, "")]
    assert (history.n_before, history.n_ticks, history.whole) == (1, 1, True)
    assert isinstance(history.others[0][0][1], Event)


@pytest.mark.parametrize(
    ("counters", "said"),
    [
        (Counters(512, 101, 1, 0, 0), r"after 1 allocations and frees these say 101 bytes .*has 100 bytes"),
        (Counters(512, 100, 2, 0, 0), "after 2 allocations and frees .*has 1 of them"),
    ],
)
def test_a_history_that_does_not_agree_with_the_counters_is_an_error(counters, said):
    history = History([SEGMENT])
    history.read([entry("alloc", 0, 100)])
    history.must_agree([Counters(0, 0, 0, 0, 0), Counters(512, 100, 1, 0, 0)])
    with pytest.raises(RuntimeError, match=said):
        history.must_agree([Counters(0, 0, 0, 0, 0), Counters(512, 100, 1, 0, 0), counters])


def test_of_other_blocks_than_these_none_is_known():
    """As where `roundup_power2_divisions` rounds otherwise."""
    history = History([SEGMENT])
    history.read([entry("alloc", 0, 600)])
    history.must_agree([Counters(1024, 600, 1, 0, 0)])
    assert history.whole
    history.read([entry("alloc", 0, 600), entry("alloc", 1024, 1100)])
    history.must_agree([Counters(1024, 600, 1, 0, 0), Counters(3072, 1700, 2, 0, 0)])
    assert not history.whole


def test_a_free_of_what_was_never_allocated_is_an_error():
    with pytest.raises(RuntimeError, match="must hold the allocation of all that is freed: it has none at 0x200"):
        History([SEGMENT]).read([entry("free_requested", 512, 100)])


@given(st.lists(st.integers(1, 5000), max_size=30), st.data())
def test_sums_are_those_of_what_is_live(sizes, data):
    history, entries, live, address = History([]), [], {}, 0
    for n_bytes in sizes:
        entries += [entry("segment_alloc", address, 2 * MiB), entry("alloc", address, n_bytes)]
        live[address] = n_bytes
        address += 2 * MiB
        if data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(live)))
            entries += [entry("free_requested", gone, live[gone]), entry("free_completed", gone, live.pop(gone))]
    history.read(entries)
    assert not sizes or history.events[-1].requested_bytes == sum(live.values())
    assert history.whole


# ------------------------------------------------------------------------------------------------ what it says of each

STACKS = {
    "ones": ["at::_ops::empty_memory_format::redispatch(", "at::_ops::ones::redispatch(", "at::_ops::ones::call("],
    "mul": ["at::_ops::mul_Tensor::redispatch(", "at::_ops::mul_Tensor::call(", "torch::autograd::THPVariable_mul("],
    "in backward": [
        "at::_ops::mul_Tensor::redispatch(",
        "at::_ops::mul_Tensor::call(",
        "torch::autograd::generated::MulBackward0_apply_functional(",
        "torch::autograd::generated::MulBackward0::apply(",
        "torch::autograd::Node::operator()(",
        "torch::autograd::Engine::evaluate_function(",
        "start_thread",
        "clone3",
    ],
}
CAST = "at::autocast::cached_cast(c10::ScalarType, at::Tensor const&)"
STREAM = 94022679022368
RECORDED = [
    ("segment_alloc", 0, 2 * MiB, 0, "ones"),
    ("alloc", 0, 400, 0, "ones"),
    ("alloc", 512, 400, 0, "mul"),
    ("free_requested", 512, 400, 0, "mul"),
    ("free_completed", 512, 400, 0, "mul"),
    ("alloc", 512, 400, 0, "in backward"),
    ("oom", None, 140737488355328, 0, "ones"),
    ("segment_alloc", 4 * MiB, 2 * MiB, STREAM, "ones"),
    ("alloc", 4 * MiB, 28, STREAM, "ones"),
    ("free_requested", 4 * MiB, 28, STREAM, "ones"),
    ("free_completed", 4 * MiB, 28, STREAM, "ones"),
    ("segment_free", 4 * MiB, 2 * MiB, STREAM, ""),
]
"""As PyTorch 2.13.0 wrote it, recorded without a GPU: of each stack what is read, of each name what stands before its
arguments; addresses count from the first."""


def as_pytorch_writes(action, offset, n_bytes, stream, stack):
    """Where memory goes back to the driver there is no stack, and where it fails no address."""
    where = {"device_free": 84510769152} if offset is None else {"addr": 122211530702848 + offset}
    rest = {"time_us": 1795376017320599, "compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0)}
    frames = [{"name": name, "filename": "??", "line": 0} for name in STACKS.get(stack, ())]
    about = {"action": action, "size": n_bytes, "stream": stream}
    return about | where | rest | ({"frames": frames} if frames else {})


def test_a_recorded_history_is_read():
    history = History([])
    history.read([as_pytorch_writes(*entry) for entry in RECORDED])
    assert [(e.action, e.n_bytes, e.allocation, e.operation, e.node, e.stream) for e in history.events] == [
        ("alloc", 400, 0, "aten::ones", "", 0),
        ("alloc", 400, 1, "aten::mul.Tensor", "", 0),
        ("free", 400, 1, "", "", 0),
        ("alloc", 400, 2, "aten::mul.Tensor", "MulBackward0", 0),
        ("alloc", 28, 3, "aten::ones", "", 1),
        ("free", 28, 3, "", "", 0),
    ]
    others = {at: [(n, e.action, e.n_bytes) for n, e in found] for at, found in history.others.items() if found}
    assert others == {
        0: [(0, "segment_alloc", 2 * MiB)],
        4: [(2 * MiB, "oom", 140737488355328), (2 * MiB, "segment_alloc", 2 * MiB)],
        6: [(4 * MiB, "segment_free", 2 * MiB)],
    }
    assert history.whole
    assert not any(made.is_elsewhere or made.is_cast for made in history.makers)


def test_an_expandable_segment_grows_and_shrinks_as_segments_come_and_go():
    history = History([])
    history.read([entry("segment_map", 0, 2 * MiB), entry("segment_unmap", 0, 2 * MiB), entry("snapshot", 0, 0)])
    assert [event.action for _, event in history.others[0]] == ["segment_map", "segment_unmap"]
    assert history.ends_at(Counters(0, 0, 0, 0, 4 * MiB))
    assert not history.ends_at(Counters(0, 0, 0, 0, 2 * MiB)), "the unmap is not read yet, though no segment went"


def test_a_workspace_has_a_name_and_what_autocast_made_is_known():
    frames = [["at::cuda::getNewWorkspace()", "at::_ops::mm::call("], ["at::_ops::_to_copy::call(", CAST, "mm"]]
    history = History([SEGMENT])
    history.read(
        [entry("alloc", at, 100, frames=[{"name": name} for name in names]) for at, names in zip((0, 512), frames)]
    )
    assert [event.name for event in history.events] == ["cuBLAS workspace", ""]
    assert [made.is_cast for made in history.makers] == [False, True]


def test_the_history_of_a_simulated_gpu_is_read_as_its_trace():
    """Blocks, sums and addresses, found by replaying, are those that the simulated allocator had."""
    with SimulatedGPU("a100-80gb") as gpu:
        model = torch.nn.Sequential(torch.nn.Linear(700, 900), torch.nn.GELU(), torch.nn.Linear(900, 5)).to(gpu.device)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        for b in (3, 5000, 700):
            model(torch.randn(b, 700).to(gpu.device)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            gpu.empty_cache()
        events = [event for event in gpu.trace if event.action in ("alloc", "free")]
        snapshot = viewer_snapshot(gpu.trace)
    history = History([])
    history.read(snapshot["device_traces"][0])
    columns = "action", "n_bytes", "allocation", "address", "block_bytes", "allocated_bytes", "requested_bytes"
    for column in columns:
        assert [getattr(e, column) for e in history.events] == [getattr(e, column) for e in events], column
    assert history.whole
    assert {event.action for found in history.others.values() for _, event in found} == {
        "segment_alloc",
        "segment_free",
    }


# -------------------------------------------------------------------------------------------- lives, ticks and counters

USED = [
    {"address": 512, "size": 512, "state": "active_allocated", "requested_size": 300},
    {"address": 1024, "size": 512, "state": "active_allocated", "requested_size": 400},
    {"address": 1536, "size": 2 * MiB - 1536, "state": "inactive"},
]
IN_USE = {"address": 512, "total_size": 2 * MiB - 512, "stream": 77, "blocks": USED}


def test_ticks_count_from_the_beginning_and_lives_reach_to_the_free():
    history = History([IN_USE])
    history.read([entry("alloc", 1536, 9), entry("free_requested", 1024, 400), entry("alloc", 1024, 50)])
    assert (history.n_before, history.n_ticks) == (2, 3)
    assert [history.number_at(1024, tick) for tick in range(4)] == [1, 1, 1, 3]
    assert [history.number_at(1536, tick) for tick in range(2)] == [None, 2]
    assert [history.made(number).n_bytes for number in range(4)] == [300, 400, 9, 50]
    assert [history.life_of(number)[0] for number in range(4)] == [-2, -1, 0, 2]
    assert history.life_of(1)[1] == 1
    assert history.life_of(0)[1] > 10**15, "it lives on"
    assert [event.stream for event in history.events] == [1, 1, 0, 0, 0]


def test_segments_come_by_address_whatever_their_order():
    later = {"address": 8 * MiB, "total_size": 2 * MiB, "blocks": [USED[0] | {"address": 8 * MiB}]}
    history = History([later, IN_USE])
    assert [event.address for event in history.events] == [512, 1024, 8 * MiB]
    assert [event.address for _, event in history.others[0]] == [512, 8 * MiB]


def test_counters_are_those_of_pytorch_and_are_counted_from_a_start():
    def stats(n_bytes, requested, came, went, bought):
        def figure(current, allocated=0, freed=0):
            return {"all": {"current": current, "peak": 99, "allocated": allocated, "freed": freed}}

        found = {"allocated_bytes": figure(n_bytes), "requested_bytes": figure(requested), "num_ooms": 0}
        found["active_bytes"] = figure(n_bytes + 64)
        return found | {"allocation": figure(came - went, came, went), "reserved_bytes": figure(0, bought, 1)}

    start = Counters.of(stats(1024, 700, 5, 3, 2))
    assert start[:5] == (1024, 700, 5, 3, 3)
    now = Counters.of(stats(512, 100, 7, 6, 4)).since(start)
    assert now[:5] == (512, 100, 2, 3, 2)
    assert (start.tick, now.tick) == (8, 5)
    assert now.awaited_bytes == 64
    assert [now.agrees(n_bytes) for n_bytes in (35, 36, 100, 101)] == [False, True, True, False]


def test_it_ends_where_the_counters_are():
    history = History([SEGMENT])
    assert history.ends_at(Counters(0, 0, 0, 0, 0))
    history.read([entry("alloc", 0, 100)])
    assert history.ends_at(Counters(512, 100, 1, 0, 0))
    assert not history.ends_at(Counters(512, 100, 2, 1, 0)), "two more that cancel out"
    assert not history.ends_at(Counters(512, 101, 1, 0, 0))
    history.must_end_at(Counters(512, 100, 1, 0, 0))
    with pytest.raises(RuntimeError, match="must agree with the allocator's counters"):
        history.must_end_at(Counters(0, 0, 1, 1, 0))


def test_the_counters_of_the_beginning_are_those_of_what_was_there():
    History([IN_USE]).must_agree([Counters(1024, 700, 0, 0, 0)])
    with pytest.raises(RuntimeError, match="these say 699 bytes .*history has 700 bytes"):
        History([IN_USE]).must_agree([Counters(1024, 699, 0, 0, 0)])
