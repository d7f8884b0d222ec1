"""The stages of one setting, phases of a step or parts of a whole; what has none is one stage without a name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from every_byte.formula.expressions import Expression
from every_byte.formula.formula import Formula

from .controls import Control, When
from .settings import check_when, is_meant

UNNAMED = ""
Item = TypeVar("Item")
Stages: TypeAlias = Formula | Mapping[str, Formula]
Terms: TypeAlias = Mapping[str, int] | Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Limit:
    """Up to where the formula of a stage holds: as long as `room`, written as in Expression, is 0 or more.

    `reason` ends the sentence that says so. With `when`, {symbol: [names of options]}, it is a limit of these alone.
    """

    room: str
    reason: str
    when: When = field(default_factory=dict)

    def holds(self, letters: Mapping[str, int], names: Mapping[str, Any]) -> bool:
        """Whether the formula holds for these letters and names of options."""
        if not is_meant(self.when, names):
            return True
        try:
            Expression(self.room).value(letters)
        except ValueError:
            return False
        return True

    def spec(self) -> dict[str, Any]:
        """What a page needs to decide it: `size` is none where the formula does not hold."""
        room = Expression(self.room)
        when = {symbol: list(options) for symbol, options in self.when.items()}
        return {"when": when, "letters": list(room.letters), "size": room.tree(), "reason": self.reason}


Limits: TypeAlias = Mapping[str, Sequence[Limit]]


def limits_by_stage(limits: Mapping[str, Limit | Sequence[Limit]] | None) -> Limits:
    """Each stage's limits in a tuple, also where one was given without."""
    return {stage: (given,) if isinstance(given, Limit) else tuple(given) for stage, given in (limits or {}).items()}


def reasons_beyond(limits: Limits, letters: Mapping[str, int], names: Mapping[str, Any]) -> dict[str, str]:
    """The stages whose formula does not hold, each with the reason of the first of its limits that says so."""
    broken = {stage: [limit for limit in of if not limit.holds(letters, names)] for stage, of in limits.items()}
    return {stage: of_stage[0].reason for stage, of_stage in broken.items() if of_stage}


def no_prediction(reasons: Mapping[str, str]) -> list[str]:
    """A sentence for each reason, with all its stages."""
    stages: dict[str, list[str]] = {}
    for stage, reason in reasons.items():
        stages.setdefault(reason, []).append(stage)
    return [f"No prediction of {', '.join(names)}: {reason}" for reason, names in stages.items()]


def check_limits(
    limits: Limits, stages: Sequence[str], letters: Sequence[str], controls: Mapping[str, Control]
) -> None:
    """Raises ValueError for a limit of a stage that there is not, with a letter that no control gives, or with `when`
    for an option that no control has."""
    for stage, limit in ((stage, limit) for stage, of_stage in limits.items() for limit in of_stage):
        if stage not in stages or stage == UNNAMED:
            raise ValueError(f"limits must name stages of the formula: got {stage!r}; there are {', '.join(stages)}.")
        if missing := [letter for letter in Expression(limit.room).letters if letter not in letters]:
            raise ValueError(
                f"each letter of a limit needs a control: got {missing[0]!r} in {limit.room!r}, but the controls give "
                f"{', '.join(letters)}."
            )
        check_when("a limit", limit.when, controls)


def word(parts: bool) -> str:
    """What one of them is called: a stage follows the one before it, a part lies beside the others."""
    return "part" if parts else "stage"


def formulas_by_stage(stages: Stages) -> dict[str, Formula]:
    """What `formula(settings)` returned, by stage. Raises ValueError for what is neither a Formula nor stages."""
    if isinstance(stages, Formula):
        return {UNNAMED: stages}
    if not isinstance(stages, Mapping) or not stages:
        raise ValueError(f"formula must return a Formula, or stages as {{name: Formula}}: got {stages!r}.")
    for name, formula in stages.items():
        if not (isinstance(name, str) and name.strip() and isinstance(formula, Formula)):
            raise ValueError(f"a stage needs a name and a Formula: got {{{name!r}: {type(formula).__name__}}}.")
    return dict(stages)


def terms_by_stage(terms: Terms) -> dict[str, Mapping[str, int]]:
    """An account's terms by stage. Raises TypeError for terms that stand beside stages."""
    stages = {name: item for name, item in terms.items() if isinstance(item, Mapping)}
    without = {name: item for name, item in terms.items() if not isinstance(item, Mapping)}
    if not stages:
        return {UNNAMED: without}
    if without:
        name, item = next(iter(without.items()))
        raise TypeError(f"terms must be all in stages or none: got terms[{name!r}]={item!r} next to stages.")
    return stages


def as_given(stages: dict[str, Item]) -> Item | dict[str, Item]:
    """The reverse: the content of the one stage without a name, or all stages by name."""
    return stages[UNNAMED] if UNNAMED in stages else stages


def check_same_stages(first: Sequence[str], names: Sequence[str], setting: str, word: str) -> None:
    """Raises ValueError, for this setting, if its stages are not the first setting's, or if there are parts of none."""
    if UNNAMED in first and word == "part":
        raise ValueError("parts=True needs a formula in parts, as {name: Formula}: got one Formula; leave parts out.")
    if list(first) != list(names):
        raise ValueError(
            f"formula must give the same {word}s for every setting, in the same order: "
            f"got {_listed(names, word)} for {setting}, but {_listed(first, word)} before; "
            f"a {word} that has nothing in this setting is Formula(title, ())."
        )


def check_account(terms: Terms, names: Sequence[str], word: str) -> None:
    """Raises ValueError if an account's stages are not those of the formula; their order is free."""
    stages = list(terms_by_stage(terms))
    if set(stages) == set(names):
        return
    shape = "{term: bytes}" if UNNAMED in names else f"{{{word}: {{term: bytes}}}}"
    raise ValueError(
        f"measure must return an Account of the formula's {word}s: got {_listed(stages, word)}, but the formula has "
        f"{_listed(names, word)}; pass Account({shape}) with all of them."
    )


def _listed(names: Sequence[str], word: str) -> str:
    return f"no {word}s" if UNNAMED in names else f"the {word}s {', '.join(names)}"
