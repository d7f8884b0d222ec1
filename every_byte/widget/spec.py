"""What a page gets of an explorer once: its controls, and its formulas as plain lists, one for each set of choices."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from every_byte.formula.formula import Formula, PageTerm, Term
from every_byte.palette import CATEGORIES, assign

from .controls import Control
from .settings import check_when, combinations, of_the_account
from .stages import UNNAMED, Limits, Stages, check_limits, check_same_stages, formulas_by_stage, word

TermKey: TypeAlias = tuple[str, str, str, str]  # its stage and its content


class StageTerm(PageTerm):
    """A term as a page has it, with the stage that it is of."""

    stage: str


def letters_of(controls: Mapping[str, Control], settings: Mapping[str, Any]) -> dict[str, int]:
    """The letters of the formula at a setting."""
    letters: dict[str, int] = {}
    for symbol, control in controls.items():
        letters |= control.letters(settings[symbol])
    return letters


def make_spec(
    title: str,
    controls: dict[str, Control],
    formula: Callable[[dict[str, Any]], Stages],
    parts: bool,
    limits: Limits,
    formula_of_each: bool = False,
) -> dict[str, Any]:
    """The spec, as formula.js describes it, but for the curves; without formulas if each setting has one of its own.

    Raises: ValueError as `Explorer` does.
    """
    start = {symbol: control.default for symbol, control in controls.items()}
    formulas = _Formulas(controls, letters_of(controls, start), word(parts))
    fixed = of_the_account(controls, start)
    which: list[int] = []
    if formula_of_each:
        formulas.stages, names = list(formulas_by_stage(formula(fixed))), list(CATEGORIES)
    else:
        which += [formulas.place(formula(fixed | chosen), chosen) for chosen in combinations(list(controls.values()))]
        names = [name for _, name, *_ in formulas.terms]
    check_limits(limits, formulas.stages, list(formulas.letters), controls)
    for symbol, control in controls.items():
        check_when(repr(symbol), control.when, controls)
    return {
        "title": title,
        "controls": [control.spec() for control in controls.values()],
        "stages": formulas.stages,
        "parts": parts,
        "limits": {stage: [limit.spec() for limit in of_stage] for stage, of_stage in limits.items()},
        "terms": list(formulas.terms.values()),
        "formulas": formulas.formulas,
        "which": which,
        "colours": {name: colour._asdict() for name, colour in assign(names).items()},
    } | ({"asked": True} if formula_of_each else {})


def evaluated(stages: Stages, letters: Mapping[str, int]) -> list[StageTerm]:
    """The terms of one setting's formula as an answer has them: each with its bytes, which need no letters any more.

    Raises: ValueError for a size that is no whole number or negative.
    """
    return [
        {"stage": stage, "name": term.name, "why": term.why, "text": str(term.size), "letters": [],
         "size": term.size.value(letters)}
        for stage, formula in formulas_by_stage(stages).items()
        for term in formula.terms
    ]  # fmt: skip


def room(
    capacity: int | tuple[str, Mapping[str, int]] | None, controls: Mapping[str, Control], parts: bool
) -> dict[str, Any] | None:
    """How many bytes there are, as {symbol, bytes: {option: bytes}}; without a symbol `bytes` is a number.

    Raises: ValueError unless each option of the choice has its bytes, and for parts, none of which is all there is.
    """
    if parts and capacity is not None:
        raise ValueError("capacity is for stages, one after the other: got parts=True; leave capacity out.")
    if capacity is None or isinstance(capacity, int):
        return {"symbol": None, "bytes": capacity} if capacity else None
    symbol, n_bytes = capacity
    options = list(getattr(controls.get(symbol), "enabled", ()))
    if options != list(n_bytes):
        raise ValueError(
            f"capacity must give bytes to each option of a choice, in order: got {list(n_bytes)} for {symbol!r}, whose "
            f"options are {options}."
        )
    return {"symbol": symbol, "bytes": dict(n_bytes)}


class _Formulas:
    """The formulas of all settings, each once; and their terms, which they share."""

    def __init__(self, controls: Mapping[str, Control], letters: dict[str, int], word: str) -> None:
        self.controls, self.letters, self.word = controls, letters, word
        self.stages: list[str] = []
        self.terms: dict[TermKey, PageTerm] = {}
        self.formulas: list[list[int]] = []  # of each the places of its terms
        self._known: dict[tuple[tuple[str, Formula], ...], int] = {}
        self._places: dict[TermKey, int] = {}

    def place(self, returned: Stages, chosen: dict[str, Any]) -> int:
        """The place of this formula among all; it takes the next one, if it is new."""
        stages = formulas_by_stage(returned)
        key = tuple(stages.items())
        if key not in self._known:
            self._known[key] = len(self.formulas)
            self.formulas.append(self._add(stages, chosen))
        return self._known[key]

    def _add(self, stages: dict[str, Formula], chosen: dict[str, Any]) -> list[int]:
        self.stages = self.stages or list(stages)
        setting = ", ".join(f"{symbol}={self.controls[symbol].to_page(option)}" for symbol, option in chosen.items())
        check_same_stages(self.stages, list(stages), setting, self.word)
        places = []
        for stage, formula in stages.items():
            for term in formula.terms:
                key = (stage, term.name, term.why, term.size.text)
                if key not in self.terms:
                    self.terms[key] = self._term(stage, term)
                    self._places[key] = len(self._places)
                places.append(self._places[key])
        return places

    def _term(self, stage: str, term: Term) -> PageTerm:
        if missing := [letter for letter in term.size.letters if letter not in self.letters]:
            raise ValueError(
                f"each letter of a formula needs a control: got {missing[0]!r} in {term.name!r}, but the "
                f"controls give {', '.join(self.letters)}; add Control.range({missing[0]!r}, …)."
            )
        [described] = Formula("", (term,)).for_a_page()
        of_stage: StageTerm = {"stage": stage, **described}
        return described if stage == UNNAMED else of_stage
