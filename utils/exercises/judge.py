"""Judges a reader's answer: right, or what is wrong with it and by how much."""

from collections.abc import Callable, Mapping, Sequence

from ..formulas import Formula
from ..units import exact


def check(answer: object, truth: int, mistakes: Mapping[int, str] | None = None) -> None:
    """Print whether a count of bytes is right; if not, by how much it is off, and why if the mistake is a known one.

    `mistakes` maps wrong answers that a reader may plausibly give to a hint.
    """
    print(_verdict(answer, truth, mistakes or {}))


def check_function(
    function: Callable[..., object],
    truth: Callable[..., int],
    settings: Sequence[Mapping[str, object]],
    mistakes: Mapping[str, Callable[..., int]] | None = None,
) -> None:
    """Print whether a function gives the right bytes for every setting; if not, for which one first, and by how much.

    `mistakes` maps a hint to a function that makes the mistake: it is given where the answers agree with that one.
    """
    for setting in settings:
        shown = ", ".join(f"{name}={value}" for name, value in setting.items())
        try:
            answer = function(**setting)
        except Exception as error:
            print(f"Not yet: for {shown} your function raised {type(error).__name__}: {error}")
            return
        known = {wrong(**setting): hint for hint, wrong in (mistakes or {}).items()}
        verdict = _verdict(answer, truth(**setting), known)
        if not verdict.startswith("Right"):
            print(f"For {shown}: {verdict[0].lower()}{verdict[1:]}")
            return
    print(f"Right: your function agrees to the byte in all {len(settings)} settings.")


def check_formula(formula: Formula, run: Callable[..., Sequence], settings: Sequence[Mapping[str, int]]) -> None:
    """Print whether a formula's terms are what `run` keeps, term by term; if not, the first that is not.

    `run` gives the rows of `SavedTensorContext.rows` for a setting.
    """
    if not formula.terms:
        print("No terms yet: write one for each storage and run the cell again.")
        return
    for setting in settings:
        shown = ", ".join(f"{name}={value}" for name, value in setting.items())
        try:
            comparison = formula.compare(run(**setting), **setting)
        except ValueError as error:
            print(f"Not yet: for {shown}: {error}")
            return
        for name, predicted, accounted in comparison.rows:
            if predicted != accounted:
                print(f"For {shown}, term {name!r}: {_verdict(predicted, accounted, {})}")
                return
    print(f"Right: all {len(formula.terms)} terms agree to the byte in all {len(settings)} settings.")


def _verdict(answer: object, truth: int, mistakes: Mapping[int, str]) -> str:
    if answer is None:
        return "No answer yet: put yours in place of None and run the cell again."
    if isinstance(answer, bool) or not isinstance(answer, int):
        right = isinstance(answer, float) and answer == truth
        say = "the number is right, but bytes are whole numbers" if right else "bytes are whole numbers"
        return f"Not yet: {say}, an int: got {answer!r}. Use // instead of / where nothing is left over."
    if answer == truth:
        return f"Right: {exact(truth)}."
    side = "too many" if answer > truth else "too few"
    times = answer / truth if truth else 0
    ratio = f", {times:.4g} times the right answer" if 0.01 < times < 100 else ""
    hint = f" {mistakes[answer]}" if answer in mistakes else ""
    return f"Not yet: {exact(answer)} is {exact(abs(answer - truth))} {side}{ratio}.{hint}"
