"""The peak of a step by closed form against the simulated peak: public sizes of both families, any of the remedies."""

import pytest

from utils.experiments.gpt_remedy_step import GPTRemedyStep
from utils.experiments.llama_step import LlamaStep
from utils.formulas.llama_moments import SCRATCH, SUMS_BYTES, TOO_FEW_TOKENS, peak, why_no_peak

REMEDIES = [
    ({}, "backward of the loss"),
    ({"loss": "all logits, bfloat16"}, "backward of the loss"),
    ({"is_checkpointed": True}, "backward of the first block"),
    ({"is_checkpointed": True, "loss": "chunks, recomputed"}, "backward of the first block"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "steps_in_backward": True}, "forward of the loss"),
    ({"is_checkpointed": True, "loss": "chunks, recomputed", "steps_in_backward": True}, "backward of the head"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "optimizer": "AdamW, foreach"}, "optimizer's step"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "optimizer": "AdamW, loop"}, "optimizer's step"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "optimizer": "AdamW, 8-bit"}, "optimizer's step"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "optimizer": "SGD"}, "backward of the first block"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "optimizer": "Adafactor", "steps_in_backward": True},
     "forward of the loss"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "rank": 8}, "backward of the last block"),
    ({"loss": "chunks, fused", "offload": "activations"}, "backward of the embedding"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "offload": "optimizer"}, "backward of the first block"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "offload": "optimizer, gradients"}, "forward of the loss"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "precision": "float32 masters"}, "optimizer's step"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "precision": "autocast"}, "backward of the embedding"),
    ({"model": "llama-3.2-3b", "optimizer": "AdamW, 8-bit", "steps_in_backward": True, "is_checkpointed": True,
      "loss": "chunks, fused", "gpu": "a100-80gb"}, "last block's first gradient"),
    ({"model": "llama-2-7b", "b": 2, "s": 4096, "is_checkpointed": True}, "backward of the first block"),
]  # fmt: skip

CHUNKS = {"is_checkpointed": True, "loss": "chunks, fused"}
REMEDIES_OF_GPT = [
    ({}, "?"),
    ({"loss": "all logits, bfloat16"}, "?"),
    ({"is_checkpointed": True, "loss": "chunks, recomputed"}, "?"),
    (CHUNKS, "?"),
    ({**CHUNKS, "optimizer": "AdamW, 8-bit"}, "?"),
    ({**CHUNKS, "optimizer": "AdamW, 8-bit", "steps_in_backward": True}, "?"),
    ({**CHUNKS, "optimizer": "AdamW, foreach", "precision": "float32 masters"}, "?"),
    ({**CHUNKS, "precision": "autocast"}, "?"),
    ({**CHUNKS, "rank": 8}, "?"),
    ({"loss": "chunks, recomputed", "rank": 8, "b": 4}, "?"),
    ({**CHUNKS, "offload": "optimizer, gradients"}, "?"),
    ({"loss": "chunks, fused", "offload": "activations"}, "?"),
    ({"precision": "float32", "b": 8, "s": 1024}, "?"),
    ({**CHUNKS, "b": 8}, "?"),
]  # fmt: skip
"""More than 3,072 tokens, which the embedding's backward sorts; with a batch of 8, more than the vocabulary."""


def requested_peak(run) -> int:
    """The most that is requested in the last step."""
    return max(run.trace.totals(after=run.after, until=run.until)[0])


@pytest.mark.parametrize(("remedies", "moment"), REMEDIES, ids=str)
def test_the_peak_is_one_of_the_moments(remedies, moment):
    step = LlamaStep(**remedies)
    assert why_no_peak(step.held, **step.letters) == ""
    assert peak(step.held, **step.letters) == (moment, requested_peak(step.run()))


@pytest.mark.parametrize("model", ["gpt2", "gpt2-xl"])
@pytest.mark.parametrize(("remedies", "moments"), REMEDIES_OF_GPT, ids=str)
def test_the_peak_of_a_gpt_is_one_of_the_moments(model, remedies, moments):
    step = GPTRemedyStep(model=model, **remedies)
    assert why_no_peak(step.held, **step.letters) == ""
    assert peak(step.held, **step.letters) == (moments[model], requested_peak(step.run()))


def test_adafactor_s_step_is_a_lower_bound():
    step = LlamaStep(is_checkpointed=True, loss="chunks, fused", optimizer="Adafactor")
    assert why_no_peak(step.held, **step.letters) == SCRATCH
    name, least = peak(step.held, **step.letters)
    assert name == "optimizer's step"
    assert 0 < requested_peak(step.run()) - least < SUMS_BYTES


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"precision": "float32"}, "attention is spelt out there"),
        ({"precision": "autocast", "rank": 8}, "copies of frozen weights"),
        ({"precision": "autocast", "offload": "activations"}, "copies go to the host"),
        ({"s": 2047, "loss": "chunks, fused"}, TOO_FEW_TOKENS),
    ],
)
def test_where_there_is_no_peak_it_says_why(settings, why):
    step = LlamaStep(**settings)
    assert why in why_no_peak(step.held, **step.letters)
