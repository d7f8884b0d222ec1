"""The closed forms of a step with any of the remedies against the simulated GPU: every row, at every moment.

Of a Llama's step and of a GPT's, with sizes and remedies drawn at random.
"""

import random
from functools import partial

import pytest
from agreement import agrees

from every_byte.remedies import eight_bit
from every_byte.remedies.losses import fused_chunks, recomputed_chunks
from utils import Ledger
from utils.experiments import remedy_step
from utils.experiments.gpt_remedy_step import GPTRemedyStep
from utils.experiments.llama_step import LlamaStep
from utils.experiments.remedy_step import LOSSES, OFFLOADS, OPTIMIZERS, RemedyStep, predicted
from utils.formulas import decoder_counts
from utils.formulas.decoder_moments import MOMENTS, why_no_form
from utils.models import gpt

pytestmark = pytest.mark.sampled(8)

ROWS, AT_ONCE, V = 64, 1 << 16, 4099
N_DRAWN = 32
PRECISIONS = {
    LlamaStep: ("bfloat16", "bfloat16", "autocast", "float32 masters"),
    GPTRemedyStep: ("bfloat16", "bfloat16", "autocast", "float32 masters", "float32"),
}
FAMILIES = list(PRECISIONS)


def small_llama(draw) -> dict:
    """Sizes whose largest matrices are the vocabulary's, and those of 4,096 numbers or more, as the forms have it."""
    g = draw.choice([1, 2])
    a = g * draw.choice([2, 4])
    d = a * draw.choice([32, 64])
    return {
        "d_model": d, "n_layers": draw.randint(2, 4),
        "n_heads": a, "n_kv_heads": g, "d_mlp": d + 8 * draw.randint(1, 40), "rope_theta": 1e4,
        "is_tied": draw.random() < 0.3,
    }  # fmt: skip


def small_gpt(draw) -> dict:
    """The same."""
    a = draw.choice([2, 3, 4])
    return {"d_model": a * draw.choice([32, 64]), "n_layers": draw.randint(2, 4), "n_heads": a}


SMALL = {LlamaStep: small_llama, GPTRemedyStep: small_gpt}


def drawn(family, seed, monkeypatch) -> RemedyStep:
    """A step with remedies drawn at random, those that exclude each other left out."""
    draw = random.Random(seed)
    monkeypatch.setitem(family.sizes, "small", SMALL[family](draw) | {"vocabulary_size": V})
    monkeypatch.setattr(gpt, "VOCABULARY_SIZE", V)
    monkeypatch.setitem(LOSSES, "chunks, recomputed", recomputed_chunks(ROWS))
    monkeypatch.setitem(LOSSES, "chunks, fused", fused_chunks(ROWS))
    monkeypatch.setattr(remedy_step, "ROWS", ROWS)
    for module, name in ((eight_bit, "_AT_ONCE"), (decoder_counts, "AT_ONCE")):
        monkeypatch.setattr(module, name, AT_ONCE)
    while True:
        make = partial(
            family,
            model="small",
            b=draw.randint(1, 3),
            s=draw.randint(2 * ROWS, 200),
            precision=draw.choice(PRECISIONS[family]),
            loss=draw.choice(list(LOSSES)),
            is_checkpointed=draw.random() < 0.5,
            optimizer=draw.choice(list(OPTIMIZERS)),
            steps_in_backward=draw.random() < 0.4,
            rank=draw.choice([0, 0, 64]),
            offload=draw.choice(["nothing", *OFFLOADS]),
            sets_to_none=draw.random() < 0.8,
            keeps_logits=draw.random() < 0.3,
            gpu=draw.choice(["a100-80gb", "h100-80gb"]),
        )
        try:
            step = make()
        except ValueError:
            continue
        if not why_no_form(step.held) and is_large(step):
            return step


def is_large(step: RemedyStep) -> bool:
    """Whether matrices have the 4,096 numbers from which on the 8-bit optimizer has bytes, and a width of it fewer."""
    d, a, g = (step.model_letters[letter] for letter in "dag")
    return step.optimizer != "AdamW, 8-bit" or d // a * g * (step.rank or d) >= 4096


@pytest.mark.long
@pytest.mark.parametrize("seed", range(N_DRAWN))
@pytest.mark.parametrize("family", FAMILIES)
def test_every_byte_at_each_moment(family, seed, monkeypatch):
    step = drawn(family, seed, monkeypatch)
    run = step.run()
    positions, accounted = run.positions, run.account()
    assert list(positions) == list(MOMENTS)
    for name, form in MOMENTS.items():
        if name == "optimizer's step" and step.optimizer == "Adafactor":
            continue  # what its sums take is left out
        if name == "last block's first gradient" and step.optimizer == "Adafactor" and step.steps_in_backward:
            continue
        agrees(form(step.held), step.letters, Ledger.at(run.trace, positions[name]).of_the_program)

        assert predicted(step.held)[name].by_term(**step.letters) == accounted[name]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_draw_meets_every_choice(family, monkeypatch):
    steps, are_tied = [], set()
    for seed in range(N_DRAWN):
        steps.append(drawn(family, seed, monkeypatch))
        are_tied.add(steps[-1].held.is_tied)
    for name, options in {
        "loss": LOSSES,
        "optimizer": OPTIMIZERS,
        "offload": OFFLOADS,
        "precision": PRECISIONS[family],
    }.items():
        assert {getattr(step, name) for step in steps} == set(options)
    for name in ("is_checkpointed", "steps_in_backward", "sets_to_none", "keeps_logits", "rank", "gpu"):
        assert len({getattr(step, name) for step in steps}) == 2
    assert are_tied == ({True, False} if family is LlamaStep else {True})
