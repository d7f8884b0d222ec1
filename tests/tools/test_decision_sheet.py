"""The decision sheet says what the formulas say now, explains its letters, and has lines that can be typed."""

import ast
import re
from pathlib import Path

import pytest
import torch

from every_byte.formula.expressions import Expression
from every_byte.formula.formula import Formula
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.remedies.eight_bit import AdamW8bit
from tools.decision_sheet import KEPT, LETTERS, MODEL, PAGE, REMEDIES, SYMPTOMS, letters, page
from utils.formulas.decoder_backward import decoder_in_embedding, decoder_in_step
from utils.formulas.decoder_forward import decoder_after_forward, decoder_in_loss_backward
from utils.formulas.llama_block import llama_block_saved
from utils.formulas.llama_settings import LlamaSettings
from utils.models.adapters import with_adapters
from utils.models.llama import Llama

BY_NAME = {name: (before, after) for name, _, before, after, *_ in REMEDIES}


def test_it_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tools/decision_sheet.py"


def test_every_letter_is_explained_and_has_a_number():
    used = {letter for sizes in BY_NAME.values() for text in sizes for letter in Expression(text).letters}
    assert used | set(Expression(KEPT).letters) <= set(LETTERS) == set(letters())
    assert all(f"<b>{letter}</b> " in page() for letter in LETTERS)


def test_it_asks_for_nothing_from_elsewhere():
    assert not re.search(r"(src|href|url|@import)\b", page())


@pytest.mark.parametrize("code", [row[1] for row in (*SYMPTOMS, *REMEDIES)])
def test_what_is_to_be_typed_is_python(code):
    assert ast.parse(code.replace(": ...", ": pass")) is not None


def test_what_is_to_be_typed_is_pytorchs():
    calls = re.findall(r"torch\.(?:cuda|optim)[\w.]*", " ".join(row[1] for row in (*SYMPTOMS, *REMEDIES)))
    assert len(calls) > 8
    for call in calls:
        thing = torch
        for name in call.split(".")[1:]:
            thing = getattr(thing, name)


def value(text: str) -> int:
    return Expression(text).value(letters())


def saved(name: str) -> int:
    before, after = BY_NAME[name]
    return value(before) - value(after)


def held(form, **settings) -> int:
    return form(LlamaSettings(**settings)).bytes(**letters())


@pytest.mark.parametrize(
    ("name", "form", "without"),
    [
        ("gradients go before forward", decoder_after_forward, {"holds_gradients": True}),
        ("no name for logits", decoder_in_loss_backward, {"holds_logits": True}),
        ("fused step", decoder_in_step, {"optimizer": "AdamW, foreach"}),
    ],
)
def test_what_a_remedy_saves_is_the_difference_of_two_closed_forms(name, form, without):
    counts = 4 * (9 * letters()["L"] + 3) if "optimizer" in without else 0  # the fused optimizer's, of its steps
    assert saved(name) == held(form, **without) - held(form) + counts


def test_a_checkpoint_leaves_each_blocks_input_and_one_block():
    freed = held(decoder_after_forward) - held(decoder_after_forward, is_checkpointed=True)
    one = value("K - 2*b*s*d")  # the block that runs again, beside its input
    assert saved("checkpoint of each block") == freed - one


def test_what_the_loss_takes_is_what_the_step_has_with_it():
    with_loss = decoder_in_loss_backward(LlamaSettings()).by_term(**letters())
    taken = with_loss["loss: log-probabilities"] + with_loss["gradients on their way"] - 4  # the loss's own gradient
    assert value(BY_NAME["chunked loss"][0]) == taken


def state_bytes(optimizer: type) -> int:
    """What an optimizer keeps for a Llama of one block, all of whose widths are those of the sheet."""
    with SimulatedGPU("h200-141gb") as gpu:
        model = Llama.from_name(MODEL, n_layers=1, device=gpu.device, dtype=torch.bfloat16)
        updates = optimizer(model.parameters())
        for parameter in model.parameters():
            parameter.grad = torch.empty_like(parameter)
        updates.step()
    kept = [value for state in updates.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    return sum(tensor.nbytes for tensor in kept if tensor.dim())  # not the counts of steps


@pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")  # Adafactor reads a norm
@pytest.mark.parametrize(
    ("name", "optimizer"), [("8-bit averages", AdamW8bit), ("factored averages", torch.optim.Adafactor)]
)
def test_what_an_optimizer_keeps_is_what_it_keeps(name, optimizer):
    one = letters() | {"L": 1}
    one["N"] = sum(p.numel() for p in Llama.from_name(MODEL, n_layers=1, device="meta").parameters())
    assert Expression(BY_NAME[name][1]).value(one) == state_bytes(optimizer)


def test_adapters_have_eight_bytes_a_number():
    model = with_adapters(Llama.from_name(MODEL, device="meta"), letters()["r"])
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert value(BY_NAME["adapters (LoRA)"][1]) == 8 * trained


def terms(form, **settings) -> dict[str, int]:
    return form(LlamaSettings(**settings)).by_term(**letters())


def kept_by_blocks(**settings) -> dict[str, int]:
    return Formula("kept", tuple(llama_block_saved(LlamaSettings(**settings)))).by_term(**letters())


def test_what_blocks_keep_is_what_evaluation_and_an_offload_let_go():
    kept = sum(kept_by_blocks().values())
    assert saved("no graph in evaluation") == saved("activations to the host") == kept


def test_flash_keeps_a_number_for_a_row_where_explicit_attention_keeps_the_weights():
    explicit, flash = (kept_by_blocks(attention=kind) for kind in ("explicit", "flash"))
    before, after = BY_NAME["flash attention"]
    assert value(before) == explicit["attention: weights"]
    assert value(after) == flash["attention: logsumexp"]


def test_a_chunk_has_three_numbers_for_each_of_its_logits():
    found = terms(decoder_in_loss_backward, loss="chunks, recomputed")
    behind = 2 * (letters()["s"] - letters()["c"]) * letters()["d"] + 4  # the other chunks' gradients of h, and a count
    taken = found["loss: log-probabilities"] + found["gradients on their way"] - behind
    assert value(BY_NAME["chunked loss"][1]) == taken


def test_half_of_the_tokens_keep_half():
    """But for the state of dropout's random numbers, 24 bytes a block whatever its tokens."""
    half = letters() | {"s": letters()["s"] // 2}
    half["K"] = Expression(KEPT).value(half)
    before, after = BY_NAME["micro-batches"]
    gradients = 2 * letters()["N"]  # of the micro-batch before
    assert Expression(before).value(half) + gradients == value(after) + 12 * letters()["L"]


def test_weights_gradients_and_averages_have_16_bytes_a_parameter_or_8():
    counts = 4 * (9 * letters()["L"] + 3)
    of_state = ("parameters", "gradients", "optimizer state")
    found = [
        sum(terms(decoder_in_step, precision=precision)[name] for name in of_state) - counts
        for precision in ("float32", "bfloat16")
    ]
    assert found == [value(text) for text in BY_NAME["bfloat16 weights, state"]]
    assert found[1] == value(BY_NAME["shards on n GPUs (FSDP2)"][0])


def test_a_step_in_backward_leaves_the_embeddings_gradient():
    found = [terms(decoder_in_embedding, steps_in_backward=is_on)["gradients"] for is_on in (False, True)]
    assert found == [value(text) for text in BY_NAME["step in backward"]]


def test_what_goes_to_the_host_are_averages_and_gradients():
    counts = 4 * (9 * letters()["L"] + 3)
    here = terms(decoder_in_step)
    assert here["optimizer state"] + here["gradients"] - counts == saved("averages and gradients to the host")
    assert "optimizer state" not in terms(decoder_in_step, offload="optimizer, gradients")


def test_each_parameter_has_rows_for_every_rank():
    """So that no shard is filled up, and n of them are the whole."""
    n, sizes = letters()["n"], Llama.from_name(MODEL, device="meta").parameters()
    shards = [2 * parameter.numel() // n for parameter in sizes if parameter.shape[0] % n == 0]
    assert len(shards) == 9 * letters()["L"] + 3
    assert value(BY_NAME["shards on n GPUs (FSDP2)"][1]) == 4 * sum(shards)


def test_every_row_is_held():
    here = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in BY_NAME if f'"{name}"' not in here] == []
