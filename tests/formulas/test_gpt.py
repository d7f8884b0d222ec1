"""The closed form of a GPT's training step against training on the simulated GPU: every requested byte."""

import random

import pytest
import torch
from agreement import agrees
from kernels_by_node import KERNELS

from utils import GPT, Ledger, SimulatedGPU
from utils.experiments.training import StepSettings, random_tokens, train_steps
from utils.formulas.gpt import held_after_forward, held_in_embedding, held_in_loss, held_in_step, peak
from utils.formulas.settings import PRECISIONS, GPTSettings

MAKES_THE_LAST = {"autocast": "aten::nll_loss_backward"}  # the gradient with which the moment in the loss begins
OPTIMIZERS = {"fused": "AdamW, fused", "foreach": "AdamW, foreach", "loop": "AdamW, loop"}
N_DRAWN, N_LARGE = 40, 16


def settings(seed):
    """A GPT's sizes, a way to train it and the GPU, drawn at random."""
    draw = random.Random(seed)
    a = draw.choice([1, 2, 3, 4, 6])
    letters = {
        "b": draw.randint(1, 5),
        "s": draw.randint(1, 300),
        "d": a * draw.choice([8, 16, 24, 64, 128, 264]),
        "a": a,
        "L": draw.randint(1, 5),
        "V": draw.choice([1, 65, 1000, 5001, 50304]),
    }
    model = {
        "kind": draw.choice(["sdpa", "explicit"]),
        "bias": draw.random() < 0.5,
        "dropout_prob": draw.choice([0.0, 0.1]),
    }
    training = {
        "optimizer": draw.choice(list(OPTIMIZERS)),
        "set_to_none": draw.random() < 0.5,
        "keep_outputs": draw.random() < 0.5,
    }
    precision = draw.choice(PRECISIONS)
    gpus = [
        "a100-80gb",
        "h100-80gb",
        *(["t4-16gb"] if precision != "bfloat16" else []),
    ]
    return letters, model, precision, training, draw.choice(gpus)


def train(letters, model, precision, training, gpu_name):
    """The GPU after three steps, and the settings for the closed form."""
    half = torch.float16 if gpu_name == "t4-16gb" or letters["s"] % 2 else torch.bfloat16
    how = StepSettings(autocast=half if precision == "autocast" else None, **training)
    dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
    sizes = [letters[letter] for letter in "VsdLa"]
    with SimulatedGPU(gpu_name) as gpu:
        workspace_bytes = gpu.spec.cublas_workspace_bytes
        batch = {letter: letters[letter] for letter in "bsV"}
        train_steps(
            gpu, lambda: GPT(*sizes, device=gpu.device, dtype=dtype, **model), lambda: random_tokens(gpu, **batch), how
        )
    nodes = {event.node for event in gpu.trace}
    kernels = [name for part, name in KERNELS.items() if any(part in node for node in nodes)]
    held = GPTSettings(
        precision,
        *(kernels or ["explicit"]),
        model["bias"],
        model["dropout_prob"],
        OPTIMIZERS.get(training["optimizer"], "SGD"),
        holds_logits=training["keep_outputs"],
        holds_gradients=not training["set_to_none"],
        workspace_bytes=workspace_bytes,
    )
    return gpu.trace, held


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(N_DRAWN))
def test_every_byte_at_each_moment(seed):
    letters, *rest = settings(seed)
    trace, held = train(letters, *rest)
    after_forward = trace.position("step 3 forward")
    agrees(held_after_forward(held), letters, Ledger.at(trace, after_forward))
    operation = MAKES_THE_LAST.get(held.precision, "aten::_log_softmax_backward_data")
    in_loss = next(i for i, e in enumerate(trace.events) if i > after_forward and e.operation == operation)
    agrees(held_in_loss(held), letters, Ledger.at(trace, in_loss + 1))
    in_embedding = max(i for i, e in enumerate(trace.events) if is_in_embedding(e, held))
    agrees(held_in_embedding(held), letters, Ledger.at(trace, in_embedding + 1))
    if held.optimizer != "AdamW, loop" or letters["V"] >= max(4 * letters["d"], letters["s"]):
        agrees(held_in_step(held), letters, Ledger.at(trace, largest(trace, "step 3 backward", "step 3 optimizer")))


def largest(trace, after, until) -> int:
    """The position between two marks at which the most is requested."""
    first, last = trace.position(after), trace.position(until)
    levels = [trace.requested_bytes(first)]
    for event in trace.events[first:last]:
        levels.append(levels[-1] + {"alloc": 1, "free": -1}.get(event.action, 0) * event.n_bytes)
    return first + levels.index(max(levels))


def large_vocabulary(seed):
    """The same, drawn among models whose largest layers are the vocabulary's."""
    draw = random.Random(-1 - seed)
    letters, model, precision, training, gpu = settings(seed)
    a = draw.choice([2, 4, 6, 8])
    shape = {"b": draw.randint(1, 6), "s": draw.choice([128, 256, 512]), "d": a * draw.choice([32, 64, 128]), "a": a}
    return (
        letters | shape | {"L": draw.randint(1, 4), "V": draw.choice([32000, 50257, 50304])},
        model,
        precision,
        training,
        gpu,
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(N_LARGE))
def test_the_peak_of_models_with_a_large_vocabulary(seed):
    letters, *rest = large_vocabulary(seed)
    trace, held = train(letters, *rest)
    at = largest(trace, "step 2 zero_grad", "step 3 zero_grad")
    assert peak(held, **letters)[1] == trace.requested_bytes(at)


def test_sgd_has_no_state_and_makes_nothing():
    letters, model, precision, training, gpu = settings(0)
    how = training | {"optimizer": lambda model: torch.optim.SGD(model.parameters())}
    trace, held = train(letters, model, precision, how, gpu)
    assert held.optimizer == "SGD"
    agrees(held_in_step(held), letters, Ledger.at(trace, largest(trace, "step 3 backward", "step 3 optimizer")))


def is_in_embedding(event, held) -> bool:
    operation = "aten::embedding_dense_backward" if held.is_autocast else "aten::add.Tensor"
    return (event.action, event.operation, event.module) == ("alloc", operation, "tokens")


def test_the_draw_meets_every_choice():
    drawn = [settings(seed) for seed in range(N_DRAWN)]
    assert {precision for _, _, precision, _, _ in drawn} == set(PRECISIONS)
    assert {model["kind"] for _, model, *_ in drawn} == {"sdpa", "explicit"}
    assert {gpu for *_, gpu in drawn} == {"a100-80gb", "h100-80gb", "t4-16gb"}


@pytest.mark.parametrize(("name", "value"), [("precision", "fp16"), ("optimizer", "Lion"), ("attention", "Explicit")])
def test_unknown_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be one of .*: got {name}='{value}'"):
        GPTSettings(**{name: value})
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\).*: got dropout=3.0"):
        GPTSettings(dropout=3.0)
