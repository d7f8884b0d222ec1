"""The peak of a step by closed form against the simulated peak: public sizes of both families, any of the remedies."""

import pytest
import torch

from every_byte.remedies import eight_bit
from utils import SimulatedGPU
from utils.experiments.gpt_remedy_step import GPTRemedyStep
from utils.experiments.llama_step import LlamaStep
from utils.experiments.readings import requested
from utils.experiments.remedy_step import predicted
from utils.formulas import decoder_counts
from utils.formulas.decoder_moments import (
    IN_FORWARD,
    IN_SECOND,
    MOMENTS,
    SCRATCH,
    TOO_FEW_TOKENS,
    peak,
    why_no_peak,
)
from utils.formulas.families import family_of

pytestmark = pytest.mark.sampled(5, slow=True)

REMEDIES = [
    ({}, "backward of the loss"),
    ({"loss": "all logits, bfloat16"}, "backward of the loss"),
    ({"is_checkpointed": True}, "backward of the first block"),
    ({"is_checkpointed": True, "loss": "chunks, recomputed"}, "backward of the first block"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "steps_in_backward": True}, "forward of the loss"),
    ({"is_checkpointed": True, "loss": "chunks, recomputed", "steps_in_backward": True}, "backward of the head"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "optimizer": "AdamW, foreach"}, "optimizer's step"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "optimizer": "AdamW, loop"}, "optimizer's step"),
    ({"is_checkpointed": True, "loss": "chunks, fused", "optimizer": "AdamW, loop", "precision": "float32 masters"},
     "optimizer's step"),
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

FORWARD, IN_LOSS, IN_DOWN, IN_LAST, IN_FIRST, STEP = (
    name for name in MOMENTS if name not in ("end of forward", "backward of the head", "backward of the embedding")
)
CHUNKS = {"is_checkpointed": True, "loss": "chunks, fused"}
REMEDIES_OF_GPT = [
    ({}, (IN_LOSS, IN_LOSS)),
    ({"loss": "all logits, bfloat16"}, (IN_LOSS, IN_LOSS)),
    ({"is_checkpointed": True, "loss": "chunks, recomputed"}, (IN_LOSS, IN_FIRST)),
    (CHUNKS, (FORWARD, IN_FIRST)),
    ({**CHUNKS, "optimizer": "AdamW, 8-bit"}, (STEP, STEP)),
    ({**CHUNKS, "optimizer": "AdamW, 8-bit", "steps_in_backward": True}, (STEP, IN_DOWN)),
    ({**CHUNKS, "optimizer": "AdamW, foreach", "precision": "float32 masters"}, (STEP, STEP)),
    ({**CHUNKS, "precision": "autocast"}, (FORWARD, IN_FIRST)),
    ({**CHUNKS, "rank": 8}, (FORWARD, IN_LAST)),
    ({"loss": "chunks, recomputed", "rank": 8, "b": 4}, (IN_LOSS, IN_LAST)),
    ({**CHUNKS, "offload": "optimizer, gradients"}, (FORWARD, IN_LAST)),
    ({"loss": "chunks, fused", "offload": "activations"}, (FORWARD, IN_FIRST)),
    ({"precision": "float32", "b": 8, "s": 1024}, (IN_LOSS, IN_LOSS)),
    ({**CHUNKS, "b": 8}, (IN_LAST, IN_LAST)),
]  # fmt: skip
"""The moments are those of gpt2 and gpt2-xl, by 8,192 tokens; a batch of 8 has more than the vocabulary has words."""


def requested_peak(run) -> int:
    """The most that is requested in the last step."""
    return max(run.trace.totals(after=run.after, until=run.until)[0])


@pytest.mark.long
@pytest.mark.parametrize(("remedies", "moment"), REMEDIES, ids=str)
def test_the_peak_is_one_of_the_moments(remedies, moment):
    step = LlamaStep(**remedies)
    assert why_no_peak(step.held, **step.letters) == ""
    assert peak(step.held, **step.letters) == (moment, requested_peak(step.run()))


@pytest.mark.long
@pytest.mark.parametrize("number", [0, 1], ids=["gpt2", "gpt2-xl"])
@pytest.mark.parametrize(("remedies", "moments"), REMEDIES_OF_GPT, ids=str)
def test_the_peak_of_a_gpt_is_one_of_the_moments(number, remedies, moments):
    step = GPTRemedyStep(model=("gpt2", "gpt2-xl")[number], **remedies)
    assert why_no_peak(step.held, **step.letters) == ""
    assert peak(step.held, **step.letters) == (moments[number], requested_peak(step.run()))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("model", "s"), [("gpt2-xl", 32768), ("gpt2-medium", 6000)], ids=["more than half the words", "fewer"]
)
def test_where_tokens_are_sorted_every_moment_is_met(model, s):
    """The last moment of backward, whose parts take more than the gradient, and an embedding of as many positions."""
    run = GPTRemedyStep(model=model, s=s, **CHUNKS, optimizer="AdamW, loop").run()
    for name, parts in run.account().items():
        assert predicted(run.step.held)[name].by_term(**run.step.letters) == parts


@pytest.mark.nightly
def test_a_llama_s_tokens_may_be_more_than_its_words():
    run = LlamaStep(model="llama-2-7b", s=32768, **CHUNKS).run()
    name = "backward of the embedding"
    assert predicted(run.step.held)[name].by_term(**run.step.letters) == run.account()[name]


@pytest.mark.parametrize("each", [2, 4])
@pytest.mark.parametrize("second", [0, 1 << 8, 77 << 8, 150 << 8, 200 << 8, 255 << 8, 1 << 16])
def test_the_8_bit_step_of_one_matrix(monkeypatch, each, second):
    """Of one whole part, and some of a second."""
    monkeypatch.setattr(eight_bit, "_AT_ONCE", 1 << 16)
    monkeypatch.setattr(decoder_counts, "AT_ONCE", 1 << 16)
    n = (1 << 16) + second
    with SimulatedGPU("a100-80gb") as gpu:
        dtype = torch.bfloat16 if each == 2 else torch.float32
        matrix = torch.nn.Parameter(torch.empty(n, device=gpu.device, dtype=dtype))
        matrix.grad = torch.empty_like(matrix)
        optimizer = eight_bit.AdamW8bit([matrix])
        optimizer.step()
        before = requested(gpu)
        gpu.reset_peak_memory_stats()
        optimizer.step()
        assert requested(gpu, "peak") - before == decoder_counts.eight_bit_step(n, each)[0]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "step",
    [
        LlamaStep(is_checkpointed=True, loss="chunks, fused", optimizer="Adafactor"),
        *(
            GPTRemedyStep(model=name, b=2, s=2560, loss="chunks, fused", optimizer="Adafactor", offload="activations")
            for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
        ),
    ],
    ids=lambda step: step.model,
)
def test_adafactor_s_step_is_a_lower_bound(step):
    more = requested_peak(step.run()) - peak(step.held, **step.letters)[1]
    if why := why_no_peak(step.held, **step.letters):
        assert why == SCRATCH
        assert 0 <= more < family_of(step.held).sums_bytes
    else:
        assert more == 0


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"precision": "float32"}, "attention is spelt out there"),
        ({"precision": "autocast", "rank": 8}, "copies of frozen weights"),
        ({"precision": "autocast", "offload": "activations"}, "copies go to the host"),
        ({**CHUNKS, "rank": 8, "offload": "activations"}, IN_SECOND),
        ({"s": 2047, "loss": "chunks, fused"}, TOO_FEW_TOKENS),
    ],
)
def test_where_there_is_no_peak_it_says_why(settings, why):
    step = LlamaStep(**settings)
    assert why in why_no_peak(step.held, **step.letters)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"model": "gpt2-xl", "b": 8, "precision": "autocast", **CHUNKS}, IN_FORWARD),
        ({"precision": "autocast", "rank": 8}, "copies of frozen weights"),
        ({"s": 1024, "loss": "chunks, fused"}, TOO_FEW_TOKENS),
    ],
)
def test_where_a_gpt_has_no_peak_it_says_why(settings, why):
    step = GPTRemedyStep(**settings)
    assert why in why_no_peak(step.held, **step.letters)
