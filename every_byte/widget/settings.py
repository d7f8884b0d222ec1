"""Whole settings of an explorer, an item of each control: which there are, and which controls have a say in one."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .controls import ChoiceControl, Control, When


def combinations(controls: Sequence[Control]) -> Iterator[dict[str, Any]]:
    """Every combination of the options of those controls that select a formula, as {symbol: value}."""
    choosing = {control.symbol: options for control in controls if (options := control.options) is not None}
    for chosen in itertools.product(*choosing.values()):
        yield dict(zip(choosing, chosen, strict=True))


def is_meant(when: When, names: Mapping[str, Any]) -> bool:
    """Whether a setting, as a page writes it, has for each symbol of `when` one of the options named there."""
    return all(names[symbol] in options for symbol, options in when.items())


def in_effect(controls: Mapping[str, Control], names: Mapping[str, Any]) -> dict[str, Any]:
    """A setting as a page writes it, with the controls that have no effect on the account there where they start."""
    start = {symbol: control.to_page(control.default) for symbol, control in controls.items()}
    idle = {symbol for symbol, control in controls.items() if control.judges or not is_meant(control.when, names)}
    return {symbol: start[symbol] if symbol in idle else name for symbol, name in names.items()}


def of_the_account(controls: Mapping[str, Control], setting: Mapping[str, Any]) -> dict[str, Any]:
    """A setting without the choice that judges: all that an account and a prediction may depend on."""
    return {symbol: item for symbol, item in setting.items() if not controls[symbol].judges}


def judging(controls: Mapping[str, Control]) -> ChoiceControl | None:
    """The choice of which the verdict alone depends, if there is one."""
    return next((c for c in controls.values() if isinstance(c, ChoiceControl) and c.judges), None)


def named(controls: Mapping[str, Control], names: Mapping[str, Any]) -> dict[str, Any]:
    """A setting as a page writes it, without what a page hides there, and without the first option of what judges."""
    hidden = {symbol for symbol, control in controls.items() if control.hides and not is_meant(control.when, names)}
    judge = judging(controls)
    if judge is not None and names[judge.symbol] == next(iter(judge.values)):
        hidden.add(judge.symbol)
    return {symbol: name for symbol, name in names.items() if symbol not in hidden}


def check_when(whose: str, when: When, controls: Mapping[str, Control]) -> None:
    """Raises ValueError for a `when` that names an option which no control has."""
    for symbol, names in when.items():
        options = list(getattr(controls.get(symbol), "values", ()))
        if unknown := [name for name in names if name not in options]:
            known = ", ".join(options) or "there are none"
            raise ValueError(f"when of {whose} must name options of {symbol!r}: got {unknown[0]!r}; {known}.")
