"""A live GPU's trace has owners as a simulated one's: the same program has the same ledger on both, at each mark."""

import gc
import pickle
import threading
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from every_byte.gpu.live.gpu import LIVE, cleared
from every_byte.gpu.live.settings import followed_settings
from every_byte.ledger.levels import levels
from every_byte.ledger.readings import parts_at_marks
from every_byte.remedies.policies import MATMULS, keeping
from every_byte.widget.timeline import Timeline
from utils import Ledger, LiveGPU, SimulatedGPU, Trace
from utils.experiments.gpt_step import OPTIMIZERS, GPTStep
from utils.experiments.step_run import StepRun
from utils.experiments.training import StepSettings, random_tokens, train_in_phases, train_steps
from utils.layers import LinearStack
from utils.models.checkpointing import checkpoint
from utils.models.gpt import GPT
from utils.models.regions import library_checkpoint, set_regions

pytestmark = pytest.mark.gpu

IS_OLD = torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 0)
HALF = torch.float16 if IS_OLD else torch.bfloat16
SGD = lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)  # noqa: E731
reentrant = partial(torch.utils.checkpoint.checkpoint, use_reentrant=True)
selective = partial(library_checkpoint, context_fn=keeping(MATMULS))


def gpt(gpu, *, dtype=torch.float32, kind="sdpa", dropout=0.0, regions="none", run=checkpoint, **settings):
    """Two steps of a small GPT."""

    def make_model():
        model = GPT(512, 40, 64, 2, 4, dropout, gpu.device, dtype, kind=kind)
        return set_regions(model, regions, k=None, run=run) if regions != "none" else model

    return train_steps(
        gpu, make_model, lambda: random_tokens(gpu, b=3, s=40, V=512), StepSettings(**settings), n_steps=2
    )


def mlp(gpu, **settings):
    """Two steps of an MLP whose input no gradient reaches: no graph keeps autocast's copy of the first weight."""

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 3)).to(gpu.device)

        def forward(self, x):
            return self.net(x).float().square().mean()

    return train_steps(
        gpu, Loss, lambda: iter([torch.randn(64, 64).to(gpu.device)]), StepSettings(**settings), n_steps=2
    )


def phases(gpu):
    return train_in_phases(
        gpu, lambda: LinearStack(64, 3, device=gpu.device), lambda: torch.randn(8, 64, device=gpu.device)
    )


PROGRAMS = {
    "autocast": partial(gpt, autocast=HALF),
    "float32": gpt,
    "half": partial(gpt, dtype=HALF),
    "explicit attention": partial(gpt, autocast=HALF, kind="explicit", dropout=0.1),
    "dropout": partial(gpt, autocast=HALF, dropout=0.1),
    "foreach": partial(gpt, optimizer="foreach"),
    "one after the other": partial(gpt, optimizer="loop"),
    "SGD": partial(gpt, optimizer=SGD),
    "micro-batches": partial(gpt, autocast=HALF, micro_batches=3, keep_outputs=False),
    "zeros": partial(gpt, set_to_none=False),
    "MLP": mlp,
    "MLP, autocast": partial(mlp, autocast=HALF),
    "MLP, autocast, micro-batches": partial(mlp, autocast=HALF, micro_batches=2),
    "linear stack": phases,
    "checkpoint of the book": partial(gpt, autocast=HALF, regions="every block"),
    "checkpoint of PyTorch": partial(gpt, autocast=HALF, regions="every block", run=library_checkpoint),
    "reentrant checkpoint": partial(gpt, autocast=HALF, regions="every block", run=reentrant),
    "selective checkpoint": partial(gpt, autocast=HALF, regions="every block", run=selective),
    "checkpoint of attention": partial(gpt, dtype=HALF, regions="attention only", dropout=0.1),
}


@pytest.fixture(scope="module", params=PROGRAMS)
def both(request):
    """The traces of one program on this machine's GPU, which is open as a scope, and on its simulation."""
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA GPU")
    with cleared() as live:
        PROGRAMS[request.param](live)
        measured = live.trace
        are_stand_ins = torch.ones(1000, device=live.device).sum().item() != 1000
    with SimulatedGPU(
        replace(live.spec, over_stand_ins=are_stand_ins), settings=followed_settings(live.device)[0]
    ) as gpu:
        PROGRAMS[request.param](gpu)
    return measured, gpu.trace


def marks(trace):
    return list(dict.fromkeys(event.name for event in trace if event.action == "mark"))


def test_the_ledger_is_that_of_the_simulation(both):
    measured, simulated = both
    assert marks(measured) == marks(simulated)
    for mark in marks(simulated):
        assert Ledger.at(measured, mark).parts == Ledger.at(simulated, mark).parts, mark
    assert Ledger.at_peak(measured).parts == Ledger.at_peak(simulated).parts
    assert "unattributed" not in Ledger.at_peak(measured).parts


def test_operations_phases_and_modules_are_those_of_the_simulation(both):
    """In backward autograd adds gradients up: which of two nodes that was for, no call stack tells."""
    found, expected = (
        [e for e in trace.between(marks(trace)[0], marks(trace)[-1]) if e.action == "alloc"] for trace in both
    )
    for column in ("n_bytes", "operation", "phase", "name", "block_bytes"):
        assert [getattr(e, column) for e in found] == [getattr(e, column) for e in expected], column
    for column in ("node", "module"):
        same = [getattr(e, column) == getattr(f, column) for e, f in zip(found, expected, strict=True)]
        assert sum(same) >= 0.95 * len(same), column
    assert all(e.module == f.module for e, f in zip(found, expected, strict=True) if e.phase in ("forward", "step"))


def test_rows_add_up_at_every_event(both):
    measured, _ = both
    assert len(levels(measured)) == len(measured) + 1
    for position in range(0, len(measured) + 1, 97):
        assert Ledger.at(measured, position).allocated_bytes == sum(levels(measured)[position].values())


def test_it_is_drawn_saved_and_compared_as_a_simulated_one(both, tmp_path):
    measured, simulated = both
    first, last = marks(simulated)[-5], marks(simulated)[-1]
    assert Timeline.of(measured, after=first, until=last).columns.keys() >= {"parameters", "cuBLAS workspace"}
    assert parts_at_marks(measured)[-1].keys() == parts_at_marks(simulated)[-1].keys()
    assert measured.sequence()[: len(simulated) // 3] == simulated.sequence()[: len(simulated) // 3]
    measured.save_memory_viz(tmp_path / "trace.pickle")
    copied = pickle.loads(pickle.dumps(measured))
    assert type(copied) is Trace is type(replace(measured, look=None))
    assert str(Ledger.at(copied, last)) == str(Ledger.at(measured, last))


@pytest.mark.parametrize("precision", ["autocast", "float32"])
def test_a_gpt_2_step(precision):
    """The book's own, at the moments of which it speaks."""
    step = GPTStep(precision=precision, gpu=LIVE, b=2 if IS_OLD else 12)
    runs = []

    def train(gpu):
        how = StepSettings(autocast=step.autocast, optimizer=OPTIMIZERS[step.optimizer])
        batch = partial(random_tokens, gpu, b=step.b, s=step.s, V=step.letters["V"])
        train_steps(gpu, lambda: step.model_on(gpu.device), batch, how, n_steps=2)
        runs.append(StepRun(step, gpu.trace))

    with cleared() as live:
        train(live)
    with SimulatedGPU(live.spec, settings=followed_settings(live.device)[0]) as gpu:
        train(gpu)
    measured, simulated = runs
    assert measured.account() == simulated.account()
    ledger = Ledger.at(measured.trace, measured.peak)
    assert ledger.parts == Ledger.at(simulated.trace, simulated.peak).parts
    assert ledger.parts.get("unattributed", 0) <= 0.01 * ledger.allocated_bytes


# ------------------------------------------------------------------------------------------------------------- scopes


@pytest.fixture(autouse=True)
def _nothing_is_left():
    """Of other tests, as workspaces, which would be found in the next trace."""
    if torch.cuda.is_available():
        with cleared(traced=False):
            pass


@pytest.fixture
def live():
    with cleared() as gpu:
        yield gpu


def small(gpu):
    return nn.Linear(64, 64, device=gpu.device)


def test_without_a_scope_owners_are_found_by_looking_around():
    gpu = LiveGPU()
    net, x = small(gpu), torch.randn(8, 64, device=gpu.device)
    y = net(x).sin()
    assert not hasattr(gpu, "trace")
    with pytest.raises(RuntimeError, match=r"has a trace once it is opened as a scope, `with LiveGPU\(\) as gpu:`"):
        gpu.trace  # noqa: B018
    ledger = Ledger.now(gpu)
    assert ledger.allocated_bytes == gpu.memory_allocated()
    assert {(row.module, row.name) for row in ledger.of(category="parameters")} >= {("", "weight"), ("", "bias")}
    kept = {slot for row in ledger for slot in row.kept_for}
    assert kept >= {"AddmmBackward0.mat1", "SinBackward0.self"}
    assert (x, y) != (None, None)


def test_what_was_there_before_is_what_it_is_or_nobody_s():
    gpu = LiveGPU()
    net, raw = small(gpu), torch.cuda.caching_allocator_alloc(5000, gpu.device)
    try:
        with gpu:
            ledger = Ledger.now(gpu)
            assert 5000 in [row.n_bytes for row in ledger.of(category="unattributed")]
            assert ledger.parts["parameters"] >= 64 * 65 * 4
            assert ledger.allocated_bytes == gpu.memory_allocated()
    finally:
        torch.cuda.caching_allocator_delete(raw)
    assert net is not None


def test_another_thread_s_memory_is_nobody_s(live):
    net, kept = small(live), []

    def elsewhere():
        torch.ones(3000, device=live.device).sin()
        kept.append(torch.ones(1000, device=live.device))

    class Waits(nn.Module):
        def forward(self, x):
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            live.trace.mark("after")
            return net(x)

    Waits()(torch.randn(8, 64, device=live.device))
    ledger = Ledger.at(live.trace, "after")
    assert [row.n_bytes for row in ledger.of(category="unattributed")] == [4000]
    sizes = {e.n_bytes for e in live.trace if e.action == "alloc"}
    assert 12000 in sizes
    assert Ledger.at_peak(live.trace).allocated_bytes == max(sum(level.values()) for level in levels(live.trace))


def test_a_closed_one_can_be_read_and_leaves_pytorch_as_it_was():
    with LiveGPU() as gpu:
        x = torch.ones(1000, device=gpu.device)
        gpu.trace.mark("ones")
    assert not torch._C._cuda_isHistoryEnabled()
    y = torch.ones(1000, device=gpu.device)
    assert Ledger.at(gpu.trace, "ones").requested_bytes >= 4000
    assert [e.n_bytes for e in gpu.trace if e.action == "alloc"][-1:] == [4000]
    with pytest.raises(RuntimeError, match="must be open: mark was asked"):
        gpu.trace.mark("late")
    assert (x, y) != (None, None)


def test_what_is_there_at_the_end_is_known_to_a_closed_one_too():
    with LiveGPU() as gpu:
        x = torch.ones(1000, 1000, device="cuda")
    parts = Ledger.at_peak(gpu.trace).parts
    assert (parts.pop("other tensors"), set(parts) - {"slack"}) == (x.nbytes, set())


def test_a_history_of_the_program_s_own_goes_on():
    torch.cuda.memory._record_memory_history(stacks="python")
    try:
        before = torch.ones(1000, device="cuda")
        with LiveGPU() as gpu:
            x = torch.ones(2000, device="cuda")
            gpu.trace.mark("two")
            assert [e.n_bytes for e in gpu.trace if e.action == "alloc"][-2:] == [4000, 8000]
        assert torch._C._cuda_isHistoryEnabled()
        found = torch.cuda.memory._snapshot()["device_traces"][gpu.device.index]
        assert [entry["size"] for entry in found if entry["action"] == "alloc"] == [4000, 8000]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    assert (before, x) != (None, None)


def test_counters_may_be_reset_by_the_gpu_and_by_nobody_else(live):
    x = torch.ones(1000, device=live.device)
    live.reset_accumulated_memory_stats()
    live.trace.mark("here")
    assert Ledger.at(live.trace, "here").requested_bytes == 4000
    y = torch.ones(1000, device=live.device)
    torch.cuda.reset_accumulated_memory_stats(live.device)
    with pytest.raises(RuntimeError, match=r"must agree with the allocator's counters: .* has reset the counters"):
        Ledger.now(live)
    assert (x, y) != (None, None)


def test_segments_alone_and_out_of_memory_are_events(live):
    x = torch.ones(1000, device=live.device)
    del x
    assert [e.action for e in live.trace][-1] == "free"
    torch.cuda.empty_cache()
    assert [e.action for e in live.trace][-1] in ("segment_free", "segment_unmap")
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(2 * live.spec.total_bytes, dtype=torch.uint8, device=live.device)
    assert [e.action for e in live.trace][-1] == "oom"


def test_a_phase_that_raises_is_over(live):
    def fails():
        with live.trace.in_phase("forward"):
            return torch.ones(1000, device=live.device).no_such_name

    with pytest.raises(AttributeError):
        fails()
    y = torch.ones(2000, device=live.device)
    assert [e.phase for e in live.trace if e.action == "alloc" and e.n_bytes in (4000, 8000)] == ["forward", ""]
    assert y is not None


def test_recordings_need_not_end_in_their_order():
    """A slider measures on a thread of its own while a cell opens the GPU, and ends first."""
    is_open, may_close = threading.Event(), threading.Event()

    def measure():
        with LiveGPU():
            is_open.set()
            may_close.wait(300)

    thread = threading.Thread(target=measure)
    thread.start()
    assert is_open.wait(300)
    with LiveGPU() as live:
        may_close.set()
        thread.join()
        x = torch.ones(1000, device=live.device)
        assert [e.n_bytes for e in live.trace if e.action == "alloc"][-1] == 4000
    assert not torch._C._cuda_isHistoryEnabled()
    assert x is not None


def test_what_is_collected_while_pytorch_is_asked_does_no_harm(monkeypatch):
    """Its answer is made of thousands of lists, for which Python may collect garbage, on the card as well."""
    snapshot, garbage = torch.cuda.memory._snapshot, []

    def collecting(*args, **kwargs):
        found = snapshot(*args, **kwargs)
        garbage.clear()
        return found

    monkeypatch.setattr(torch.cuda.memory, "_snapshot", collecting)
    for _ in range(2):
        garbage.append(torch.ones(1000, device="cuda"))
        with LiveGPU() as live:
            x = torch.ones(2000, device=live.device)
            assert Ledger.now(live).allocated_bytes == live.memory_allocated()
        garbage.append(torch.ones(1000, device="cuda"))
        assert Ledger.now(LiveGPU()).allocated_bytes == LiveGPU().memory_allocated()
        assert x is not None


def test_looking_keeps_nothing_alive(live):
    before = live.memory_allocated()
    net, x = small(live), torch.randn(8, 64, device=live.device)
    y = net(x).sum()
    Ledger.now(live)
    y.backward()
    Ledger.now(live)
    del net, x, y
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    assert live.memory_allocated() == before


# ----------------------------------------------------------------------------------------------- beside a simulated one


def noted(gpu):
    """What is in a simulated GPU's trace and owners."""
    rows = [(row.category, row.module, row.operation, row.name, row.kept_for, row.n_bytes) for row in Ledger.now(gpu)]
    events = [(e.action, e.n_bytes, e.operation, e.node, e.phase, e.module) for e in gpu.trace]
    return events, rows, gpu.trace.owners.spans


@pytest.mark.parametrize("works", [False, True])
def test_real_work_inside_of_a_simulated_scope_leaves_nothing_there(works):
    accounts = []
    for inside in (lambda: None, lambda: real_step(works)):
        with SimulatedGPU("a100-80gb") as gpu:
            net, x = small(gpu), torch.randn(8, 64, device=gpu.device)
            y = net(x).sum()
            inside()
            y.backward()
            accounts.append(noted(gpu))
    assert accounts[0] == accounts[1]


def real_step(works):
    with cleared() as live:
        net = small(live)
        optimizer = torch.optim.AdamW(net.parameters())
        loss = net(torch.randn(8, 64, device=live.device)).sum()
        if works:
            loss.backward()
            optimizer.step()
        assert {"parameters", "cuBLAS workspace"} <= Ledger.now(live).parts.keys()
        assert "forward" in {event.phase for event in live.trace}


def test_a_simulated_one_inside_of_a_live_scope_leaves_nothing_there(live):
    net = small(live)
    with SimulatedGPU("t4-16gb") as gpu:
        small(gpu)(torch.randn(8, 64, device=gpu.device)).sum().backward()
        assert Ledger.now(gpu).parts["cuBLAS workspace"] > 0
    assert live.trace.owners.spans == []
    assert set(Ledger.now(live).parts) == {"parameters", "slack"}
    assert net is not None
