"""Judges a reader's answer: right, or what is wrong with it, and roughly by how much, without giving it away."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from every_byte.units import exact


@dataclass(frozen=True, repr=False)
class Verdict:
    """What is said of an answer: a cell that ends in one shows its text, and it is true if the answer is right."""

    text: str
    is_right: bool = False

    def __bool__(self) -> bool:
        return self.is_right

    def __repr__(self) -> str:
        return self.text


NO_ANSWER = Verdict("No answer yet: replace None with yours and run the cell again.")


def right(text: str) -> Verdict:
    """The answer is right."""
    return Verdict(f"Right: {text}", is_right=True)


def not_yet(text: str) -> Verdict:
    """The answer is not right, and why."""
    return Verdict(f"Not yet: {text}")


def check(answer: object, truth: int, mistakes: Mapping[int, str] | None = None) -> Verdict:
    """Whether a count of bytes is right; if not, roughly how far off it is, and why if the mistake is a known one.

    `mistakes` maps wrong answers that a reader may plausibly give to a hint.
    """
    if answer is None:
        return NO_ANSWER
    if isinstance(answer, bool) or not isinstance(answer, int):
        return not_yet(_not_whole(answer, truth))
    if answer == truth:
        return right(f"{exact(truth)}.")
    hint = f" {mistakes[answer]}" if mistakes and answer in mistakes else ""
    return not_yet(f"{exact(answer)} is {_how_far(answer, truth)}.{hint}")


def _how_far(answer: int, truth: int) -> str:
    """Too many or too few, and roughly by what: never so exactly that the answer follows."""
    side = "too many" if answer > truth else "too few"
    times = answer / truth if truth > 0 else 0.0
    if abs(times - 1) < 0.1:
        return f"{side}, though close: within {'a hundredth' if abs(times - 1) < 0.01 else 'a tenth'}"
    if not 0.01 < times < 100:
        return f"far {side}"
    return f"{side}, about {float(f'{times:.2g}'):g} times the right answer"


def check_function(
    function: Callable[..., object],
    truth: Callable[..., int],
    settings: Sequence[Mapping[str, object]],
    mistakes: Mapping[str, Callable[..., int]] | None = None,
) -> Verdict:
    """Whether a function gives the right bytes for every setting; if not, for which one first, and roughly how far off.

    `mistakes` maps a hint to a function that makes the mistake: it is given where the answers agree with that one.
    """

    def judge(answer: object, **setting: Any) -> Verdict:
        known = {mistaken(**setting): hint for hint, mistaken in (mistakes or {}).items()}
        return check(answer, truth(**setting), known)

    wrong = first_wrong(function, settings, judge)
    return right(f"your function agrees to the byte in all {len(settings)} settings.") if wrong is None else wrong


def first_wrong(
    function: Callable[..., object], settings: Sequence[Mapping[str, object]], judge: Callable[..., Verdict]
) -> Verdict | None:
    """What is said of the first setting for which a reader's function is not right; None if it is for all.

    `judge(answer, **setting)` judges the answer for a setting. What the function raises is said, and is not right.
    """
    if (wrong := no_function(function)) is not None:
        return wrong
    for setting in settings:
        shown = ", ".join(f"{name}={_legible(value)}" for name, value in setting.items())
        try:
            answer = function(**setting)
        except Exception as error:
            return not_yet(f"for {shown} {raised(error)}")
        verdict = judge(answer, **setting)
        if not verdict:
            return of_part(f"For {shown}", verdict)
    return None


def of_part(part: str, verdict: Verdict) -> Verdict:
    """A wrong answer's verdict with the part that it is about before it: "For b=1: not yet: …"."""
    return Verdict(f"{part}: {verdict.text[0].lower()}{verdict.text[1:]}")


def no_function(answer: object) -> Verdict | None:
    """What is said where an answer is to be a function, and is none; None where it is one."""
    if callable(answer):
        return None
    return NO_ANSWER if answer is None else not_yet(f"pass your function itself: got {answer!r}.")


def no_names(answer: object, known: Collection[str] = ()) -> Verdict | None:
    """What is said where an answer is to be a list of names, and is none, or has one that is not known; else None."""
    if answer is None:
        return NO_ANSWER
    if (
        isinstance(answer, str)
        or not isinstance(answer, Collection)
        or not all(isinstance(name, str) for name in answer)
    ):
        return not_yet(f"the answer is a list of names: got {answer!r}.")
    if unknown := [name for name in answer if known and name not in known]:
        return not_yet(f"{unknown[0]!r} is none of {'; '.join(known)}.")
    return None


def raised(error: Exception, whose: str = "your function") -> str:
    """What is said of an exception: its name and the first line of its message."""
    return f"{whose} raised {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _legible(value: object) -> str:
    return f"{value:,d}" if type(value) is int and value >= 100_000 else str(value)


def _not_whole(answer: object, truth: int) -> str:
    if not isinstance(answer, float):
        return f"bytes are a whole number, an int: got {answer!r}."
    say = "the number is right, but bytes are a whole number" if answer == truth else "bytes are a whole number"
    return f"{say}, an int: got {answer!r}. Use // instead of / where nothing is left over."
