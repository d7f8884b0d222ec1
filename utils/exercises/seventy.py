"""Exercise 6 of chapter 7, four numbers in a chain: what eight cards leave for the tokens of Llama 3 70B."""

from collections.abc import Mapping

from every_byte.formula.expressions import Expression
from every_byte.gpu.memory.specs import find_spec
from every_byte.units import exact
from utils.formulas.llama_counts import BLOCK_WEIGHTS, llama_parameter_count
from utils.models.llama import letters as of_model

from .judge import NO_ANSWER, Verdict, check, not_yet, of_part, right

N_RANKS = 8
PARTS = ("shares", "gathered", "gradients", "left")


def seventy(answer: Mapping[str, int] | None) -> Verdict:
    """Exercise 6: four numbers of Llama 3 70B on eight cards, each needed for the last: a dict of PARTS."""
    if answer is None:
        return NO_ANSWER
    if not isinstance(answer, Mapping) or answer.keys() != set(PARTS):
        return not_yet(f"the answer must be a dict of {', '.join(map(repr, PARTS))}: got {answer!r}.")
    for name, judge in zip(PARTS, (_shares, _gathered, _gradients, _left), strict=True):
        if not (verdict := judge(answer[name])):
            return verdict if verdict is NO_ANSWER else of_part(name, verdict)
    return right(f"{exact(left_bytes())} are left for activations, logits and workspaces.")


LETTERS = of_model("llama-3-70b")
CARD = find_spec("h100-80gb")


def _value(text: str, letters: Mapping[str, int] = LETTERS) -> int:
    return Expression(text).value(letters)


_PARAMETERS, _ROOT, _BLOCK = llama_parameter_count().text, "2*V*d + d", f"{BLOCK_WEIGHTS} + 2*d"


def shares_bytes(letters: Mapping[str, int] = LETTERS) -> int:
    """What a rank has of weights and two averages, in bfloat16: eight divides the rows of each of them."""
    return 6 * _value(_PARAMETERS, letters) // N_RANKS


def gathered_bytes(letters: Mapping[str, int] = LETTERS) -> int:
    """What FSDP2 has gathered while a block's backward runs: what is outside the blocks, that block, the next."""
    return 2 * _value(f"{_ROOT} + 2*({_BLOCK})", letters)


def gradients_bytes(letters: Mapping[str, int] = LETTERS) -> int:
    """The gradients where the last block but one of backward has all its own.

    Counts: shards of the L - 2 that are done; whole, those of the block, of the one before, in the buffer that goes to
            the other ranks, and of head and last norm, which wait for the embedding's.
    """
    whole = _value(f"V*d + d + 2*({_BLOCK})", letters)
    return 2 * whole + 2 * _value(f"(L - 2)*({_BLOCK})", letters) // N_RANKS


def left_bytes(letters: Mapping[str, int] = LETTERS) -> int:
    """What is left of a card for everything else; the CUDA context takes its part."""
    return CARD.allocator_bytes - shares_bytes(letters) - gathered_bytes(letters) - gradients_bytes(letters)


def _shares(answer: object) -> Verdict:
    N = _value(_PARAMETERS)
    mistakes = {
        6 * N: "That's everything. A rank has an eighth of it.",
        2 * N // N_RANKS: "That's only the weights.",
        4 * N // N_RANKS: "AdamW has two averages.",
        8 * N // N_RANKS: "Gradients belong to the third number.",
        12 * N // N_RANKS: "Everything is in bfloat16, 2 bytes per number.",
        10 * N // N_RANKS: "The averages have the weights' type.",
    }
    return check(answer, shares_bytes(), mistakes)


def _gathered(answer: object) -> Verdict:
    root, block, embedding = map(_value, (_ROOT, _BLOCK, "V*d"))
    mistakes = {
        2 * block: "What is outside the blocks is gathered, too, and so is the next block.",
        4 * block: "Embedding, last norm and head are outside the blocks, and are gathered, too.",
        2 * (root + block): "Backward's next block is already on its way.",
        2 * (root + 3 * block): "That's the most in forward, with the buffer of the block before.",
        4 * (root + block): "That's what is gathered when the first block's forward begins.",
        gathered_bytes() // N_RANKS: "What is gathered is whole on every rank.",
        2 * _value(_PARAMETERS): "Blocks release their parameters after forward.",
        2 * (root - LETTERS["d"] + 2 * block): "The last norm is outside the blocks, too.",
        2 * (root - embedding + 2 * block): "Embedding and head are separate tensors.",
    }
    return check(answer, gathered_bytes(), mistakes)


def _gradients(answer: object) -> Verdict:
    block, outside, embedding = 2 * _value(_BLOCK), 2 * _value("V*d + d"), 2 * _value("V*d")
    truth = gradients_bytes()
    mistakes = {
        2
        * _value(_PARAMETERS)
        // N_RANKS: "That's a shard of every gradient. Some are still whole here, and some don't exist yet.",
        truth - block: "The gradients of the block before are whole, in a buffer on its way to the other ranks.",
        truth - 2 * block: "The block's own gradients are whole, and so are those of the block before, in a buffer.",
        truth - outside: "Head and last norm keep whole gradients until the embedding has its own.",
        truth
        - outside
        + outside // N_RANKS: "The gradients of head and last norm stay whole until the embedding has its own.",
        truth
        - block
        + block // N_RANKS: "Two blocks have whole gradients, this one and the one before, in its buffer.",
        truth + embedding: "The embedding has no gradient yet.",
        truth + block // N_RANKS: "Of L blocks one has no gradients yet, and one has no shards, so L - 2 have shards.",
        truth
        + 2 * block // N_RANKS: "Of L blocks one has no gradients yet, and one has no shards, so L - 2 have shards.",
        truth - 2 * LETTERS["d"]: "The last norm has a gradient, too.",
    }
    return check(answer, truth, mistakes)


def _left(answer: object) -> Verdict:
    mistakes = {
        left_bytes() + CARD.context_bytes: "The CUDA context takes room, too.",
        left_bytes() + gathered_bytes(): "What is gathered takes room, too.",
        left_bytes() + gradients_bytes(): "The gradients take room, too.",
    }
    return check(answer, left_bytes(), mistakes)
