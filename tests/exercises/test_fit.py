"""The replies to a reader of chapter 7 about messages, recipes, logits and a leak."""

import pytest

from utils.exercises import fit
from utils.formulas.llama_counts import llama_parameter_count
from utils.models.llama import letters

CAUSES = {"A": "another process", "B": "fragmentation", "C": "one request", "D": "its own tensors"}
MASTERS = "bfloat16, masters and their gradients in float32"
BFLOAT16 = "all in bfloat16"
SMALL, LARGE = 8_030_261_248, 70_553_706_496
FULL = {"whole": 12, "half": 6, "chunks": 12}


def logits(each=FULL, at_most_all=True, name="chunks"):
    """The right function, or one that takes other bytes for each number or too many rows."""

    def logit_bytes(loss, T, V, rows):
        most = min(T, rows) if at_most_all else rows
        return each[loss] * V * (most if loss == name else T)

    return logit_bytes


DOWN, LEFT = "blocks.2.mlp.down", 2 * 2 * 512 * 1024


@pytest.mark.parametrize(
    ("exercise", "answer", "reply"),
    [
        (fit.read_message, None, "No answer yet"),
        (fit.read_message, dict.fromkeys("ABCD"), "No answer yet"),
        (fit.read_message, CAUSES, "Right: the numbers of a message give its cause away."),
        (
            fit.read_message,
            ["fragmentation"] * 4,
            "the answer must be a dict with a cause for each of A, B, C, D: got [",
        ),
        (fit.read_message, CAUSES | {"E": "one request"}, "a dict with a cause for each of A, B, C, D"),
        (fit.read_message, CAUSES | {"A": "a leak"}, "'a leak' is not one of fragmentation; another process; one r"),
        (fit.read_message, CAUSES | {"D": ["one request"]}, "['one request'] is not one of"),
        (
            fit.read_message,
            CAUSES | {"A": "fragmentation"},
            "A: not yet: only 0 bytes are reserved but unallocated, too",
        ),
        (fit.read_message, CAUSES | {"B": "another process"}, "B: not yet: the message names all but 560.00 MiB of"),
        (fit.read_message, CAUSES | {"D": "one request"}, "the run asked for 250.00 MiB, less than the capacity of 23"),
        (
            fit.read_message,
            CAUSES | {"A": "its own tensors"},
            "PyTorch has allocated only 8.79 GiB of 23.56 GiB. Where",
        ),
        (fit.bytes_per_parameter, None, "No answer yet"),
        (fit.bytes_per_parameter, (BFLOAT16, 20 * LARGE), "Right: 1,411,074,129,920 bytes"),
        (fit.bytes_per_parameter, (BFLOAT16, None), "No answer yet"),
        (fit.bytes_per_parameter, BFLOAT16, "the answer must be one of float32; float32, averages in bfloat16; bfloat"),
        (fit.bytes_per_parameter, ("float16", 3), "and a number of bytes: got ('float16', 3)."),
        (fit.bytes_per_parameter, ([], 3), "and a number of bytes: got ([], 3)."),
        (
            fit.bytes_per_parameter,
            ("float32", 20 * LARGE),
            "'float32' takes 16 bytes per parameter. For 8B that makes 1",
        ),
        (fit.bytes_per_parameter, (BFLOAT16, 20 * 70 * 10**9), "70B is only a name."),
        (fit.bytes_per_parameter, (BFLOAT16, 20 * SMALL), "That's the answer for 8B."),
        (fit.bytes_per_parameter, (BFLOAT16, 8 * LARGE), "That's 70B with everything in bfloat16."),
        (fit.bytes_per_parameter, (BFLOAT16, 16 * LARGE), "Not yet: 1,128,859,303,936 bytes"),
        (fit.bytes_per_parameter, (BFLOAT16, 16 * LARGE), "The masters have float32 gradients as well, in addition to"),
        (fit.bytes_per_parameter, (BFLOAT16, 18 * LARGE), "The bfloat16 gradients still exist when the"),
        (fit.bytes_per_parameter, (BFLOAT16, 20.0 * LARGE), "the number is right, but bytes are a whole number"),
        (fit.logit_bytes, logits(), "Right: your function agrees to the byte in all 12 settings."),
        (fit.logit_bytes, None, "No answer yet"),
        (fit.logit_bytes, 12, "pass your function itself: got 12."),
        (fit.logit_bytes, lambda loss, T, V, rows: None, "For loss=whole, T=256, V=1009, rows=64: no answer yet"),
        (fit.logit_bytes, lambda loss, T, V, rows: 1 / 0, "your function raised ZeroDivisionError"),
        (fit.logit_bytes, logits(FULL | {"whole": 10}), "That's the most in forward. Backward adds gradients."),
        (fit.logit_bytes, logits(FULL | {"whole": 4}), "That's what forward keeps."),
        (fit.logit_bytes, logits(FULL | {"whole": 2}), "That's only the logits, in bfloat16."),
        (fit.logit_bytes, logits(FULL | {"whole": 14}), "In backward the bfloat16 logits are gone"),
        (fit.logit_bytes, logits(FULL | {"whole": 6}), "Only the logits are in bfloat16. The loss is computed in"),
        (fit.logit_bytes, logits(FULL | {"half": 12}), "This loss is computed in bfloat16, like its"),
        (fit.logit_bytes, logits(FULL | {"half": 4}), "For loss=half, T=256, V=1009, rows=64: not yet: 1,033,216 byt"),
        (fit.logit_bytes, logits(FULL | {"half": 4}), "That's the most in forward."),
        (fit.logit_bytes, logits(name=""), "For loss=chunks, T=256, V=1009, rows=64: not yet"),
        (fit.logit_bytes, logits(name=""), "One chunk's logits are freed before the next chunk makes its own."),
        (fit.logit_bytes, logits(at_most_all=False), "For loss=chunks, T=48, V=1009, rows=64: not yet"),
        (fit.logit_bytes, logits(at_most_all=False), "A chunk can't have more rows than there are."),
        (fit.leak, None, "No answer yet"),
        (fit.leak, (DOWN, None), "No answer yet"),
        (fit.leak, (DOWN, LEFT), "Right: 2,097,152 bytes (2 MiB)."),
        (fit.leak, DOWN, "the answer must be a module's path, as in the ledger, and a number of bytes: got 'blocks"),
        (fit.leak, (2, LEFT), "the answer must be a module's path"),
        (fit.leak, ("", 4), "the outermost module leaves only its losses, 4 bytes a step."),
        (fit.leak, ("blocks.2.mlp", LEFT), "nothing that 'blocks.2.mlp' makes accumulates. Group the"),
        (fit.leak, (DOWN, 3 * LEFT), "There are 3 steps between the ledgers."),
        (fit.leak, (DOWN, 3 * LEFT + 12), "3 steps between the ledgers, and the losses belong to"),
        (fit.leak, (DOWN, LEFT + 4), "The loss is among these bytes, and b"),
        (fit.leak, (DOWN, 5 * LEFT), "That's what all the steps together have"),
        (fit.leak, (DOWN, 2 * LEFT), "Its numbers take 2 bytes each."),
        (fit.leak, (DOWN, True), "bytes are a whole number, an int: got True."),
    ],
)
def test_a_reply(exercise, answer, reply):
    assert reply in str(exercise(answer))


def test_the_messages_are_pytorchs_of_one_card():
    messages = fit.messages()
    assert list(messages) == list(CAUSES)
    for text in messages.values():
        assert text.startswith("CUDA out of memory. Tried to allocate ")
        assert "total capacity of 23.56 GiB" in text
        assert text.endswith("to avoid fragmentation.")


def test_each_cause_is_that_of_one_message_and_no_other():
    for name, cause in CAUSES.items():
        for other in set(fit.CAUSES) - {cause}:
            assert str(fit.read_message(CAUSES | {name: other})).startswith(f"{name}: not yet: ")


def test_the_parameters_are_those_of_the_published_models():
    counts = [llama_parameter_count().value(letters(f"llama-3-{size}")) for size in ("8b", "70b")]
    assert counts == [SMALL, LARGE]


def test_a_table_that_says_gb_means_gib():
    assert round(8 * SMALL / 2**30) == 60
    assert round(8 * SMALL / 10**9) == 64


def test_what_grows_is_in_the_ledgers_alone():
    early, late = fit.two_ledgers()
    grown = (late - early).by("module").groups
    assert {module: appeared - gone for (module,), (gone, appeared) in grown.items()} == {DOWN: 3 * LEFT, "": 12}
