"""The closed form of a GPT's training step against training on the simulated GPU: every requested byte."""

import random

import pytest
import torch

from utils import GPT, Ledger, SimulatedGPU
from utils.gpt_held import PRECISIONS, GPTSettings, held_after_forward, held_in_embedding, held_in_loss
from utils.training import StepSettings, random_tokens, train_steps

KERNELS = {"FlashAttention": "flash", "EfficientAttention": "efficient", "CudnnAttention": "cudnn"}
MAKES_THE_LAST = {"autocast": "aten::nll_loss_backward"}  # the gradient with which the moment in the loss begins
OPTIMIZERS = {"fused": "AdamW, fused", "foreach": "AdamW", "loop": "AdamW"}
N_DRAWN = 40


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
        OPTIMIZERS[training["optimizer"]],
        holds_logits=training["keep_outputs"],
        holds_gradients=not training["set_to_none"],
        workspace_bytes=workspace_bytes,
    )
    return gpu.trace, held


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


def agrees(formula, letters, ledger):
    """Term by term; every row of the ledger has a term, and one only."""
    comparison = ledger.compare(formula, **letters)
    assert comparison.is_exact, comparison
    assert comparison.accounted_bytes == ledger.requested_bytes


def is_in_embedding(event, held) -> bool:
    operation = "aten::embedding_dense_backward" if held.is_autocast else "aten::add.Tensor"
    return (event.action, event.operation, event.module) == ("alloc", operation, "tokens")


def test_the_draw_meets_every_choice():
    drawn = [settings(seed) for seed in range(N_DRAWN)]
    assert {precision for _, _, precision, _, _ in drawn} == set(PRECISIONS)
    assert {model["kind"] for _, model, *_ in drawn} == {"sdpa", "explicit"}
    assert {gpu for *_, gpu in drawn} == {"a100-80gb", "h100-80gb", "t4-16gb"}


@pytest.mark.parametrize(("name", "value"), [("precision", "fp16"), ("optimizer", "Lion")])
def test_unknown_settings_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be one of .*: got {name}='{value}'"):
        GPTSettings(**{name: value})
