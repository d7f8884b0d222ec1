"""A GPT's step as the explorer runs it: each category of the ledger against the closed forms, the peak, the verdict."""

import gc
import random
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte.gpu.memory.specs import EXPLORED
from every_byte.palette import CATEGORIES
from utils import GPT, Ledger, SimulatedGPU
from utils.experiments.gpt_step import ATTENTIONS, OPTIMIZERS, PRECISIONS, GPTStep, predicted
from utils.experiments.step_run import one_at_a_time
from utils.experiments.training import StepSettings, random_tokens, train_steps
from utils.formulas.gpt import MOMENTS
from utils.formulas.moments import by_category

N_DRAWN = 12


def drawn(seed) -> GPTStep:
    draw = random.Random(seed)
    b = draw.randint(1, 4)
    return GPTStep(
        model=draw.choice(["gpt2", "gpt2", "gpt2-medium"]),
        b=b,
        s=draw.randint(16, 3072 // b),  # more tokens would be sorted in the embedding's backward
        precision=draw.choice(PRECISIONS),
        attention=draw.choice(ATTENTIONS),
        dropout=draw.choice([0.0, 0.1]),
        optimizer=draw.choice(list(OPTIMIZERS)),
        accumulates=draw.random() < 0.3,
        keeps_logits=draw.random() < 0.5,
        gpu=draw.choice(list(EXPLORED)),
    )


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(N_DRAWN))
def test_each_category_at_each_moment_is_as_predicted(seed):
    step = drawn(seed)
    accounted = step.run().account()
    assert list(accounted) == list(MOMENTS)
    for moment, formula in predicted(step.held).items():
        assert formula.by_term(**step.letters) == accounted[moment], (step, moment)


def test_the_draw_meets_every_choice():
    steps = [drawn(seed) for seed in range(N_DRAWN)]
    for name, options in {"precision": PRECISIONS, "attention": ATTENTIONS, "optimizer": OPTIMIZERS}.items():
        assert {getattr(step, name) for step in steps} == set(options)
    for name in ("dropout", "accumulates", "keeps_logits"):
        assert len({getattr(step, name) for step in steps}) == 2
    assert {step.held.attention for step in steps} == {"flash", "efficient", "cudnn", "explicit"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({}, "backward of the loss"),
        ({"model": "gpt2-large", "b": 1, "s": 32}, "backward of the embedding"),
        ({"model": "gpt2-large", "b": 1, "s": 32, "optimizer": "AdamW, foreach"}, None),
    ],
)
def test_where_the_peak_is(settings, where):
    run = GPTStep(**settings).run()
    at = {position: moment for moment, position in run.positions.items()}
    assert at.get(run.peak) == where
    if where is None:
        assert run.trace.events[run.peak - 1].phase == "optimizer"


def test_many_tokens_leave_the_prediction_of_the_first_two_moments_exact():
    """In the third, the two sorted lists are there as well: the closed form says up to how many tokens it holds."""
    step = GPTStep(b=4, s=1024)
    accounted, forms = step.run().account(), predicted(step.held)
    difference = {
        moment: sum(accounted[moment].values()) - form.bytes(**step.letters) for moment, form in forms.items()
    }
    assert list(difference.values()) == [0, 0, 2 * 8 * 4 * 1024]


@pytest.mark.long
def test_the_second_step_asks_for_what_every_later_one_does():
    """Not so the slack: where blocks lie may change from step to step, until no segment is added any more."""
    run = GPTStep(b=2, s=256).run()
    with SimulatedGPU("a100-80gb") as gpu:
        train_steps(
            gpu,
            lambda: GPT.from_name("gpt2", context_length=256, device=gpu.device),
            lambda: random_tokens(gpu, b=2, s=256, V=50304),
            StepSettings(autocast=torch.bfloat16),
            n_steps=5,
        )
    later = Ledger.at_peak(gpu.trace, after="step 4 zero_grad", until="step 5 zero_grad")
    parts = [
        {k: n for k, n in found.parts.items() if k != "slack"} for found in (Ledger.at(run.trace, run.peak), later)
    ]
    assert parts[0] == parts[1]
    assert run.fit().needed_bytes == gpu.max_memory_reserved()


def test_nothing_else_of_the_process_is_looked_at(monkeypatch):
    """In a notebook with many objects that would take as long as the run."""
    monkeypatch.setattr(gc, "get_objects", lambda: pytest.fail("looked at every object there is"))
    run = GPTStep(b=1, s=64).run()
    assert run.account().keys() == MOMENTS.keys()
    assert run.trace.attribution()


@pytest.mark.long
@pytest.mark.parametrize(
    ("gpu", "precision", "dropout", "kernel"),
    [
        ("a100-80gb", "autocast", 0.0, "flash"),
        ("h100-80gb", "autocast", 0.0, "cudnn"),
        ("h100-80gb", "autocast", 0.1, "flash"),  # cuDNN drops multiples of 1/16 only
        ("h100-80gb", "float32", 0.0, "efficient"),
        ("t4-16gb", "half", 0.0, "efficient"),
    ],
)
def test_the_kernel_is_the_one_that_pytorch_takes(gpu, precision, dropout, kernel):
    step = GPTStep(b=1, s=32, gpu=gpu, precision=precision, dropout=dropout)
    assert step.held.attention == kernel
    nodes = {event.node for event in step.run().trace}
    name = {"flash": "FlashAttention", "cudnn": "CudnnAttention", "efficient": "EfficientAttention"}[kernel]
    assert any(name in node for node in nodes)


@pytest.mark.long
def test_another_thread_does_not_choose_its_kernels():
    """`sdpa_kernel` is a setting of the whole process: while an experiment of a cell has set it, a run waits."""
    step = GPTStep(b=1, s=32)
    with ThreadPoolExecutor(1) as pool:
        with one_at_a_time, sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            nodes = pool.submit(lambda: {event.node for event in step.run().trace})
            wait([nodes], timeout=1)
        assert {kernel for kernel in ("Flash", "Efficient") for node in nodes.result(60) if kernel in node} == {"Flash"}


def test_half_precision_is_what_the_gpu_computes_in():
    assert GPTStep(gpu="t4-16gb").half == torch.float16
    assert GPTStep(gpu="rtx3090-24gb").half == torch.bfloat16
    assert GPTStep(gpu="t4-16gb", precision="half").held.precision == "float16"


@pytest.mark.long
def test_the_verdict_is_on_the_gpu_that_was_asked_for():
    step = GPTStep(model="gpt2-large", b=4, s=1024, gpu="t4-16gb", precision="float32")
    verdict = step.run().fit()
    assert not verdict.fits
    assert verdict.gpu == "t4-16gb"
    with pytest.raises(torch.OutOfMemoryError), SimulatedGPU("t4-16gb") as gpu:
        train_steps(
            gpu,
            lambda: GPT.from_name("gpt2-large", device=gpu.device),
            lambda: random_tokens(gpu, b=4, s=1024, V=50304),
            n_steps=2,
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"precision": "fp8"}, "precision must be one of autocast; float32; half: got precision='fp8'."),
        ({"attention": "flash"}, "attention must be one of fused; explicit: got attention='flash'."),
        ({"optimizer": "Lion"}, "optimizer must be one of AdamW, fused; AdamW, foreach; SGD: got optimizer='Lion'."),
    ],
)
def test_unknown_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GPTStep(**settings)


# ---- closed forms by category


@pytest.mark.parametrize("seed", range(N_DRAWN))
def test_categories_are_the_same_bytes_as_the_closed_form(seed):
    step = drawn(seed)
    letters = {"b": 3, "s": 77, "d": 48, "a": 6, "L": 5, "V": 1001, "W": 4096}
    for moment, form in MOMENTS.items():
        merged = by_category(form(step.held))
        assert merged.bytes(**letters) == form(step.held).bytes(**letters)
        assert [term.name for term in predicted(step.held)[moment].terms] == [
            name for name in CATEGORIES if name in {term.name for term in merged.terms}
        ]


def test_activations_are_written_as_one_sum():
    terms = {term.name: term for term in predicted(GPTStep().held)["end of forward"].terms}
    assert str(terms["activations"].size) == (
        "36·b·s·d·L + 6·b·s·d + 4·b·s·a·L + 16·b·s·L + 6·b·s·V + 8·b·s + 8·s + 24·L + 4"
    )
    rounded = {term.name: term for term in predicted(GPTStep(precision="float32").held)["end of forward"].terms}
    assert str(rounded["activations"].size) == (
        "64·b·s·d·L + 8·b·s·d + 16·b·s·L + 4·b·s·V + 8·b·s + 4·b·a·L·⌈s⌉₃₂ + 8·s + 4"
    )
    every_kth = replace(GPTStep().held, regions="every k-th block")
    terms = {term.name: term for term in predicted(every_kth)["end of forward"].terms}
    assert str(terms["activations"].size).startswith("36·b·s·d·L − 32·b·s·d·⌈L/k⌉ + 6·b·s·d + 4·b·s·a·L − ")
