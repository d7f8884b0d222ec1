"""A ledger has a row for every byte, says whom it serves at every instant, and adds up to the allocator's figure."""

import gc
import subprocess
import sys
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from places import ROOT
from reference_files import load
from running import cases, run_case
from torch import nn
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from every_byte.formula.formula import Formula, Selector, Term
from every_byte.ledger.events import Event
from every_byte.ledger.levels import categories_of, levels
from utils import Ledger, SimulatedGPU, Trace
from utils.formulas.mlp import mlp_saved

WORKSPACE = 8_519_680
MATRIX, ROWS = 64 * 64 * 4, 8 * 64 * 4  # bytes of a weight, of an activation
TINY = [
    (file, name)
    for file in ("cases", "gpt2_cases")
    for name in cases(file)
    if name.startswith("gpt2_tiny") and "cudnn" not in name
]


def model(gpu, **options):
    return nn.Sequential(
        nn.Linear(64, 64, bias=False, device=gpu.device, **options),
        nn.GELU(),
        nn.Linear(64, 64, bias=False, device=gpu.device, **options),
    )


def data(gpu, **options):
    return torch.randn(8, 64, device=gpu.device, **options)


def rows(ledger, *columns):
    """(values of the columns, requested bytes) of each group, without the workspaces."""
    groups = (g for g in ledger.by(*columns) if "cuBLAS workspace" not in g.key)
    return {g.key if len(columns) > 1 else g.key[0]: g.n_bytes for g in groups}


def row(ledger, tensor_bytes, **columns):
    (found,) = [r for r in ledger.of(**columns) if r.n_bytes == tensor_bytes]
    return found


# ---------------------------------------------------------------------------------------------------------- sums


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("file", "name"), TINY)
def test_rows_add_up_at_every_event(file, name):
    trace = run_case(cases(file)[name], "a100").gpu.trace
    by_event = levels(trace)
    for position in range(0, len(trace) + 1, 7):
        ledger = Ledger.at(trace, position)
        assert ledger.parts == by_event[position]
        live = trace.live_at(position).values()
        assert ledger.requested_bytes == sum(event.n_bytes for event in live)
        assert ledger.allocated_bytes == sum(event.block_bytes for event in live)


def test_every_allocation_and_free_carries_the_allocator_s_own_counters(gpu):
    net, sums = model(gpu), (0, 0)
    net(data(gpu)).sum().backward()
    for event in gpu.trace:
        if event.action in ("alloc", "free"):
            sign = 1 if event.action == "alloc" else -1
            sums = sums[0] + sign * event.block_bytes, sums[1] + sign * event.n_bytes
            assert (event.allocated_bytes, event.requested_bytes) == sums
    assert sums == (gpu.memory_allocated(), gpu.memory_stats()["requested_bytes.all.current"])


def test_a_remainder_is_an_error(gpu):
    x = data(gpu)
    event = gpu.trace.events[-1]
    event.allocated_bytes += 512
    message = r"must add up .*: a100-80gb.*, 1 rows have 2,048 bytes \(2 KiB\) allocated, and it counts 2,560 bytes"
    with pytest.raises(RuntimeError, match=message):
        Ledger.now(gpu)
    with pytest.raises(RuntimeError, match="after event 2, they have 2,048 bytes .*, and it counts 2,560"):
        levels(gpu.trace)
    event.allocated_bytes -= 512
    event.requested_bytes -= 1
    with pytest.raises(RuntimeError, match="requested, and it counts 2,047 bytes .*: 1 byte counted twice"):
        Ledger.now(gpu)
    del x


def test_slips_are_named_with_a_way_out(gpu):
    x = data(gpu)
    ledger = Ledger.now(gpu)
    for call, message in (
        (lambda: Ledger.now(gpu.trace), "gpu must be one that open_gpu has opened: got Trace; .* use Ledger.at"),
        (lambda: Ledger.now("a100-80gb"), "gpu must be one that open_gpu has opened: got str."),
        (lambda: Ledger.at(gpu), "trace must be a Trace: got SimulatedGPU; .* gpu.trace, or Ledger.now"),
        (lambda: Ledger.at_peak(gpu), "trace must be a Trace: got SimulatedGPU; .* gpu.trace, or Ledger.now"),
        (lambda: Ledger.at_peak([]), "trace must be a Trace: got list."),
        (lambda: Ledger.at(gpu.trace, 1.5), "position must be a number of events or a mark's name: got 1.5"),
        (lambda: ledger - 5, "unsupported operand"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(ValueError, match="category must be one of parameters, .*gradients, .*: got 'gradient'"):
        ledger.of(category="gradient")
    assert len(ledger.of(category="gradients")) == 0
    assert x is not None


def test_the_peak_is_found_within_a_range(gpu):
    for name, n in (("start", 1), ("large", 4), ("small", 2)):
        gpu.trace.mark(name)
        x = torch.empty(n * 2**20, dtype=torch.uint8, device=gpu.device)
        del x
    gpu.trace.mark("end")
    assert Ledger.at_peak(gpu.trace).allocated_bytes == 4 * 2**20
    assert Ledger.at_peak(gpu.trace, after="small").allocated_bytes == 2 * 2**20
    assert Ledger.at_peak(gpu.trace, until="large").allocated_bytes == 2**20
    assert Ledger.at_peak(gpu.trace, after="start", until="small").allocated_bytes == 4 * 2**20
    assert Ledger.at_peak(gpu.trace, after="end").allocated_bytes == 0
    with pytest.raises(ValueError, match="after must come before until: got after='small', until='large'"):
        Ledger.at_peak(gpu.trace, after="small", until="large")
    with pytest.raises(ValueError, match="mark must be one of this trace's: got 'nowhere'"):
        Ledger.at_peak(gpu.trace, until="nowhere")


# ------------------------------------------------------------------------------------------------- whom it serves


def test_a_step_by_hand(gpu):
    net, x = model(gpu), data(gpu)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    loss = net(x).sum()
    forward = {"parameters": 2 * MATRIX, "inputs": ROWS, "activations": 2 * ROWS, "outputs": 4}
    assert rows(Ledger.now(gpu), "category") == forward
    loss.backward()
    backward = {"parameters": 2 * MATRIX, "inputs": ROWS, "outputs": 4, "gradients": 2 * MATRIX}
    assert rows(Ledger.now(gpu), "category") == backward
    optimizer.step()
    optimizer.zero_grad()
    state = {"parameters": 2 * MATRIX, "optimizer state": 2 * (2 * MATRIX + 4), "inputs": ROWS, "outputs": 4}
    assert rows(Ledger.now(gpu), "category") == state
    names = {(r.module, r.name): r.n_bytes for r in Ledger.now(gpu).of(category="optimizer state")}
    assert names == {
        (module, f"weight.{state}"): n_bytes
        for module in "02"
        for state, n_bytes in (("exp_avg", MATRIX), ("exp_avg_sq", MATRIX), ("step", 4))
    }


def test_what_is_kept_is_kept_for_a_slot_of_a_module_s_node(gpu):
    net, x = model(gpu), data(gpu)
    y = net(x)
    kept = [(r.category, r.module, r.kept_for) for r in Ledger.now(gpu) if r.kept_for]
    assert kept == [
        ("parameters", "2", ("MmBackward0.mat2",)),
        ("inputs", "", ("MmBackward0.self",)),
        ("activations", "1", ("GeluBackward0.self",)),
        ("activations", "2", ("MmBackward0.self",)),
    ]
    assert {r.shape for r in Ledger.now(gpu).of(category="activations")} == {(8, 64)}
    assert {r.dtype for r in Ledger.now(gpu).of(category="activations")} == {torch.float32}
    y.sum().backward()
    assert not [r for r in Ledger.now(gpu) if r.kept_for]


def test_it_says_of_the_past_what_was_so_then(gpu):
    net, x = model(gpu), data(gpu)
    gpu.trace.mark("before")
    logits = net(x)
    gpu.trace.mark("forward")
    logits.exp().sum().backward()
    before, forward, now = Ledger.at(gpu.trace, "before"), Ledger.at(gpu.trace, "forward"), Ledger.now(gpu)
    assert rows(before, "category") == {"parameters": 2 * MATRIX, "inputs": ROWS}
    assert not [r for r in before if r.kept_for], "the graph that will keep x is not there yet"
    assert rows(forward, "category") == {
        "parameters": 2 * MATRIX,
        "inputs": ROWS,
        "activations": 2 * ROWS,
        "outputs": ROWS,
    }
    assert rows(now, "category") == {
        "parameters": 2 * MATRIX,
        "inputs": ROWS,
        "outputs": ROWS,
        "gradients": 2 * MATRIX,
    }


def test_in_the_midst_of_backward_nodes_that_ran_keep_nothing(gpu):
    net, x = model(gpu), data(gpu)
    kept = []
    net[1].register_full_backward_hook(lambda *_: kept.append(len(gpu.trace)))
    net(x).sum().backward()
    assert [r.kept_for for r in Ledger.at(gpu.trace, kept[0]) if r.kept_for] == [("MmBackward0.self",)]
    assert Ledger.at(gpu.trace, kept[0]).by("category")["gradients"].n_bytes == MATRIX


def test_in_the_midst_of_backward_a_node_that_freed_nothing_has_let_go_too(gpu):
    """Both products keep x alone, which lives on; backward runs the last one made first."""
    first, last = (torch.randn(64, 64, device=gpu.device, requires_grad=True) for _ in range(2))
    x = data(gpu)
    (((x @ first).tanh()) + (x @ last).tanh()).sum().backward()
    results = [e.allocation for e in gpu.trace if e.operation == "aten::tanh"]
    freed = {e.allocation: i + 1 for i, e in enumerate(gpu.trace) if e.action == "free" and e.allocation in results}
    by_last, by_first = (Ledger.at(gpu.trace, freed[number]) for number in reversed(results))
    number = next(e.allocation for e in gpu.trace if e.n_bytes == ROWS)
    assert row(by_last, ROWS, allocation=number).kept_for == ("MmBackward0.self", "MmBackward0.self")
    assert row(by_first, ROWS, allocation=number).kept_for == ("MmBackward0.self",)


@pytest.mark.parametrize("again", [True, False])
def test_a_retained_graph_is_kept_until_it_goes_or_a_backward_does_not_retain_it(gpu, again):
    net, x = model(gpu), data(gpu)
    y = net(x).sum()
    y.backward(retain_graph=True)
    gpu.trace.mark("retained")
    if again:
        y.backward()
    else:
        del y
    retained = Ledger.at(gpu.trace, "retained")
    assert rows(retained, "category")["activations"] == 2 * ROWS
    assert row(retained, ROWS, category="inputs").kept_for == ("MmBackward0.self",)
    assert "activations" not in rows(Ledger.now(gpu), "category")
    assert rows(Ledger.now(gpu), "category")["gradients"] == 2 * MATRIX


def test_accumulated_gradients_stay_gradients_and_graphs_do_not_mix(gpu):
    net = model(gpu)
    for _ in range(3):
        y = net(data(gpu)).sum()
        (first,) = [r for r in Ledger.now(gpu) if r.kept_for == ("GeluBackward0.self",)]
        assert [slot.nth for slot in first.slots] == [1, 1]
        y.backward()
    assert rows(Ledger.now(gpu), "category")["gradients"] == 2 * MATRIX
    inside = Ledger.at_peak(gpu.trace)
    assert inside.allocated_bytes == gpu.max_memory_allocated()
    assert rows(inside, "category")["temporaries"] >= MATRIX


def test_a_node_has_its_place_among_namesakes_of_one_module(gpu):
    x = torch.ones(4, 4, device=gpu.device, requires_grad=True)
    y = x.exp().exp()
    slots = [(s.node, s.slot, s.nth) for r in Ledger.now(gpu) if r.category == "activations" for s in r.slots]
    assert [s for s in slots if s[0] == "ExpBackward0"] == [
        ("ExpBackward0", "result", 1),
        ("ExpBackward0", "result", 2),
    ]
    assert y.grad_fn is not None


def test_logits_that_are_held_are_outputs_once_autograd_lets_go(gpu):
    net, x, targets = model(gpu), data(gpu), torch.zeros(8, dtype=torch.int64, device=gpu.device)
    logits = net(x)
    loss = F.cross_entropy(logits.tanh_(), targets)
    held = row(Ledger.now(gpu), ROWS, category="activations", operation="mm", module="")
    assert held.kept_for == ("TanhBackward0.result",)
    loss.backward()
    assert [r.allocation for r in Ledger.now(gpu).of(category="outputs") if r.n_bytes == ROWS] == [held.allocation]


def test_evaluation_keeps_nothing(gpu):
    net, x = model(gpu), data(gpu)
    with torch.no_grad():
        y = net(x)
    assert rows(Ledger.now(gpu), "category") == {"parameters": 2 * MATRIX, "inputs": ROWS, "outputs": ROWS}
    peak = Ledger.at_peak(gpu.trace)
    assert rows(peak, "category")["temporaries"] == 2 * ROWS
    assert y.shape == (8, 64)


def test_a_graph_that_is_dropped_kept_what_it_kept(gpu):
    net, x = model(gpu), data(gpu)
    net(x)
    assert rows(Ledger.at_peak(gpu.trace), "category")["activations"] == 2 * ROWS
    assert rows(Ledger.now(gpu), "category") == {"parameters": 2 * MATRIX, "inputs": ROWS}


def test_a_function_without_modules(gpu):
    x, w = data(gpu), torch.randn(64, 64, device=gpu.device, requires_grad=True)
    y = (x @ w).relu()
    held = {r.operation: (r.category, r.kept_for) for r in Ledger.now(gpu) if r.category != "cuBLAS workspace"}
    assert held == {"randn": ("inputs", ()), "relu": ("activations", ("ReluBackward0.result",))}
    assert row(Ledger.now(gpu), ROWS, operation="randn").kept_for == ("MmBackward0.self",)
    (gradient,) = torch.autograd.grad(y.sum(), w)
    assert rows(Ledger.now(gpu), "category")["gradients"] == gradient.nbytes


def test_buffers_and_what_a_module_holds_beside(gpu):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mask", torch.ones(8, 64, device=gpu.device))
            self.seen = None

        def forward(self, x, *, scale):
            self.seen = x * 2
            return (x + self.mask) * scale

    net, x, scale = Odd(), data(gpu), torch.ones(64, device=gpu.device)
    y = net(x, scale=scale)
    found = {(r.category, r.operation): r.n_bytes for r in Ledger.now(gpu)}
    assert found == {
        ("buffers", "ones"): ROWS,
        ("inputs", "randn"): ROWS,
        ("inputs", "ones"): 256,
        ("other tensors", "mul.Tensor"): ROWS,
        ("outputs", "mul.Tensor"): ROWS,
    }
    assert y is not None


def test_a_custom_function_keeps_tensors_and_attributes(gpu):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(x, y)
            ctx.attribute = x * 2
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    y = Doubled.apply(torch.ones(4, device=gpu.device, requires_grad=True))
    assert [(r.category, r.operation, r.kept_for) for r in Ledger.now(gpu)] == [
        ("inputs", "ones", ("DoubledBackward.tensors[0]",)),
        ("activations", "exp", ("DoubledBackward.tensors[1]",)),
        ("other tensors", "mul.Tensor", ()),
        ("outputs", "clone", ()),
    ]
    assert y is not None


# ----------------------------------------------------------------------------------------------------- checkpoints


def test_a_checkpoint_keeps_what_its_region_is_given_and_computes_the_rest_again(gpu):
    net, x = nn.Sequential(nn.Tanh(), model(gpu)), data(gpu, requires_grad=True)

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            return checkpoint(self.net, x.sin(), use_reentrant=False)

    y = Outer()(x).sum()
    gpu.trace.mark("forward")
    y.backward()
    kept = {(r.category, r.module): r.kept_for for r in Ledger.at(gpu.trace, "forward") if r.kept_for}
    assert kept == {("inputs", ""): ("SinBackward0.self",), ("activations", "net"): ("checkpoint.inputs[0]",)}
    inside = [e for e in gpu.trace.events[gpu.trace.position("forward") :] if e.operation == "aten::mm"][2]
    again = Ledger.at(gpu.trace, gpu.trace.events.index(inside))
    assert {(r.module, r.kept_for) for r in again.of(category="activations")} == {
        ("net", ("checkpoint.inputs[0]",)),
        ("net.0", ("TanhBackward0.result", "MmBackward0.self")),
        ("net.1.1", ("GeluBackward0.self",)),
        ("net.1.2", ("MmBackward0.self",)),
    }
    assert not [r for r in Ledger.now(gpu) if r.kept_for]


def test_a_selective_checkpoint_keeps_what_it_was_told_to(gpu):
    net, x = model(gpu), data(gpu)
    contexts = partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    y = checkpoint(net, x, use_reentrant=False, context_fn=contexts).sum()
    chosen = [(r.module, r.operation, r.kept_for) for r in Ledger.now(gpu).of(category="activations")]
    assert chosen == [("0", "mm", ("selective checkpoint",)), ("2", "mm", ("selective checkpoint",))]
    y.backward()
    assert "activations" not in rows(Ledger.now(gpu), "category")
    assert not [r for r in Ledger.now(gpu) if r.kept_for]


def test_a_reentrant_checkpoint(gpu):
    net, x = model(gpu), data(gpu, requires_grad=True)
    y = checkpoint(net, x, use_reentrant=True)
    assert row(Ledger.now(gpu), ROWS, category="inputs").kept_for == ("CheckpointFunctionBackward.tensors[0]",)
    y.sum().backward()
    inner = next(i for i, event in enumerate(gpu.trace) if event.node == "MmBackward0")
    assert rows(Ledger.at(gpu.trace, inner), "category")["activations"] == 2 * ROWS
    assert rows(Ledger.now(gpu), "category")["gradients"] == 2 * MATRIX + ROWS


# --------------------------------------------------------------------------------------------------------- autocast


def test_autocast_copies_have_the_name_of_their_weight(gpu):
    net, x = model(gpu), data(gpu)
    with gpu.autocast(torch.bfloat16):
        y = net(x)
        inside = Ledger.now(gpu)
    copies = [(r.module, r.name, r.n_bytes, r.dtype) for r in inside.of(category="autocast copies")]
    assert copies == [("0", "weight", MATRIX // 2, torch.bfloat16), ("2", "weight", MATRIX // 2, torch.bfloat16)]
    assert [r.module for r in Ledger.now(gpu).of(category="autocast copies")] == ["2"], "kept for the gradient of gelu"
    assert y.dtype is torch.bfloat16


# ----------------------------------------------------------------------------------------------------------- depth


DEEP = """
import torch
from utils import Ledger, SimulatedGPU

class Chain(torch.nn.Module):
    def forward(self, x):
        for _ in range(60_000):
            x = x.sin()
        return x

with SimulatedGPU() as gpu:
    x = torch.ones(4, device=gpu.device, requires_grad=True)
    y = Chain()(x)
    assert len(Ledger.now(gpu).of(category="activations")) == 59_999
    del y
    assert gpu.memory_allocated() == 512
    assert "activations" not in Ledger.now(gpu).parts
print("done")
"""


@pytest.mark.nightly
def test_a_deep_graph_is_walked_and_let_go():
    """In a process of its own: a stack that overflows would end this one."""
    run = subprocess.run([sys.executable, "-c", DEEP], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (run.returncode, run.stdout.strip()) == (0, "done"), run.stderr


def test_looking_keeps_nothing_alive(gpu):
    net, x = model(gpu), data(gpu)
    y = net(x).sum()
    Ledger.now(gpu)
    del net, x, y
    gc.collect()
    assert gpu.memory_allocated() == WORKSPACE


# --------------------------------------------------------------------------------------------------- foreign traces


def test_a_recording_s_bytes_are_unattributed_and_add_up_at_its_marks():
    recording = load("gpt2_tiny_fp32", "a100")
    trace = Trace.from_recording(recording)
    for mark in recording["marks"]:
        ledger = Ledger.at(trace, mark["name"])
        assert ledger.parts == {"unattributed": mark["requested"]}
    assert len(ledger.by("operation")) > 5
    broken = {**recording, "marks": [{**mark, "requested": mark["requested"] + 4} for mark in recording["marks"]]}
    with pytest.raises(RuntimeError, match="must add up"):
        Ledger.at(Trace.from_recording(broken), "model")


def test_events_without_figures_are_not_compared():
    trace = Trace("measured", "x", events=[Event("alloc", 10, 0, "mm"), Event("alloc", 5, 1, "mm")])
    assert rows(Ledger.at(trace), "category", "operation") == {("unattributed", "mm"): 15}


# ------------------------------------------------------------------------------------------------- tables, changes


def test_it_prints_its_categories_and_groups_by_any_columns(gpu):
    net, x = model(gpu), data(gpu)
    ledger = Ledger.now(gpu)
    assert str(ledger).splitlines() == [
        "a100-80gb, simulated, after 4 events",
        "category       allocations  requested  slack  allocated",
        "parameters               2     32,768      0     32,768",
        "other tensors            1      2,048      0      2,048",
        "total                    3     34,816      0     34,816",
    ]
    assert "<td" in ledger._repr_html_()
    table = ledger.by("module", "name", "dtype", "shape")
    assert [g.key for g in table] == [
        ("0", "weight", torch.float32, (64, 64)),
        ("2", "weight", torch.float32, (64, 64)),
        ("", "", torch.float32, (8, 64)),
    ]
    assert str(table).splitlines()[2].split()[:4] == ["0", "weight", "float32", "(64,"]
    assert [g.key[0] for g in ledger.by("module").largest(1)] == ["0", "2 more"]
    assert sum(g.n_bytes for g in ledger.by("module").largest(1)) == ledger.requested_bytes
    for call in (lambda: ledger.by("modul"), lambda: ledger.of(modul="0")):
        with pytest.raises(ValueError, match="a column must be one of category, module, .*: got 'modul'"):
            call()
    with pytest.raises(ValueError, match="one column or more"):
        ledger.by()
    with pytest.raises(KeyError, match="named by its values of category: got 'gradients', has 'parameters', 'other"):
        ledger.by("category")["gradients"]
    with pytest.raises(ValueError, match="position must be from 0 to 4, .*: got 7"):
        Ledger.at(gpu.trace, 7)
    del net, x


def test_the_difference_of_two_ledgers_says_what_changed_and_why(gpu):
    net, x = model(gpu), data(gpu)
    y = net(x).sum()
    forward = Ledger.now(gpu)
    y.backward()
    change = Ledger.now(gpu) - forward
    assert change.groups == {
        ("cuBLAS workspace",): (0, WORKSPACE),
        ("activations",): (2 * ROWS, 0),
        ("gradients",): (0, 2 * MATRIX),
    }
    assert change.difference_bytes == Ledger.now(gpu).allocated_bytes - forward.allocated_bytes
    assert str(change).splitlines()[3].split() == [
        "activations", "GeluBackward0.self,", "MmBackward0.self", "-4,096", "+0", "-4,096",
    ]  # fmt: skip
    assert change.by("category", "module").groups[("gradients", "2")] == (0, MATRIX)
    assert not (Ledger.now(gpu) - Ledger.now(gpu)).groups
    with pytest.raises(ValueError, match="a column must be one of"):
        change.by("why")


def test_ledgers_of_two_runs_are_compared_by_what_rows_are():
    ledgers = []
    for bias in (False, True):
        with SimulatedGPU("a100-80gb") as gpu:
            net = nn.Sequential(nn.Linear(64, 64, bias=bias, device=gpu.device))
            net(data(gpu))
            ledgers.append(Ledger.now(gpu))
            del net
    change = ledgers[1] - ledgers[0]
    assert [(r.category, r.name) for r in change.appeared if r.category == "parameters"] == [("parameters", "bias")]
    assert ("parameters",) in change.groups
    assert sum(a - g for g, a in change.groups.values()) + change.slack_bytes == change.difference_bytes


def test_a_block_that_is_longer_in_another_run_is_the_same_row_and_slack_is_told_apart():
    def ledger(litter_bytes):
        with SimulatedGPU("a100-80gb") as other:
            torch.empty(litter_bytes, dtype=torch.uint8, device=other.device)
            x = torch.empty(9 * 2**20, dtype=torch.uint8, device=other.device)
            found = Ledger.now(other)
            del x
        return found

    split, whole = ledger(1), ledger(10 * 2**20)  # a segment of 20 MiB is split; one of 10 MiB is handed out whole
    change = whole - split
    assert (change.gone, change.appeared, change.requested_bytes) == ((), (), 0)
    assert change.slack_bytes == change.difference_bytes == 2**20
    lines = str(change.by("module")).splitlines()
    assert lines[1].split("  ")[-1].strip() == "difference"
    assert "requested, gone" in lines[1]
    assert [line.split() for line in lines[-3:]] == [
        ["requested", "0", "+0", "+0"],
        ["slack", "+1,048,576"],
        ["allocated", "+1,048,576"],
    ]


# --------------------------------------------------------------------------------------------------------- formulas


def test_a_formula_s_terms_select_rows(gpu):
    net = nn.Sequential()
    net.up = nn.Linear(64, 256, device=gpu.device)
    net.activation = nn.GELU()
    net.down = nn.Linear(256, 64, device=gpu.device)
    x = torch.randn(2, 4, 64, device=gpu.device)
    y = net(x)
    standing = [
        Term(category, size, 1, (Selector("*", category, "*"),))
        for category, size in (
            ("parameters", "4*(8*d**2 + 5*d)"),
            ("cuBLAS workspace", str(WORKSPACE)),
            ("outputs", "4*b*s*d"),
        )
    ]
    saved = mlp_saved(activation="gelu")
    whole = Formula("all", (*saved.terms, *standing))
    comparison = Ledger.now(gpu).compare(whole, b=2, s=4, d=64, e=4)
    assert comparison.is_exact
    assert comparison.accounted_bytes == Ledger.now(gpu).requested_bytes
    explained = Ledger.now(gpu).explained_by(whole)
    assert rows(explained, "term")["down input"] == 2 * 4 * 256 * 4
    assert {r.term for r in explained.of(category="inputs")} == {"input"}
    with pytest.raises(ValueError, match="no term of 'MLP with GELU: kept for backward' selects 65,536 bytes"):
        Ledger.now(gpu).account(saved)
    twice = Formula("twice", (*whole.terms, Term("again", "1", 1, (Selector("down", "*", "mat1"),))))
    with pytest.raises(ValueError, match="'down input' and 'again' of 'twice' both select"):
        Ledger.now(gpu).account(twice)
    assert y is not None


def test_a_parameter_is_selected_by_its_name_alone(gpu):
    net, x = model(gpu), data(gpu)
    y = net(x)
    kept = row(Ledger.now(gpu), MATRIX, category="parameters", module="2")
    assert kept.kept_for == ("MmBackward0.mat2",)
    assert [(s.module, s.node, s.slot) for s in kept.slots] == [("2", "parameters", "weight")]
    assert y is not None


def test_categories_over_a_whole_trace(gpu):
    net, x = model(gpu), data(gpu)
    net(x).sum().backward()
    named = categories_of(gpu.trace)
    assert set(named) == {event.allocation for event in gpu.trace if event.action == "alloc"}
    assert levels(gpu.trace)[-1] == Ledger.now(gpu).parts
    assert {named[r.allocation] for r in Ledger.now(gpu).of(category="gradients")} == {"gradients"}
