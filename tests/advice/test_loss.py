"""The chunked loss: where the head is recognised, and what is said where it is not."""

from copy import deepcopy
from dataclasses import replace
from importlib.util import find_spec as find_package

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import cross_entropy

from every_byte.account import hugging_face, tokens
from every_byte.advice.loss import chunked_loss, head_of
from every_byte.advice.remedy import DoesNotApply, together
from every_byte.advice.runs import Bench
from every_byte.gpu.memory.specs import find_spec
from every_byte.step.training_step import TrainingStep
from utils import GPT

A100 = find_spec("a100-80gb")
BENCH = Bench(A100, 1 << 30, 2, "")


class Words(nn.Module):
    """An embedding and a head; what happens to the logits is asked of `after`."""

    def __init__(self, after=lambda logits: logits) -> None:
        super().__init__()
        self.after, self.embedding, self.head = after, nn.Embedding(4001, 32), nn.Linear(32, 4001)

    def forward(self, x):
        return self.after(self.head(torch.tanh(self.embedding(x))))


def of_next(output, batch):
    return F.cross_entropy(output[:, :-1].flatten(0, 1), batch[0][:, 1:].flatten())


def of_next_by_another_name(output, batch):
    return cross_entropy(output[:, :-1].flatten(0, 1), batch[0][:, 1:].flatten())


def of_next_by_a_module(output, batch):
    return nn.CrossEntropyLoss()(output[:, :-1].flatten(0, 1), batch[0][:, 1:].flatten())


def without_0(output, batch):
    return F.cross_entropy(output[:, :-1].flatten(0, 1), batch[0][:, 1:].flatten(), ignore_index=0)


def step_of(loss=of_next, after=lambda logits: logits, make=None, precision="float32") -> TrainingStep:
    batch = (tokens("b", "s", below=4001),)
    return TrainingStep(make or (lambda: Words(after)), batch, loss, precision=precision, letters={"b": 8, "s": 64})


def nanogpt():
    """Its loss within the model, as nanoGPT has it."""

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gpt = GPT(4001, 64, 32, 2, 2)

        def forward(self, x):
            return self.gpt(x, x)[1]

    return Wrapped()


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "path"),
    [
        (step_of(), "head"),
        (step_of(of_next_by_another_name), "head"),
        (step_of(of_next_by_a_module), "head"),
        (step_of(without_0), "head"),
        (step_of(precision="autocast"), "head"),
        (step_of(precision="autocast float16"), "head"),
        (step_of(after=lambda logits: logits.float()), "head"),
        (step_of(None, make=nanogpt), "gpt.head"),
    ],
)
def test_the_head_is_recognised_and_chunks_take_less(step, path):
    assert head_of(step, A100).path == path
    plain, chunked = BENCH.run(step), BENCH.run(step, (chunked_loss(A100),))
    assert chunked.peak_bytes < plain.peak_bytes
    kept = 8 * (63 if step.loss else 64)  # rows that have a target: the others are left out
    assert chunked.flops - plain.flops == 2 * 32 * 4001 * (4 * kept - 3 * 8 * 64)


def weighted(output, batch):
    return F.cross_entropy(output.flatten(0, 1), batch[0].flatten(), label_smoothing=0.1)


def sum_of_two(output, batch):
    return of_next(output, batch) + output.square().mean()


def of_log_softmax(output, batch):
    return F.nll_loss(F.log_softmax(output[:, :-1].flatten(0, 1), -1), batch[0][:, 1:].flatten())


def of_two_calls(output, batch):
    F.cross_entropy(output[:, -1], batch[0][:, 0])
    return of_next(output, batch)


def summed(output, batch):
    return F.cross_entropy(output.flatten(0, 1), batch[0].flatten(), reduction="sum")


def of_named_width(output, batch):
    return F.cross_entropy(output.view(-1, 4001), batch[0].flatten())


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (step_of(lambda output, _: output.square().mean()), "the loss is not a cross entropy: it comes from Mean"),
        (step_of(sum_of_two), "the loss is not a cross entropy: it comes from Add"),
        (
            step_of(of_log_softmax),
            "one call of F.cross_entropy, .* can be put in chunks: a forward has none",
        ),
        (step_of(of_two_calls), "can be put in chunks: a forward has 2"),
        (step_of(precision="float16"), "the loss is float16, in which the sum of a chunk's losses may overflow"),
        (step_of(summed), "its cross entropy is not the plain mean over rows of the head's logits"),
        (step_of(lambda o, x: F.cross_entropy(o.flatten(0, 1), x[0].flatten(), reduce=True)), "not the plain mean"),
        (step_of(weighted), "the loss is not a cross entropy"),
        (step_of(after=lambda logits: logits.tanh()), "between the head and the cross entropy is Tanh"),
        (step_of(of_named_width), "its code says how wide the logits are"),
    ],
)
def test_where_it_does_not_apply_the_reason_is_said(step, reason):
    with pytest.raises(DoesNotApply, match=reason):
        BENCH.run(step, (chunked_loss(A100),))


def test_one_row_for_each_example_is_no_language_model():
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 4001))
    step = TrainingStep(
        lambda: net, (torch.ones(8, 3, 4),), lambda o, _: F.cross_entropy(o, o.argmax(1)), letters={}
    )  # fmt: skip
    with pytest.raises(DoesNotApply, match="1 makes one row for each example: there is nothing to divide"):
        together((chunked_loss(A100),), step)


def test_cross_entropy_is_as_it_was_afterwards():
    before = F.cross_entropy
    BENCH.run(step_of(), (chunked_loss(A100),))
    assert F.cross_entropy is before


# ---- the lines compute what was run, and what the plain step does


@pytest.mark.parametrize("ignored", [-100, 0, 7])
def test_the_lines_of_ones_own_loss_leave_out_what_was_ignored(ignored):
    def loss(output, batch):
        return F.cross_entropy(output.flatten(0, 1), batch[0].flatten(), ignore_index=ignored)

    head = head_of(step_of(loss), A100)
    assert head.ignore_index == ignored
    also = "" if ignored == -100 else f", ignore_index={ignored}"
    assert head.lines.endswith(f"# and in place of F.cross_entropy(logits, targets{also}): chunked(logits, targets)")
    torch.manual_seed(0)
    plain = Words()
    changed, x = deepcopy(plain), torch.randint(4001, (2, 16))
    x[:, ::3] = max(ignored, 0)
    names = {"model": changed}
    exec(head.lines, names)
    wanted, found = loss(plain(x), (x,)), names["chunked"](changed(x).flatten(0, 1), x.flatten())
    torch.testing.assert_close(found, wanted)
    wanted.backward()
    found.backward()
    for one, other in zip(changed.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def llama():
    return hugging_face(
        "LlamaForCausalLM", vocab_size=2003, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2,
    )()  # fmt: skip


NEEDS_TRANSFORMERS = pytest.mark.skipif(find_package("transformers") is None, reason="transformers is not installed")


def of_a_llama(loss=None, *, labels: bool) -> TrainingStep:
    words = tokens("b", "s", below=2003)
    batch = {"input_ids": words, "labels": words} if labels else {"input_ids": words}
    return TrainingStep(llama, batch, loss, letters={"b": 4, "s": 64})


@pytest.mark.nightly
@NEEDS_TRANSFORMERS
@pytest.mark.parametrize("given", [{}, {"num_items_in_batch": 7}, {"num_items_in_batch": torch.tensor(90)},
                                   {"shift_labels": torch.arange(40).view(2, 20)}])  # fmt: skip
def test_the_lines_of_a_transformers_model_have_its_loss_whatever_it_is_given(given):
    head = head_of(of_a_llama(labels=True), A100)
    assert head.is_of_transformers
    plain, x = llama(), torch.randint(2003, (2, 20))
    labels = x.masked_fill(x < 200, -100)
    changed = deepcopy(plain)
    exec(head.lines, {"model": changed})
    wanted, found = (model(input_ids=x, labels=labels, **given).loss for model in (plain, changed))
    torch.testing.assert_close(found, wanted)


@pytest.mark.nightly
@NEEDS_TRANSFORMERS
def test_the_loss_of_a_transformers_model_that_its_step_does_not_call_is_not_the_one_that_is_replaced():
    def of_logits(output, batch):
        return F.cross_entropy(output.logits.flatten(0, 1), batch["input_ids"].flatten())

    step = of_a_llama(of_logits, labels=False)
    head = head_of(step, A100)
    assert (head.path, head.is_of_transformers) == ("lm_head", False)
    assert BENCH.run(step, (chunked_loss(A100),)).flops > BENCH.run(step).flops
    of_its_own = of_a_llama(lambda output, _: output.loss, labels=True)
    assert head_of(of_its_own, A100).is_of_transformers
    assert BENCH.run(of_its_own, (chunked_loss(A100),)).flops > BENCH.run(of_its_own).flops


def test_a_loss_that_another_batch_computes_in_another_way_is_found_when_it_is_run():
    def by_size(output, batch):
        logits, targets = output.flatten(0, 1), batch[0].flatten()
        return F.cross_entropy(logits, targets) if len(targets) > 256 else F.nll_loss(logits.log_softmax(-1), targets)

    step = step_of(by_size)
    changed = together((chunked_loss(A100),), step).step
    with pytest.raises(DoesNotApply, match="the loss in chunks was called 0 times in a forward, and not once"):
        BENCH.run(replace(changed, letters={"b": 2, "s": 64}))


@pytest.mark.nightly
@NEEDS_TRANSFORMERS
def test_a_model_that_gives_its_vocabulary_by_place_is_put_in_chunks_too():
    """Those of experts of transformers do."""
    make = hugging_face(
        "MixtralForCausalLM", vocab_size=2003, hidden_size=32, intermediate_size=48, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, num_local_experts=2,
    )  # fmt: skip
    words = tokens("b", "s", below=2003)
    step = TrainingStep(make, {"input_ids": words, "labels": words}, letters={"b": 4, "s": 64})
    remedy = chunked_loss(A100)
    bench = Bench(A100, A100.allocator_bytes, 2, "")
    assert bench.run(step, (remedy,)).peak_bytes < bench.run(step).peak_bytes
