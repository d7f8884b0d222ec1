"""The closed forms of a rank against what simulated ranks keep, term by term, and against the paper's."""

import random
from contextlib import nullcontext
from itertools import product

import pytest
import sympy
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte.formula.notation import plain
from every_byte.gpu.ranks import ranks
from utils import GPT, Block, Ledger, SavedTensorContext, SimulatedGPU
from utils.experiments.rank_steps import as_rank
from utils.formulas.block import block_saved
from utils.formulas.estimates import half_precision_activations
from utils.formulas.tensor_parallel import not_in_paper, rank_gpt_saved, rank_saved
from utils.models.regions import set_regions
from utils.models.tensor_parallel import tensor_parallel

pytestmark = pytest.mark.sampled(6)

RANKS = (1, 2, 4, 8)
SEQUENCE = pytest.mark.parametrize("sequence", [False, True], ids=["tensor", "sequence"])
EACH_T = pytest.mark.parametrize("t", RANKS)
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}


def drawn(*seed):
    """Sizes that t divides where it must, and settings."""
    draw, t = random.Random(str(seed)), seed[0]
    a = t * draw.randint(1, 3)
    letters = {
        "b": draw.randint(1, 4),
        "s": t * draw.randint(1, 12),
        "d": a * 8 * draw.randint(1, 4),
        "a": a,
        "L": draw.randint(1, 3),
        "V": t * draw.randint(1, 90),
        "t": t,
    }
    settings = {"dropout": draw.choice([0.0, 0.1]), "activation": draw.choice(["gelu", "relu", "silu"])}
    return letters, settings, draw.choice([torch.bfloat16, torch.float16]), draw.randrange(t), draw.random() < 0.5


def how(attention, s):
    """A model's settings for an attention, and what allows that kernel alone."""
    if attention == "explicit":
        return {"kind": "explicit", "context_length": s}, nullcontext()
    return {"context_length": s}, sdpa_kernel(BACKENDS[attention])


@pytest.mark.long
@EACH_T
@SEQUENCE
@pytest.mark.parametrize("attention", ["explicit", "flash", "efficient"])
def test_a_block_on_each_number_of_ranks(t, sequence, attention):
    for seed in range(3):
        letters, settings, dtype, rank, bias = drawn(t, sequence, attention, seed)
        b, s, d, a = (letters[letter] for letter in "bsda")
        model, kernel = how(attention, s)
        with SimulatedGPU("a100-80gb") as gpu, ranks(t, rank) as mesh, kernel:
            factory = dict(device=gpu.device, dtype=dtype)
            whole = Block(d, a, settings["activation"], settings["dropout"], bias=bias, **model, **factory)
            block = tensor_parallel(whole, mesh, sequence=sequence)
            x = torch.randn(b, s // t if sequence else s, d, requires_grad=True, **factory)
            with SavedTensorContext(block.parameters()) as saved:
                y = block(x)
            comparison = rank_saved(attention=attention, sequence=sequence, **settings).compare(
                saved.rows(y), e=2, **letters
            )
        assert comparison.is_exact, (letters, settings, comparison)
        assert comparison.accounted_bytes == saved.saved_tensor_mem


@pytest.mark.long
@EACH_T
@SEQUENCE
def test_a_block_with_selective_recomputation(t, sequence):
    """34sbd/t and what the paper leaves out; what a checkpoint keeps the ledger tells."""
    letters, settings, dtype, rank, bias = drawn(t, sequence)
    b, s, d, a = (letters[letter] for letter in "bsda")
    with SimulatedGPU("a100-80gb") as gpu, ranks(t, rank) as mesh:
        model = dict(device=gpu.device, dtype=dtype, bias=bias, kind="explicit", context_length=s)
        block = tensor_parallel(Block(d, a, "gelu", 0.1, **model), mesh, sequence=sequence)
        set_regions(block, "attention only")
        x = torch.randn(b, s // t if sequence else s, d, device=gpu.device, dtype=dtype, requires_grad=True)
        y = block(x)
        rows = [row for row in Ledger.now(gpu).rows if row.category in ("inputs", "activations")]
        formula = rank_saved(attention="explicit", activation="gelu", dropout=0.1, core=False, sequence=sequence)
        comparison = formula.compare([slot for row in rows for slot in row.slots], e=2, **letters)
        y.sum().backward()
    assert comparison.is_exact, (letters, comparison)
    choices, letters = dict(selective=True, sequence=sequence), letters | {"L": 1}
    paper, beyond = (formula(**choices).bytes(**letters) for formula in (half_precision_activations, not_in_paper))
    assert comparison.accounted_bytes == paper + beyond
    if sequence:
        assert paper == 34 * s * b * d // t


@pytest.mark.long
@EACH_T
@SEQUENCE
@pytest.mark.parametrize("core", [True, False], ids=["kept", "selective"])
@pytest.mark.parametrize("attention", ["explicit", "flash"])
def test_a_gpt_on_each_number_of_ranks(t, sequence, core, attention):
    """Every row of the ledger that autograd keeps has its term, under autocast too."""
    for autocast in (False, True):
        letters, settings, dtype, rank, bias = drawn(t, sequence, core, attention, autocast)
        model, kernel = how(attention, letters["s"])
        sizes = [letters[letter] for letter in "VsdLa"]
        model = {"dropout_prob": settings["dropout"], "act_fn": settings["activation"], "bias": bias} | model
        del model["context_length"]
        with SimulatedGPU("a100-80gb") as gpu, ranks(t, rank) as mesh, kernel:
            weights = torch.float32 if autocast else dtype
            gpt = tensor_parallel(GPT(*sizes, device=gpu.device, dtype=weights, **model), mesh, sequence=sequence)
            set_regions(gpt, "none" if core else "attention only")
            tokens, targets = (torch.zeros(letters["b"], letters["s"], dtype=int, device=gpu.device) for _ in range(2))
            with gpu.autocast(dtype, enabled=autocast):
                loss = gpt(tokens, targets)[1]
            kept = Ledger.now(gpu).of(category="activations")
            formula = rank_gpt_saved(attention=attention, autocast=autocast, core=core, sequence=sequence, **settings)
            comparison = kept.compare(formula, e=2, **letters)
            loss.backward()
        assert comparison.is_exact, (letters, settings, comparison)
        assert comparison.accounted_bytes == kept.requested_bytes


def in_symbols(formula, **values):
    return sympy.expand(formula.expression.subs({"e": 2, **values}))


@SEQUENCE
@pytest.mark.parametrize("selective", [False, True], ids=["kept", "selective"])
def test_a_rank_is_the_paper_and_what_is_not_in_it(selective, sequence):
    choices = dict(selective=selective, sequence=sequence)
    complete = rank_saved(attention="explicit", activation="gelu", dropout=True, core=not selective, sequence=sequence)
    paper = in_symbols(half_precision_activations(**choices), L=1)
    assert sympy.expand(in_symbols(complete) - paper - in_symbols(not_in_paper(**choices), L=1)) == 0


@SEQUENCE
@pytest.mark.parametrize("attention", ["flash", "efficient"])
def test_a_kernel_keeps_what_selective_recomputation_keeps(attention, sequence):
    complete = rank_saved(attention=attention, activation="gelu", dropout=True, sequence=sequence)
    paper = half_precision_activations(selective=True, sequence=sequence)
    beyond = not_in_paper(attention=attention, sequence=sequence)
    for t in RANKS:
        letters = {"b": 3, "s": 8 * 5, "d": 64, "a": 8, "t": t, "L": 1}
        assert complete.bytes(e=2, **letters) == paper.bytes(**letters) + beyond.bytes(**letters)


def test_the_published_formulas():
    """C3, C4 and C5, as printed."""
    b, s, d, a, L, t = sympy.symbols("b s d a L t")
    printed = {
        (False, False): 10 + 24 / t + 5 * a * s / (d * t),
        (True, False): (34 + 5 * a * s / d) / t,
        (True, True): 34 / t,
        (False, True): 10 + 24 / t,
    }
    for (sequence, selective), factor in printed.items():
        formula = half_precision_activations(sequence=sequence, selective=selective)
        assert sympy.expand(formula.expression - L * s * b * d * factor) == 0


def test_what_the_paper_leaves_out():
    """Two norms' statistics, a causal mask, and what DTensor gathers and keeps: 4sbd(1 - 1/t)."""
    assert plain(in_symbols(not_in_paper(), L=1)) == "16·b·s + s²"
    assert (
        not_in_paper(sequence=True).by_term(b=1, s=1024, d=768, L=1, t=8)["gathered inputs"] == 4 * 1024 * 768 * 7 // 8
    )
    names = [term.name for term in not_in_paper(attention="flash", sequence=True).terms]
    assert names == [
        "norm1: statistics",
        "attention: logsumexp",
        "attention: random state",
        "norm2: statistics",
        "gathered inputs",
    ]
    assert [term.name for term in not_in_paper(selective=True).terms] == ["norm1: statistics", "norm2: statistics"]


def test_one_rank_is_the_whole():
    for attention, dropout, core, sequence in product(["explicit", "flash"], [0.0, 0.1], [True, False], [True, False]):
        choices = dict(attention=attention, activation="gelu", dropout=dropout, core=core)
        one = rank_saved(**choices, sequence=sequence)
        assert in_symbols(one, t=1) == in_symbols(block_saved(**choices))
    assert one.title.endswith("core checkpointed, a rank of t: kept for backward")


@pytest.mark.long
@EACH_T
@pytest.mark.parametrize("core", [True, False], ids=["kept", "selective"])
@pytest.mark.parametrize("way", ["tensor", "sequence", "gathered again"])
def test_the_ways_of_a_block_of_gpt3(t, way, core):
    """Each way of chapter 6 to divide a block; by term where no checkpoint holds some, which autograd does not list."""
    sequence, again = way != "tensor", way == "gathered again"
    size = dict(b=1, s=2048, d=12288, a=96)
    step = as_rank(t, **size, sequence=sequence, again=again, core=core)
    settings = dict(attention="explicit", activation="gelu", dropout=0.1)
    formula = rank_saved(**settings, sequence=sequence, gathers_again=again, core=core)
    assert formula.bytes(**size, t=t, e=2) == step.saved_bytes
    if core and not again:
        assert formula.compare(step.rows, **size, t=t, e=2).is_exact
