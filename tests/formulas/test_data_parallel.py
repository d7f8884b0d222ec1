"""The closed forms of data parallel against PyTorch's DDP, ZeroRedundancyOptimizer and FSDP2 on a simulated GPU."""

import random
import re

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh

from every_byte.gpu.ranks import ranks
from utils import GPT, Ledger, SimulatedGPU
from utils.experiments.training import StepSettings, random_tokens, train_steps
from utils.formulas.data_parallel import MOMENTS, gathered, gathered_at_peak, held_on_rank, rank_states
from utils.formulas.settings import PRECISIONS, GPTSettings
from utils.models.data_parallel import fully_sharded, rank_parameters, replicated, states_sharded
from utils.models.gpt import letters
from utils.models.tensor_parallel import tensor_parallel

pytestmark = pytest.mark.sampled(6)

STATES = ("parameters", "gradients", "gradient buckets", "optimizer state")
ENGINES = [0, 1, 3]


def train(letters, settings, wrap, *, rank=0, optimizer="fused"):
    """The trace of three steps of one rank, and P and T: what of the model its optimizer has state for."""
    sizes = [letters[letter] for letter in "VsdLa"]
    dtype = torch.float32 if settings.is_autocast else getattr(torch, settings.precision)
    model = dict(kind="explicit" if settings.attention == "explicit" else "sdpa", bias=settings.bias)
    own = {}
    with SimulatedGPU("a100-80gb") as gpu, ranks(letters["n"], rank) as mesh:

        def make_model():
            whole = GPT(*sizes, device=gpu.device, dtype=dtype, dropout_prob=settings.dropout, **model)
            part = rank_parameters(whole, letters["n"])[rank]
            own.update(P=sum(parameter.numel() for parameter in part), T=len(part))
            return wrap(whole, mesh)

        how = StepSettings(
            autocast=torch.bfloat16 if settings.is_autocast else None,
            optimizer=optimizer if isinstance(optimizer, str) else lambda model: optimizer(model, mesh),
            set_to_none=not settings.holds_gradients,
            keep_outputs=settings.holds_logits,
        )
        batch = {letter: letters[letter] for letter in "bsV"}
        train_steps(gpu, make_model, lambda: random_tokens(gpu, **batch), how)
        assert not gpu.unmodelled
    return gpu.trace, letters | own


def on_engine(stage, letters, settings, *, view=False, reshard=None, rank=0):
    """One rank's training as that stage of ZeRO."""
    if stage == 3:
        return train(
            letters, settings, lambda m, mesh: fully_sharded(m, mesh, reshard_after_forward=reshard), rank=rank
        )

    def in_buckets(model, mesh):
        return replicated(model, mesh, gradient_as_bucket_view=view)

    if stage == 0:
        return train(letters, settings, in_buckets, rank=rank)
    return train(
        letters, settings, in_buckets, rank=rank, optimizer=lambda m, mesh: states_sharded(m, mesh, fused=True)
    )


def drawn(seed):
    """Sizes, a number of ranks that may divide nothing, and a way to train, at random."""
    draw = random.Random(seed)
    a = draw.choice([1, 2, 3])
    letters = {"b": draw.randint(1, 4), "s": draw.randint(2, 100), "a": a, "d": a * draw.choice([8, 24, 64, 128])}
    letters |= {"L": draw.randint(2, 4), "V": draw.choice([1000, 5001, 20_000]), "n": draw.choice([2, 3, 4, 7, 8])}
    precision = draw.choice(PRECISIONS[:3])
    kind = draw.choice(["sdpa", "explicit"])
    attention = "explicit" if kind == "explicit" else "efficient" if precision == "float32" else "flash"
    if attention == "flash" and letters["d"] // a % 8:
        attention = "efficient"
    settings = GPTSettings(
        precision,
        attention,
        draw.random() < 0.5,
        draw.choice([0.0, 0.1]),
        holds_logits=draw.random() < 0.5,
        holds_gradients=draw.random() < 0.5,
    )
    return letters, settings, draw.random() < 0.5, draw.choice([None, True, False])


def parts_at(trace, mark):
    """Of the ledger at a mark, the states."""
    return {name: n for name, n in Ledger.at(trace, mark).parts.items() if name in STATES}


@pytest.mark.long
@pytest.mark.parametrize("stage", ENGINES)
@pytest.mark.parametrize("seed", range(6))
def test_a_rank_s_states(seed, stage):
    letters, settings, view, reshard = drawn(seed)
    view &= stage < 2
    trace, letters = on_engine(stage, letters, settings, view=view, reshard=reshard)
    formula = rank_states(settings, stage, gradient_as_bucket_view=view)
    assert parts_at(trace, "step 3 backward") == formula.by_term(**letters)


@pytest.mark.long
@pytest.mark.parametrize("moment", ["after forward", "in the loss"])
@pytest.mark.parametrize("stage", ENGINES)
@pytest.mark.parametrize("seed", range(8))
def test_every_byte_of_a_rank(seed, stage, moment):
    """Itemised to 0: each row of the ledger belongs to one term, and each term has its bytes."""
    letters, settings, view, reshard = drawn(seed)
    view &= stage < 2
    trace, letters = on_engine(stage, letters, settings, view=view, reshard=reshard)
    formula = held_on_rank(settings, stage, moment, reshard_after_forward=reshard, gradient_as_bucket_view=view)
    position = trace.position("step 3 forward")
    if moment == "in the loss":
        last = "aten::nll_loss_backward" if settings.is_autocast else "aten::_log_softmax_backward_data"
        events = enumerate(trace.events[position:], position + 1)
        position = next(after for after, event in events if event.action == "alloc" and event.operation == last)
    ledger = Ledger.at(trace, position)
    comparison = ledger.compare(formula, **letters)
    assert all(predicted == accounted for _, predicted, accounted in comparison.rows), comparison


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("t", "n"), [(1, 3), (2, 1), (2, 5), (4, 3)])
def test_the_parameters_of_a_split_model(t, n, bias):
    """Whole on each of t ranks, and sharded over n groups of them."""
    sizes = {"V": 1000, "s": 32, "d": 64, "L": 2}
    settings = GPTSettings("float32", "flash", bias)
    for stage in (0, 3) if n > 1 else (0,):
        with SimulatedGPU("a100-80gb") as gpu, ranks(n * t) as every:
            mesh = init_device_mesh(every.device_type, (n, t), mesh_dim_names=("data", "tensor"))
            model = GPT(*sizes.values(), n_heads=4, bias=bias, device=gpu.device)
            model = tensor_parallel(model, mesh["tensor"])
            if stage == 3:
                fully_sharded(model, mesh["data"])
            held = Ledger.now(gpu).parts["parameters"]
        assert held == rank_states(settings, stage, split=True).by_term(**sizes, t=t, n=n)["parameters"]


GPT2 = {  # stage, bucket views, reshard_after_forward: what is held at the peak, in millions of bytes
    (0, False, None): 6107.779672,
    (0, True, None): 6107.779672,
    (1, False, None): 5421.857072,
    (3, False, None): 4490.360536,
    (3, False, True): 4490.360536,
    (3, False, False): 4801.855192,
}


@pytest.mark.long
@pytest.mark.parametrize(("way", "expected"), GPT2.items(), ids=str)
def test_the_peak_of_gpt2_on_eight_ranks(way, expected):
    """The peak is in the loss; each of its rows belongs to one term."""
    stage, view, reshard = way
    settings = GPTSettings("autocast", "flash")
    trace, sizes = on_engine(stage, {**letters("gpt2"), "b": 4, "n": 8}, settings, view=view, reshard=reshard)
    peak = Ledger.at_peak(trace, after="step 2 zero_grad", until="step 3 zero_grad")
    formula = held_on_rank(settings, stage, reshard_after_forward=reshard, gradient_as_bucket_view=view)
    comparison = peak.compare(formula, **sizes)
    assert all(predicted == accounted for _, predicted, accounted in comparison.rows), comparison
    assert peak.requested_bytes == formula.bytes(**sizes) == round(expected * 10**6)
    if stage == 1:  # whole tensors are shared, and one is a third of all
        assert peak.parts["optimizer state"] == 2 * 4 * 50304 * 768 + 4


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_shares_of_the_others(rank):
    """7 rows of 3 each over 3 ranks are 3, 3 and 1: parameters and gradients are padded, Adam's averages are not."""
    settings = GPTSettings("float32", "efficient")
    letters = dict(b=1, s=7, a=1, d=8, L=2, V=10, n=3)
    trace, letters = on_engine(3, letters, settings, rank=rank)
    parts, predicted = parts_at(trace, "step 3 backward"), rank_states(settings, 3).by_term(**letters)
    whole = 4 * (10 * 8 + 7 * 8 + 8 + 2 * (12 * 64 + 16))
    shares = [on_engine(3, letters, settings, rank=r)[0] for r in range(3)] if rank == 0 else []
    assert {name: parts[name] for name in STATES[:2]} == {name: predicted[name] for name in STATES[:2]}
    if rank == 0:
        assert parts == predicted
        tensors = 4 * (6 * 2 + 3)
        assert sum(parts_at(t, "step 3 backward")["optimizer state"] - tensors for t in shares) == 2 * whole


def gathered_levels(trace, begin, end):
    """What is gathered after each event between two marks."""
    positions = range(trace.position(begin) + 1, trace.position(end) + 1)
    return [Ledger.at(trace, position).parts.get("gathered parameters", 0) for position in positions]


@pytest.mark.long
@pytest.mark.parametrize("reshard", [None, True, False])
@pytest.mark.parametrize("sizes", [dict(L=2, V=64), dict(L=3, V=5001), dict(L=4, V=300)], ids=str)
def test_what_is_gathered(sizes, reshard):
    settings = GPTSettings("bfloat16", "flash")
    letters = dict(b=1, s=16, a=2, d=64, n=4) | sizes
    trace, letters = on_engine(3, letters, settings, reshard=reshard)
    predicted = {m: gathered(settings, m, reshard_after_forward=reshard).bytes(**letters) for m in MOMENTS}
    forward = gathered_levels(trace, "step 3 batch", "step 3 forward")
    backward = gathered_levels(trace, "step 3 forward", "step 3 backward")
    assert max(forward) == max(predicted["first block"], predicted["last block"])
    assert predicted["head"] in forward
    assert forward[-1] == predicted["after forward"]
    assert predicted["in the loss"] in backward
    assert backward[-1] == 0 == predicted["between steps"]
    peak = gathered_at_peak(settings, reshard_after_forward=reshard, **letters)
    assert peak[1] == max(forward + backward) == predicted[peak[0]]


def test_gathered_is_what_the_words_say():
    settings = GPTSettings("float32", "flash")
    letters = dict(b=1, s=16, a=2, d=64, n=4, L=3, V=1000)
    R, B = 4 * (64 * 1016 + 64), 4 * (12 * 64 * 64 + 2 * 64)
    found = {m: gathered(settings, m).bytes(**letters) for m in MOMENTS}
    kept = {m: gathered(settings, m, reshard_after_forward=False).bytes(**letters) for m in MOMENTS}
    assert (found["first block"], found["last block"]) == (2 * R + 2 * B, R + 3 * B)
    assert (kept["first block"], kept["last block"]) == (2 * R + 2 * B, R + 5 * B)
    assert (found["after forward"], kept["after forward"]) == (R, R + 3 * B)


def test_one_or_two_copies_of_the_gradients():
    settings = GPTSettings("float32", "efficient")
    letters = dict(b=1, s=16, a=2, d=64, n=4, L=2, V=1000)
    N = 64 * 1016 + 64 + 2 * (12 * 64 * 64 + 2 * 64)
    copies = [on_engine(0, letters, settings, view=view)[0] for view in (False, True)]
    parts = [parts_at(trace, "step 3 backward") for trace in copies]
    assert [p.get("gradients", 0) + p["gradient buckets"] for p in parts] == [8 * N, 4 * N]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: rank_states(s, 4), "stage must be one of 0, 1, 2, 3, ZeRO's: got stage=4."),
        (
            lambda s: rank_states(s, 3, gradient_as_bucket_view=True),
            "buckets are those of DDP, stages 0 and 1: got gradient_as_bucket_view=True, stage=3.",
        ),
        (lambda s: gathered(s, "later"), f"moment must be one of {', '.join(MOMENTS)}: got moment='later'."),
        (
            lambda s: held_on_rank(s, 2),
            "stage must have an engine, 0, 1 or 3: got stage=2; FSDP2 shares the parameters, too.",
        ),
        (
            lambda s: held_on_rank(s, 0, "later"),
            "moment must be one of after forward, in the loss: got moment='later'.",
        ),
    ],
)
def test_what_there_is_not(call, message):
    with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
        call(GPTSettings())
