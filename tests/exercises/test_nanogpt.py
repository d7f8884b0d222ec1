"""The judges' replies in chapter 4."""

import pytest
import torch

from utils.exercises import nanogpt
from utils.experiments.gpt_article import requested_at_peak
from utils.experiments.training import StepSettings
from utils.models.gpt import letters

NE, NA = 12 * 1024 * 768, 12 * 12 * 1024**2
N_BLOCK = 12 * 768**2 + 2 * 768
RELU = 12 * 8 * NE
ONE_MORE = 16 * N_BLOCK + 24 + 5 * 1024**2 + 36 * NE + 6 * NA + 16 * 12 * 1024 + 24 * 768**2


def right_gqa(b, s, d, a, g):
    return 6 * b * s * d + 4 * b * s * d * g // a + 4 * a * b * s + 24


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (nanogpt.relu_instead, RELU, "Right: 905,969,664 bytes"),
        (nanogpt.relu_instead, RELU // 12, "That is one block, and the model has twelve."),
        (nanogpt.relu_instead, 2 * RELU, "Only one 4d-wide tensor goes, in half precision"),
        (nanogpt.relu_instead, 0, "Which tensor does no backward read any more?"),
        (nanogpt.relu_instead, None, "No answer yet"),
        (nanogpt.one_more_block, ONE_MORE, "Right: 1,378,574,360 bytes"),
        (nanogpt.one_more_block, 36 * NE + 6 * NA, "Those are the large activations."),
        (nanogpt.one_more_block, 16 * N_BLOCK + 36 * NE + 6 * NA, "The large terms are right."),
        (nanogpt.one_more_block, 12 * N_BLOCK + 36 * NE + 6 * NA, "so a parameter takes 16 bytes"),
        (nanogpt.one_more_block, 12 * N_BLOCK, "In the article's run gradients stay too."),
        (nanogpt.one_more_block, 16 * N_BLOCK, "What does the block keep for backward?"),
        (nanogpt.one_more_block, 4 * N_BLOCK + 36 * NE + 6 * NA, "A parameter has a gradient and two averages"),
        (nanogpt.one_more_block, ONE_MORE - 24, "for each of the block's six parameters"),
        (nanogpt.one_more_block, ONE_MORE - 24 * 768**2, "a copy of every weight"),
        (nanogpt.one_more_block, ONE_MORE - 1024**2, "a mask of bools"),
        (nanogpt.one_more_block, None, "No answer yet"),
        (nanogpt.saves_most, ("flash attention", "pure bfloat16"), "Right: they save 44,486,098,656 bytes"),
        (nanogpt.saves_most, ("flash attention", "flash attention"), "at s = 256, 'flash attention' saves 2,714,"),
        (nanogpt.saves_most, ("logits let go", "pure bfloat16"), "at s = 4096, 'logits let go' saves 1,236,271,104"),
        (nanogpt.saves_most, "flash attention", "answer with two of"),
        (nanogpt.saves_most, ("flash", "SGD"), "answer with two of 'flash attention'"),
        (nanogpt.saves_most, None, "No answer yet"),
        (nanogpt.who_holds, (12288, 50304), "Right: the logits, at 2 bytes each."),
        (nanogpt.who_holds, torch.Size([12, 1024, 50304]), "Right: the logits"),
        (
            nanogpt.who_holds,
            (12, 1024, 768),
            "in half precision a tensor of this shape has 18,874,368 bytes (18 MiB). Which one",
        ),
        (nanogpt.who_holds, (50304, 12, 1024), "Not yet: the size is right; give the shape as the ledger prints it."),
        (nanogpt.who_holds, (618135552,), "Not yet: the size is right; give the shape as the ledger prints it."),
        (nanogpt.who_holds, "logits", "a shape is a tuple of whole numbers: got 'logits'."),
        (nanogpt.who_holds, None, "No answer yet"),
        (nanogpt.grouped_query, right_gqa, "Right: your function agrees to the byte in all 3 settings."),
        (
            nanogpt.grouped_query,
            lambda b, s, d, a, g: 10 * b * s * d + 4 * a * b * s + 24,
            "as many heads of keys and values as of queries",
        ),
        (
            nanogpt.grouped_query,
            lambda b, s, d, a, g: right_gqa(b, s, d, a, g) - 4 * (a - g) * b * s,
            "a logsumexp for each head of queries, not of keys.",
        ),
        (
            nanogpt.grouped_query,
            lambda b, s, d, a, g: right_gqa(b, s, d, a, g) + 2 * b * s * d,
            "but that is the kernel's output, so it counts once.",
        ),
        (
            nanogpt.grouped_query,
            lambda b, s, d, a, g: right_gqa(b, s, d, a, g) + 2 * b * s * (d + 2 * g * d // a),
            "are views of qkv's output, so they count once",
        ),
        (nanogpt.grouped_query, lambda b, s, d, a, g: right_gqa(b, s, d, a, g) - 24, "one of 16 bytes and one of 8"),
        (nanogpt.grouped_query, lambda b, s, d, a, g: None, "no answer yet"),
    ],
)
def test_a_reply(exercise, answer, reply):
    assert reply in str(exercise(answer))


@pytest.mark.nightly
@pytest.mark.parametrize("shape", [nanogpt.LONG, nanogpt.SHORT])
def test_what_changes_save_is_what_runs_save(shape):
    """The judge takes closed forms: here they meet training steps, one for each change."""
    kept = {"autocast": torch.float16, "set_to_none": False}

    def peak(model=(), **settings):
        return requested_at_peak(**shape, settings=StepSettings(**(kept | settings)), **dict(model))

    base = peak()
    found = {
        "flash attention": peak({"kind": "sdpa"}),
        "pure bfloat16": peak({"dtype": torch.bfloat16}, autocast=None),
        "logits let go": peak(keep_outputs=False),
        "gradients dropped": peak(set_to_none=True),
        "SGD": peak(optimizer=lambda model: torch.optim.SGD(model.parameters())),
    }
    assert {name: base - n_bytes for name, n_bytes in found.items()} == nanogpt._saved(shape)


def test_the_two_ledgers_differ_by_one_tensor():
    planned, theirs = nanogpt.two_ledgers()
    difference = theirs.requested_bytes - planned.requested_bytes
    assert difference == 2 * 12 * 1024 * letters("gpt2")["V"] == 1_236_271_104
    (held,) = [row for row in (theirs - planned).appeared if row.category == "other tensors"]
    assert (held.shape, held.operation) == ((12288, 50304), "mm")
