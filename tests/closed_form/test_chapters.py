"""The formulas of chapters 2 to 6, found again from runs alone: each term, as mathematics."""

import pytest
import torch
from derived import is_the_books, of_program
from kernels_by_node import KERNELS

from every_byte.account import account, tokens
from every_byte.gpu.ranks import ranks
from every_byte.ledger.ledger import Ledger
from utils import GPT, MLP, Block
from utils.formulas.block import block_saved
from utils.formulas.data_parallel import held_on_rank
from utils.formulas.gpt import held_after_forward, held_in_loss
from utils.formulas.mlp import mlp_saved
from utils.formulas.settings import GPTSettings
from utils.formulas.tensor_parallel import rank_saved
from utils.models.activations import LeakyReLU as LeakyReLUFromOutput
from utils.models.data_parallel import fully_sharded, replicated
from utils.models.regions import set_regions
from utils.models.tensor_parallel import tensor_parallel

WORDS = tokens("b", "s", below="V")


def activations_alone(found, rows):
    """Without what is there beside what a layer keeps: its parameters, its input, its workspaces."""
    kept = [row for row in rows if row.category == "activations"]
    (moment,) = found.moments
    forms = {key: pieces for key, pieces in found.moments[moment].items() if key.category in ("", "activations")}
    object.__setattr__(found, "moments", {moment: forms})
    return found, kept


@pytest.mark.long
@pytest.mark.parametrize(
    ("activation", "dropout"), [("GELU", 0.0), ("ReLU", 0.1), ("Tanhshrink", 0.0), ("Softsign", 0.1)]
)
def test_chapter_2(activation, dropout):
    def run(gpu, b, s, d):
        x = torch.randn(b, s, d, device=gpu.device, requires_grad=True) * 1  # made, so that it is kept as any other
        model = MLP(d, activation, dropout, device=gpu.device)
        return model, model(x)

    found, kept = activations_alone(*of_program(run, b=2, s=40, d=24))
    is_the_books(found, kept, mlp_saved(activation=activation, dropout=dropout), e="4")


def test_chapter_3():
    def run(gpu, b, s, d):
        x = torch.randn(b, s, d, device=gpu.device, requires_grad=True) * 1
        model = MLP(d, LeakyReLUFromOutput(), 0.0, device=gpu.device)
        return model, model(x)

    found, kept = activations_alone(*of_program(run, b=2, s=40, d=24))
    is_the_books(found, kept, mlp_saved(activation="LeakyReLU", from_output=True), e="4")


def trained(precision, kind, regions="none", gpu="a100-80gb", k=None, L=2):
    def made(V, s, L, a):
        return set_regions(GPT(V, s, 64 * a, L, a, kind=kind), regions, k=k)

    return account(
        made, (WORDS, WORDS), loss=lambda out, _: out[1], optimizer="AdamW, fused", precision=precision, gpu=gpu,
        b=2, s=96, L=L, a=2, V=300,
    )  # fmt: skip


def settings_of(step, precision, kind, regions):
    trace = step.report.trace
    nodes = {event.node for event in trace}
    kernels = [name for part, name in KERNELS.items() if any(part in node for node in nodes)]
    return GPTSettings(precision, kernels[0] if kind == "sdpa" else "explicit", holds_logits=False, regions=regions)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("precision", "kind", "regions"),
    [
        ("autocast", "sdpa", "none"),
        ("float32", "sdpa", "none"),
        ("bfloat16", "explicit", "none"),
        ("autocast", "sdpa", "every block"),
        ("float32", "sdpa", "attention only"),
    ],
)
def test_chapters_4_and_5(precision, kind, regions):
    step = trained(precision, kind, regions)
    rows = Ledger.at(step.report.trace, "end of forward").rows
    formula = held_after_forward(settings_of(step, precision, kind, regions))
    is_the_books(step.formula("end of forward"), rows, formula, d="64*a")


@pytest.mark.nightly
@pytest.mark.parametrize("regions", ["every k-th block", "k segments"])
def test_chapter_5_with_every_second_block_and_two_segments(regions):
    """Row by row at sizes not used for deriving; and as many bytes as the book's form says, at even and odd depths.

    Not term by term: the book rounds down or up what a run shows as a multiple of two.
    """
    step = trained("float32", "sdpa", regions, k=2, L=4)
    found = step.formula("end of forward")
    assert found.is_exact
    book = held_after_forward(settings_of(step, "float32", "sdpa", regions))
    for L in (4, 5, 8, 9):
        at = {"b": 3, "s": 77, "L": L, "a": 3, "V": 500}
        assert found.bytes(**at) == book.bytes(**at, d=64 * 3, k=2)


@pytest.mark.nightly
def test_the_peak_of_chapter_4():
    step = trained("float32", "sdpa")
    found = step.formula()
    peak = held_in_loss(settings_of(step, "float32", "sdpa", "none"))
    assert found.is_exact
    at = {"b": 3, "s": 77, "L": 3, "a": 1, "V": 900}
    assert "_log_softmax_backward_data" in found.moment(**at)
    assert found.bytes(**at) == peak.bytes(**at, d=64)


@pytest.mark.nightly
@pytest.mark.parametrize("sequence", [False, True])
def test_chapter_6_where_sizes_divide(sequence):
    """A rank of t: each letter that t divides is written as t of something."""

    def run(gpu, mesh, b, m, h, t):
        s, a = m * t, h * t
        how = {"device": gpu.device, "dtype": torch.bfloat16}
        block = tensor_parallel(Block(16 * a, a, "GELU", context_length=s, **how), mesh, sequence=sequence)
        x = torch.randn(b, m if sequence else s, 16 * a, requires_grad=True, **how) * 1
        return block, block(x)

    def scopes(t, **_):
        return [ranks(t, 0)]

    found, kept = activations_alone(*of_program(run, b=2, m=24, h=2, t=2, scopes=scopes))
    formula = rank_saved(attention="flash", activation="gelu", sequence=sequence)
    is_the_books(found, kept, formula, e="2", s="m*t", a="h*t", d="16*h*t")


@pytest.mark.nightly
@pytest.mark.parametrize(("stage", "wrap"), [(0, replicated), (3, fully_sharded)])
def test_a_rank_of_data_parallel_of_chapter_6_where_sizes_divide(stage, wrap):
    """Every byte of a rank after its third forward: its shares, buckets, what is gathered, activations."""

    def run(gpu, mesh, b, v, m, h, L, n):
        model = wrap(GPT(v * n, m * n, 16 * h * n, L, 1, device=gpu.device, kind="explicit"), mesh)
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        for number in range(3):
            batch = [torch.randint(v * n, (b, m * n)).to(gpu.device) for _ in range(2)]
            loss = model(*batch)[1]
            if number == 2:
                return model, optimizer, batch, loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    def scopes(n, **_):
        return [ranks(n, 0)]

    found, rows = of_program(run, b=2, v=40, m=12, h=2, L=3, n=2, scopes=scopes, n_checks=4)
    settings = GPTSettings("float32", "explicit", holds_logits=False)
    formula = held_on_rank(settings, stage, "after forward")
    is_the_books(found, rows, formula, V="v*n", s="m*n", d="16*h*n", a="1")


def test_a_block_of_chapter_4_alone():
    def run(gpu, b, s, a):
        how = {"device": gpu.device, "dtype": torch.bfloat16}
        block = Block(32 * a, a, "GELU", context_length=s, **how)
        x = torch.randn(b, s, 32 * a, requires_grad=True, **how) * 1
        return block, block(x)

    found, kept = activations_alone(*of_program(run, b=2, s=33, a=3))
    is_the_books(found, kept, block_saved(attention="flash", activation="gelu"), e="2", d="32*a")
