"""The closed form of a GPT with checkpointed regions against training on the simulated GPU: every requested byte."""

import random
from functools import partial
from math import sqrt

import pytest
import torch
from agreement import agrees
from kernels_by_node import KERNELS

from every_byte.formula.notation import plain
from every_byte.remedies.policies import COMPUTE_INTENSIVE, MATMULS, keeping
from utils import GPT, Ledger, SimulatedGPU
from utils.experiments.training import StepSettings, random_tokens, train_steps
from utils.formulas.block import block_saved
from utils.formulas.gpt import held_after_forward, held_in_embedding, held_in_loss
from utils.formulas.settings import POLICIES, PRECISIONS, REGIONS, GPTSettings
from utils.models import regions
from utils.models.regions import library_checkpoint, set_regions

LISTS = {"keep matmuls": MATMULS, "keep compute-intensive": COMPUTE_INTENSIVE}
WITH_K = ("every k-th block", "k segments")
N_DRAWN = 45


def drawn(seed):
    """Sizes, a GPT, regions, a policy and the GPU, at random: tiny ones too, and k that does not divide L."""
    draw = random.Random(seed)
    chosen = REGIONS[1:][seed % 5]
    policy = draw.choice(POLICIES)
    few = 2 if chosen == "attention only" and policy != "none" else 1
    a, L = draw.randint(few, 4), draw.randint(1, 7)
    letters = {
        "b": draw.randint(1, 3),
        "s": draw.randint(few, 90),
        "d": a * draw.choice([8, 16, 64]),
        "a": a,
        "L": L,
        "V": draw.choice([1, 65, 5001]),
        "k": draw.randint(1, L),
        "r": round(sqrt(L)),
    }
    precision = draw.choice(PRECISIONS)
    model = {
        "kind": draw.choice(["sdpa", "explicit"]),
        "bias": draw.random() < 0.5,
        "dropout_prob": draw.choice([0.0, 0.1]),
    }
    gpu = draw.choice(["a100-80gb", "h100-80gb", *(["t4-16gb"] if precision != "bfloat16" else [])])
    return letters, precision, model, chosen, policy, gpu


def train(letters, precision, model, chosen, policy, gpu_name):
    """The trace of two steps, and the settings of the closed form."""
    half = torch.float16 if gpu_name == "t4-16gb" else torch.bfloat16
    how = StepSettings(autocast=half if precision == "autocast" else None)
    dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
    run = {} if policy == "none" else {"run": partial(library_checkpoint, context_fn=keeping(LISTS[policy]))}
    k = letters["k"] if chosen in WITH_K else None
    sizes = [letters[letter] for letter in "VsdLa"]
    with SimulatedGPU(gpu_name) as gpu:
        workspace_bytes = gpu.spec.cublas_workspace_bytes
        train_steps(
            gpu,
            lambda: set_regions(GPT(*sizes, device=gpu.device, dtype=dtype, **model), chosen, k=k, **run),
            lambda: random_tokens(gpu, **{letter: letters[letter] for letter in "bsV"}),
            how,
            n_steps=2,
        )
    nodes = " ".join({f"{event.node} {event.operation}" for event in gpu.trace}).replace("_", "").lower()
    kernels = [name for part, name in KERNELS.items() if part.lower() in nodes]
    held = GPTSettings(
        precision,
        *(kernels or ["explicit"]),
        model["bias"],
        model["dropout_prob"],
        workspace_bytes=workspace_bytes,
        regions=chosen,
        policy=policy,
    )
    return gpu.trace, held


def agrees_at(formula, letters, trace, position):
    """Of the ledger at this position."""
    agrees(formula, letters, Ledger.at(trace, position))


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(N_DRAWN))
def test_every_row_after_forward_and_at_both_moments_of_backward(seed):
    letters, *rest = drawn(seed)
    trace, held = train(letters, *rest)
    after = trace.position("step 2 forward")
    agrees_at(held_after_forward(held), letters, trace, after)
    events = list(enumerate(trace.events))
    loss = "aten::nll_loss_backward" if held.is_autocast else "aten::_log_softmax_backward_data"
    in_loss = next(i for i, e in events if i > after and e.operation == loss)
    agrees_at(held_in_loss(held), letters, trace, in_loss + 1)
    last = "aten::embedding_dense_backward" if held.is_autocast else "aten::add.Tensor"
    in_embedding = max(i for i, e in events if (e.action, e.operation, e.module) == ("alloc", last, "tokens"))
    agrees_at(held_in_embedding(held), letters, trace, in_embedding + 1)


def test_the_draw_meets_every_choice():
    settings = [drawn(seed) for seed in range(N_DRAWN)]
    pairs = {(chosen, policy) for *_, chosen, policy, _ in settings}
    assert pairs == {(chosen, policy) for chosen in REGIONS[1:] for policy in POLICIES}
    assert {precision for _, precision, *_ in settings} == set(PRECISIONS)
    assert {(model["kind"], model["dropout_prob"] > 0) for _, _, model, *_ in settings} == {
        (kind, on) for kind in ("sdpa", "explicit") for on in (False, True)
    }
    assert any(letters["L"] % letters["k"] for letters, *_ in settings)


def test_regions_and_policies_have_their_names_from_where_they_are_run():
    assert REGIONS == regions.REGIONS
    assert list(LISTS) == list(POLICIES[1:])


def test_without_regions_nothing_has_changed():
    terms = {term.name: term for term in held_after_forward(GPTSettings()).terms}
    block = block_saved(attention="flash", activation="gelu", autocast=True)
    assert [name for name in terms if ": " in name][:12] == [term.name for term in block.terms]
    assert not any(name.startswith(("regions", "kept")) for name in terms)


@pytest.mark.parametrize("precision", ["autocast", "bfloat16"])
def test_the_published_figures_of_a_layer(precision):
    """2sbd for full recomputation, twice that under autocast; 34sbd and two norms' statistics for the selective one."""
    settings = GPTSettings(precision, "explicit", dropout=0.1, regions="every block")
    terms = {term.name: str(term.size) for term in held_after_forward(settings).terms}
    assert terms["regions: input"] == {"autocast": "L·b·s·d·4", "bfloat16": "L·b·s·d·2"}[precision]
    selective = block_saved(attention="explicit", activation="gelu", dropout=0.1, core=False)
    assert plain(selective.expression.subs({"e": 2})) == "34·b·s·d + 16·b·s"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"regions": "some"}, "regions must be one of none, every block, .*, attention only: got regions='some'"),
        ({"regions": "every block", "policy": "all"}, "policy must be one of none, keep matmuls, .*: got policy='all'"),
        ({"policy": "keep matmuls"}, "a policy needs regions: got policy='keep matmuls' with regions='none'"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(ValueError, match=message):
        GPTSettings(**settings)
