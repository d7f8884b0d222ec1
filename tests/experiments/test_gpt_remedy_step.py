"""A GPT-2's step with any of the remedies: its letters are the model's, and what a Llama's refuses it refuses."""

import re

import pytest
import torch

from every_byte.formula.expressions import Expression
from utils import SimulatedGPU
from utils.experiments.gpt_remedy_step import GPTRemedyStep
from utils.formulas.decoder_counts import n_tensors, parameter_count, trained_count
from utils.models.gpt import SIZES

SMALL = {"s": 16, "gpu": "a100-80gb"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"model": "llama-3-8b"},
            "model must be one of gpt2; gpt2-medium; gpt2-large; gpt2-xl: got model='llama-3-8b'",
        ),
        ({"s": 0}, "s must be a positive integer"),
        (
            {"steps_in_backward": True, "offload": "optimizer"},
            "steps_in_backward and an offloaded optimizer exclude each other: gradients go as they come.",
        ),
    ],
)
def test_what_is_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        GPTRemedyStep(**settings)


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 5])
@pytest.mark.parametrize("name", SIZES)
def test_the_counts_are_the_models(name, rank):
    step = GPTRemedyStep(model=name, s=333, rank=rank)
    parameters = list(step.model_on(torch.device("meta")).parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    assert valued(trained_count(step.held), step) == sum(parameter.numel() for parameter in trained)
    assert valued(n_tensors(step.held), step) == len(trained)
    of_the_model = sum(parameter.numel() for parameter in parameters) - (
        valued(trained_count(step.held), step) if rank else 0
    )
    assert valued(parameter_count(step.held), step) == of_the_model


def valued(size: str, step: GPTRemedyStep) -> int:
    return Expression(size).value(step.letters)


def test_other_sizes_take_the_place_of_the_models():
    changes = {"vocabulary_size": 50, "d_model": 16, "n_layers": 1, "n_heads": 2}
    with SimulatedGPU("a100-80gb") as gpu:
        readings = GPTRemedyStep(**SMALL).train(gpu, **changes)
    n_parameters = 50 * 16 + 16 * 16 + (12 * 16 * 16 + 2 * 16) + 16  # positions as well; the head is the embedding
    assert readings[0, "model"].requested_bytes == 2 * n_parameters
