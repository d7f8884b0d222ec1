"""Regions of a GPT: gradients of eager, memory of PyTorch's own checkpoint, and what is kept for each layer."""

import gc
import logging
from functools import partial

import pytest
import torch
import torch.utils.checkpoint
from torch import nn
from torch.utils.checkpoint import set_checkpoint_debug_enabled

from utils import GPT, Block, Ledger, SimulatedGPU
from utils.experiments.gpt_article import gpt_steps
from utils.experiments.training import StepSettings
from utils.formulas.block import block_saved
from utils.models.checkpointing import Checkpoint, checkpoint, minimal_checkpoint
from utils.models.regions import REGIONS, checkpointed, library_checkpoint, region_lengths, set_regions

pytestmark = pytest.mark.sampled(10)

reentrant_checkpoint = partial(torch.utils.checkpoint.checkpoint, use_reentrant=True)
BOTH = {"ours": checkpoint, "library": library_checkpoint}
WITH_K = {"every k-th block": 2, "k segments": 3}
AUTOCAST = StepSettings(autocast=torch.bfloat16)
SMALL = {"b": 2, "s": 64, "d_model": 64, "n_heads": 2, "n_layers": 5, "vocabulary_size": 65}


def tiny(kind="sdpa", dropout=0.1):
    torch.manual_seed(1)
    model = GPT(11, 8, 16, 5, 2, dropout, dtype=torch.float64, kind=kind, bias=True)
    return model, torch.randint(11, (2, 8)), torch.randint(11, (2, 8))


def loss_and_gradients(model, tokens, targets):
    torch.manual_seed(2)
    model.zero_grad()
    loss = model(tokens, targets)[1]
    loss.backward()
    return [loss.detach(), *(parameter.grad for parameter in model.parameters())]


def n_runs(model, tokens, targets):
    """How often each block ran, in a step."""
    counts = [0] * len(model._modules["blocks"])

    def noting(i):
        def note(*_):
            counts[i] += 1

        return note

    handles = [block.register_forward_hook(noting(i)) for i, block in enumerate(model._modules["blocks"])]
    loss_and_gradients(model, tokens, targets)
    for handle in handles:
        handle.remove()
    return counts


# ---------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("run", BOTH)
@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
@pytest.mark.parametrize("regions", REGIONS)
def test_gradients_are_those_of_eager(regions, kind, run):
    model, *batch = tiny(kind)
    expected = loss_and_gradients(model, *batch)
    with checkpointed(model, regions, k=WITH_K.get(regions), run=BOTH[run]):
        found = loss_and_gradients(model, *batch)
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize("regions", ["every block", "every k-th block", "k segments", "sqrt(L) segments"])
def test_the_minimal_one_runs_them_without_dropout(regions):
    model, *batch = tiny(dropout=0.0)
    expected = loss_and_gradients(model, *batch)
    with checkpointed(model, regions, k=WITH_K.get(regions), run=minimal_checkpoint):
        found = loss_and_gradients(model, *batch)
    assert all(map(torch.equal, found, expected))


@pytest.mark.parametrize(
    ("regions", "k", "again"),
    [
        ("none", None, []),
        ("every block", None, [0, 1, 2, 3, 4]),
        ("every k-th block", 1, [0, 1, 2, 3, 4]),
        ("every k-th block", 2, [0, 2, 4]),
        ("every k-th block", 5, [0]),
        ("k segments", 2, [0, 1, 2, 3, 4]),
        ("attention only", None, []),
    ],
)
def test_which_blocks_run_twice(regions, k, again):
    model, *batch = tiny()
    with checkpointed(model, regions, k=k, run=Checkpoint(early_stop=False)):
        assert n_runs(model, *batch) == [2 if i in again else 1 for i in range(5)]
    assert n_runs(model, *batch) == [1] * 5


@pytest.mark.parametrize(
    ("regions", "k", "lengths"),
    [
        ("every block", None, [1, 1, 1, 1, 1]),
        ("sqrt(L) segments", None, [3, 2]),
        ("k segments", 1, [5]),
        ("k segments", 3, [2, 2, 1]),
        ("k segments", 5, [1, 1, 1, 1, 1]),
    ],
)
def test_segments(regions, k, lengths):
    called = []

    def run(module, x):
        called.append(len(module) if isinstance(module, nn.Sequential) else 1)
        return module(x)

    model, *batch = tiny()
    with checkpointed(model, regions, k=k, run=run):
        model(*batch)
    assert called == lengths


@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
def test_the_core_of_attention_goes_from_q_k_and_v_to_y(kind):
    shapes = []

    def run(core, *args):
        y = core(*args)
        shapes.append([tuple(tensor.shape) for tensor in (*args, y)])
        return y

    model, *batch = tiny(kind)
    with checkpointed(model, "attention only", run=run):
        model(*batch)
    assert shapes == [[(2, 2, 8, 8)] * 4] * 5


# ------------------------------------------------------------------------------------------- the model stays as it is


@pytest.mark.parametrize("regions", REGIONS)
@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
def test_the_model_is_as_it_was(kind, regions):
    model, *batch = tiny(kind)

    def looks():
        modules = [(name, dict(module.__dict__)) for name, module in model.named_modules()]
        return modules, [name for name, _ in model.named_parameters()]

    before, state = looks(), list(model.state_dict())
    with checkpointed(model, regions, k=WITH_K.get(regions)):
        assert list(model.state_dict()) == state
        assert looks()[1] == before[1]
        assert [name for name, _ in model.named_modules()] == [name for name, _ in before[0]]
        loss = model(*batch)[1]
    assert looks() == before
    loss.backward()  # may come later
    with pytest.raises(KeyError), checkpointed(model, regions, k=WITH_K.get(regions)):
        raise KeyError
    assert looks() == before


@pytest.mark.long
@pytest.mark.parametrize("outer", REGIONS)
@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
def test_the_regions_around_are_back_afterwards(kind, outer):
    model, *batch = tiny(kind)
    set_regions(model, outer, k=WITH_K.get(outer))
    before = [dict(module.__dict__) for module in model.modules()]
    for inner in REGIONS:
        with checkpointed(model, inner, k=WITH_K.get(inner)):
            model(*batch)[1].backward()
        assert [dict(module.__dict__) for module in model.modules()] == before


def test_other_regions_take_the_place_of_those_before():
    model, *batch = tiny("explicit")
    for regions in ("attention only", "every block", "attention only", "none"):
        assert set_regions(model, regions) is model
    assert "blocks" not in model.__dict__
    assert {block.attention.kind for block in model.blocks} == {"explicit"}
    assert n_runs(model, *batch) == [1] * 5


@pytest.mark.parametrize(
    ("regions", "k", "message"),
    [
        ("all", None, r"regions must be one of none; every block; .*; attention only: got regions='all'"),
        ("k segments", None, r"regions='k segments' needs k: got none; try k=2"),
        ("every k-th block", 0, r"k must be a positive integer: got k=0"),
        ("k segments", 6, r"k may be the number of blocks at most: got k=6, and the model has 5"),
        ("every block", 2, r"k is for every k-th block and k segments: got k=2 with regions='every block'"),
    ],
)
def test_settings_that_are_refused(regions, k, message):
    model, *_ = tiny()
    set_regions(model, "every block")
    with pytest.raises(ValueError, match=message):
        set_regions(model, regions, k=k)
    assert "blocks" in model.__dict__  # nothing has changed


@pytest.mark.parametrize(
    ("regions", "k", "lengths"),
    [
        ("none", None, []),
        ("every block", None, [1] * 7),
        ("every k-th block", 3, [1, 1, 1]),
        ("k segments", 3, [3, 2, 2]),
        ("sqrt(L) segments", None, [3, 2, 2]),
        ("attention only", None, [0] * 7),
    ],
)
def test_lengths_of_regions(regions, k, lengths):
    assert region_lengths(regions, L=7, k=k) == lengths


def test_other_models_are_refused():
    message = "model must be a GPT or a Block of this book: got Sequential; checkpoint others by hand"
    with pytest.raises(TypeError, match=message):
        set_regions(nn.Sequential(), "every block")


@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
def test_the_core_of_a_block_alone(kind):
    block, x = Block(16, 2, "gelu", kind=kind, context_length=8), torch.randn(2, 8, 16)
    calls = []

    def gradients():
        block.zero_grad()
        block(x).square().sum().backward()
        return [parameter.grad for parameter in block.parameters()]

    expected = gradients()
    with checkpointed(block, "attention only", run=lambda core, *args: calls.append(1) or checkpoint(core, *args)):
        found = gradients()
    assert calls == [1]
    assert all(map(torch.equal, found, expected))
    gradients()
    assert calls == [1]
    with pytest.raises(ValueError, match="one region, its attention: got regions='every block'; try 'attention only'"):
        set_regions(block, "every block")


# ------------------------------------------------------------------------------------------------- on simulated GPUs


def trained(regions, run, settings=AUTOCAST, k=None, **model):
    """A GPU after two steps of a GPT, and the readings of these."""
    gc.disable()  # so that two runs free alike
    try:
        with SimulatedGPU("a100-80gb") as gpu:
            wrap = partial(set_regions, regions=regions, k=k or WITH_K.get(regions), run=run)
            readings = gpt_steps(gpu, settings=settings, wrap=wrap, **SMALL | model)
    finally:
        gc.enable()
    return gpu, readings


@pytest.mark.long
@pytest.mark.parametrize("half", [torch.bfloat16, None])
@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
@pytest.mark.parametrize("regions", REGIONS[1:])
def test_the_same_memory_as_with_the_librarys_at_each_event(regions, kind, half):
    settings = StepSettings(autocast=half, micro_batches=2)
    gpus = [trained(regions, run, settings, kind=kind, dropout_prob=0.1)[0] for run in BOTH.values()]
    assert gpus[0].trace.sequence() == gpus[1].trace.sequence()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
@pytest.mark.parametrize("debug", [None, True])
@pytest.mark.parametrize("regions", ["every block", "sqrt(L) segments", "attention only"])
def test_the_ledger_knows_ours_as_it_knows_the_librarys(regions, debug, kind, monkeypatch):
    """Row by row, after forward and in backward: what is kept, what was computed again, for which node."""
    # with debugging on, PyTorch logs all operations in a form that only its own handler can print
    monkeypatch.setattr(logging.getLogger("LoggingTensor"), "propagate", False)
    found = []
    for run in BOTH.values():
        with set_checkpoint_debug_enabled(debug):
            gpu, _ = trained(regions, run, kind=kind, dropout_prob=0.1, n_layers=3)
        first, last = gpu.trace.position("step 2 forward"), gpu.trace.position("step 2 backward")
        ledgers = [Ledger.at(gpu.trace, position) for position in range(first, last, (last - first) // 4)]
        found.append([[(r.category, r.module, r.operation, r.n_bytes, r.kept_for) for r in rows] for rows in ledgers])
    assert found[0] == found[1]
    assert any("checkpoint.inputs[0]" in kept_for for *_, kept_for in found[0][0])
    assert "other tensors" not in {category for category, *_ in found[0][0]}


FLOAT32 = StepSettings(keep_outputs=False)


def kept_for_a_layer(regions, run, settings=FLOAT32, **model):
    """What forward adds for backward, of one block more."""
    added = []
    for L in (2, 3):
        _, readings = trained(regions, run, settings, n_layers=L, **model)
        added.append(readings[2, "forward"].requested_bytes - readings[2, "batch"].requested_bytes)
    return added[1] - added[0]


BSD = 2 * 64 * 64
HALF = {"dtype": torch.bfloat16}


@pytest.mark.long
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["sdpa", "explicit"])
@pytest.mark.parametrize("run", [checkpoint, library_checkpoint, reentrant_checkpoint, minimal_checkpoint])
def test_full_recomputation_keeps_the_input_of_each_block(run, kind, dropout):
    """2sbd in half precision and nothing else; under autocast the residual stream is float32, and it is 4sbd."""
    model = {"kind": kind, "dropout_prob": dropout}
    assert kept_for_a_layer("every block", run, **model, **HALF) == 2 * BSD
    settings = StepSettings(autocast=torch.bfloat16, keep_outputs=False)
    assert kept_for_a_layer("every block", run, settings, **model) == 4 * BSD


def test_nor_does_it_keep_autocasts_copies_of_the_weights():
    for regions, n_copies in (("none", 5 * 12 * 64**2 + 65 * 64), ("every block", 65 * 64)):
        gpu, _ = trained(regions, checkpoint)
        assert Ledger.at(gpu.trace, "step 2 forward").parts["autocast copies"] == 2 * n_copies


@pytest.mark.long
@pytest.mark.parametrize("run", BOTH)
def test_selective_recomputation(run):
    """34sbd of the paper, and the statistics of two norms: what the explicit core keeps depends on a and s squared."""
    model = {"kind": "explicit", "dropout_prob": 0.1, **HALF}
    kept = kept_for_a_layer("attention only", BOTH[run], **model)
    assert kept == 34 * BSD + 2 * 2 * 4 * SMALL["b"] * SMALL["s"]
    formula = block_saved(attention="explicit", activation="gelu", dropout=0.1)
    sizes = {"b": SMALL["b"], "s": SMALL["s"], "d": 64, "a": 2, "e": 2}
    assert kept_for_a_layer("none", BOTH[run], **model) == formula.bytes(**sizes)
    in_core = 5 * 2 * 2 * 64**2 + 64**2  # 5abs^2, and the causal mask
    assert formula.bytes(**sizes) - in_core == kept


@pytest.mark.parametrize("run", BOTH)
def test_flash_attention_is_selective_recomputation_already(run):
    """A checkpoint around it saves the logsumexp alone, 4abs bytes, and 24 of dropout's random state."""
    model = {"kind": "sdpa", "dropout_prob": 0.1, **HALF}
    eager, selective = (kept_for_a_layer(regions, BOTH[run], **model) for regions in ("none", "attention only"))
    assert eager - selective == 4 * 2 * SMALL["b"] * SMALL["s"] + 24


def backward_peak(run, settings=FLOAT32, regions="k segments", k=1, **model):
    """The most that is requested in a step whose loss is small."""
    long = {"b": 1, "s": 512, "kind": "explicit"}
    trace = trained(regions, run, settings, k=k, **long | model)[0].trace
    return trace.requested_bytes(trace.peak_position(after="step 1 zero_grad", until="step 2 zero_grad"))


STREAM_BYTES = 4 * 512 * 64
ACCUMULATES = StepSettings(keep_outputs=False, micro_batches=2)


@pytest.mark.long
@pytest.mark.parametrize("settings", [FLOAT32, AUTOCAST, ACCUMULATES])
def test_peaks_in_backward(settings):
    """The reentrant kind is inside of its node's backward: the result and its gradient have names there to the end."""
    ours, library, to_the_end, reentrant = (
        backward_peak(run, settings, dropout_prob=0.1)
        for run in (checkpoint, library_checkpoint, Checkpoint(early_stop=False), reentrant_checkpoint)
    )
    assert ours == library == to_the_end
    assert reentrant == ours + 2 * STREAM_BYTES


@pytest.mark.long
def test_the_peak_of_the_minimal_one():
    """As the reentrant one; and the parameters' gradients wait to the end, beside those of the micro-batch before."""
    runs = minimal_checkpoint, reentrant_checkpoint
    assert len({backward_peak(run) for run in runs}) == 1
    minimal, reentrant = (backward_peak(run, ACCUMULATES) for run in runs)
    assert minimal > reentrant


def test_early_stop_spares_the_memory_of_a_result_that_nobody_needs_again():
    peaks = []
    for early_stop in (True, False):
        with SimulatedGPU("a100-80gb") as gpu:
            layer = nn.Linear(64, 6400, bias=False, device=gpu.device)
            y = Checkpoint(early_stop=early_stop)(layer, torch.ones(512, 64, device=gpu.device)).sigmoid().sum()
            y.backward()
            peaks.append(gpu.max_memory_allocated())
    assert peaks[1] > peaks[0]
