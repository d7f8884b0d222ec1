"""A few remedies run as the whole advice runs them; for the book's run, with the same recommendation."""

import pytest
from own_model import own

from every_byte.account import account, tokens
from utils.experiments.few_remedies import advice_from
from utils.models.gpt import GPT

NAMES = "checkpoint, 12 regions", "loss in 8 chunks", "2 micro-batches", "AdamW, 8-bit", "expandable segments"


def figures(ran):
    return ran.name, ran.peak_bytes, ran.needed_bytes, ran.fits, ran.flops


def test_each_is_what_the_whole_advice_has():
    whole = own().advice(sizes=False)
    few = advice_from(own(), "AdamW, fused", "2 micro-batches")
    assert {ran.name for ran in few.runs} == {"AdamW, fused", "2 micro-batches"}
    assert [ran.peak_bytes for ran in few.runs] == sorted(ran.peak_bytes for ran in few.runs)
    assert [figures(ran) for ran in few.runs] == [figures(whole.of(ran.name)) for ran in few.runs]
    assert figures(few.plain) == figures(whole.plain)


def test_a_remedy_that_there_is_not():
    with pytest.raises(ValueError, match="names must be among .*'prayer'"):
        advice_from(own(), "2 micro-batches", "prayer")


@pytest.mark.long
def test_of_the_run_that_opens_the_book_both_recommend_the_same():
    batch = (tokens("b", "s", below=50_257),) * 2
    run = account(
        lambda: GPT.from_name("gpt2"), batch, loss=lambda output, _: output[1], optimizer="AdamW, fused",
        gpu="t4-16gb", b=12, s=1024,
    )  # fmt: skip
    whole, few = run.advice(sizes=False), advice_from(run, *NAMES)
    assert whole.best.name == few.best.name == "2 micro-batches"
    assert [figures(ran) for ran in few.runs] == [figures(whole.of(ran.name)) for ran in few.runs]
