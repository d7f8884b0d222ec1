"""The exercise of chapter 7 that chains four numbers: how many tokens Llama 3 70B has room for on eight cards."""

from collections.abc import Mapping

from every_byte.formula.expressions import Expression
from every_byte.gpu.memory.specs import find_spec
from every_byte.units import exact
from utils.formulas.llama_block import llama_block_saved
from utils.formulas.llama_counts import BLOCK_WEIGHTS, llama_parameter_count
from utils.formulas.llama_settings import LlamaSettings
from utils.models.llama import letters as of_model

from .judge import NO_ANSWER, Verdict, check, not_yet, of_part, right

N_RANKS, STEP_TOKENS = 8, 1024
"""The cards, and of how many tokens its length is a multiple."""
PARTS = ("shares", "gathered", "a token", "tokens")


def seventy(answer: Mapping[str, int] | None) -> Verdict:
    """Exercise 6: four numbers of Llama 3 70B on eight cards, each needed for the last: a dict of PARTS."""
    if answer is None:
        return NO_ANSWER
    if not isinstance(answer, Mapping) or answer.keys() != set(PARTS):
        return not_yet(f"the answer is a dict of {', '.join(map(repr, PARTS))}: got {answer!r}.")
    for name, judge in zip(PARTS, (_shares, _gathered, _a_token), strict=False):
        if not (verdict := judge(answer[name])):
            return verdict if verdict is NO_ANSWER else of_part(name, verdict)
    verdict = _tokens(answer["tokens"])
    return verdict if verdict or verdict is NO_ANSWER else of_part("tokens", verdict)


LETTERS = of_model("llama-3-70b")
_ROOM_BYTES = find_spec("h100-80gb").allocator_bytes


def _value(text: str, letters: Mapping[str, int] = LETTERS) -> int:
    return Expression(text).value(letters)


_PARAMETERS, _ROOT, _BLOCK = llama_parameter_count().text, "2*V*d + d", f"{BLOCK_WEIGHTS} + 2*d"


def shares_bytes(letters: Mapping[str, int] = LETTERS) -> int:
    """What a rank has of weights, gradients and two averages, in bfloat16: eight divide the rows of all of them."""
    return 8 * _value(_PARAMETERS, letters) // N_RANKS


def gathered_bytes(letters: Mapping[str, int] = LETTERS) -> int:
    """What FSDP2 has gathered while a block's backward runs: what lies outside the blocks, that block, the next."""
    return 2 * _value(f"{_ROOT} + 2*({_BLOCK})", letters)


def token_bytes(letters: Mapping[str, int] = LETTERS) -> int:
    """What a token adds while one block runs again: each block's input, and all that the one keeps beside its own.

    Counts: not the rotary tables, which all blocks share.
    """
    terms = llama_block_saved(LlamaSettings(), n="1")
    one, two = (sum(term.size.value({**letters, "b": 1, "s": s}) for term in terms) for s in (1, 2))
    return _value("2*L*d - 2*d", letters) + two - one


def most_tokens(per_token: int, *other_bytes: int) -> int:
    """The longest multiple of STEP_TOKENS for which a card of 80 GB has the bytes."""
    return (_ROOM_BYTES - sum(other_bytes)) // per_token // STEP_TOKENS * STEP_TOKENS


def _shares(answer: object) -> Verdict:
    N = _value(_PARAMETERS)
    mistakes = {
        8 * N: "That is the whole; a rank has an eighth.",
        2 * N // N_RANKS: "Those are the weights alone.",
        4 * N // N_RANKS: "AdamW has two averages.",
        6 * N // N_RANKS: "Three of the four are there: weights, gradients, two averages.",
        16 * N // N_RANKS: "Everything is in bfloat16, 2 bytes a number.",
        12 * N // N_RANKS: "The averages have the weights' type.",
    }
    return check(answer, shares_bytes(), mistakes)


def _gathered(answer: object) -> Verdict:
    root, block, embedding = map(_value, (_ROOT, _BLOCK, "V*d"))
    mistakes = {
        2 * block: "What lies outside the blocks is gathered, too, and the next block already.",
        4 * block: "Embedding, last norm and head lie outside the blocks, and are gathered, too.",
        2 * (root + block): "The next block of backward is already on its way.",
        2 * (root + 3 * block): "That is forward's most, with the buffer of the block before.",
        4 * (root + block): "That is what the first block's forward finds.",
        gathered_bytes() // N_RANKS: "What is gathered is whole on each rank.",
        2 * _value(_PARAMETERS): "Blocks let their parameters go after forward.",
        2 * (root - LETTERS["d"] + 2 * block): "The last norm lies outside the blocks, too.",
        2 * (root - embedding + 2 * block): "Embedding and head are two tensors.",
    }
    return check(answer, gathered_bytes(), mistakes)


def _a_token(answer: object) -> Verdict:
    inputs, own = _value("2*L*d"), token_bytes() - _value("2*(L - 1)*d")
    mistakes = {
        inputs: "Those are the checkpoints' inputs; in backward one block is there with all that it keeps.",
        own: "That is one block; the others have their inputs.",
        inputs + own: "The block that runs again keeps its own input, which the checkpoint has: one storage.",
        LETTERS["L"] * own: "Each block is a checkpoint: one at a time is there with all that it keeps.",
        token_bytes() // N_RANKS: "Activations are a rank's own: nothing divides them.",
        token_bytes() - _value("4*a") - 8: "The statistics are missing: the kernel's, and two norms'.",
        token_bytes() - 8: "Each of two norms keeps a number.",
        token_bytes() - _value("4*a"): "The kernel keeps a number for each head.",
        token_bytes() + _value("4*d - 4*g*d/a"): "Keys and values have g heads.",
    }
    return check(answer, token_bytes(), mistakes)


def _tokens(answer: object) -> Verdict:
    if answer is None:
        return NO_ANSWER
    if isinstance(answer, bool) or not isinstance(answer, int) or answer % STEP_TOKENS:
        return not_yet(f"a number of tokens, a multiple of {STEP_TOKENS:,d}: got {answer!r}.")
    there = shares_bytes(), gathered_bytes()
    truth, chunk = most_tokens(token_bytes(), *there), _value(f"12*V*{STEP_TOKENS}")
    if answer == truth:
        left = _ROOM_BYTES - sum(there) - truth * token_bytes()
        return right(f"{truth:,d} tokens, and {exact(left)} are left for gradients on their way and workspaces.")
    mistakes = {
        most_tokens(token_bytes(), *there, chunk): "The loss's chunk is gone when a block's backward runs.",
        most_tokens(token_bytes(), *there, -find_spec("h100-80gb").context_bytes): "The CUDA context takes its part.",
        most_tokens(token_bytes(), shares_bytes()): "What is gathered takes room, too.",
    }
    needed_bytes = sum(there) + answer * token_bytes()
    room = f"{exact(needed_bytes)}, and there are {exact(_ROOM_BYTES)}"
    return not_yet(f"{answer:,d} tokens need {room}. {mistakes.get(answer, '')}".rstrip())
