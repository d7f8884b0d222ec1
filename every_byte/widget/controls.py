"""The settings of an explorer: what each may be, and which letter of a formula it stands for."""

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

When: TypeAlias = Mapping[str, Sequence[str]]
Letters: TypeAlias = Mapping[str, int | Mapping[str, int]]


class Control(ABC):
    """One setting of an explorer. Made by `Control.range`, `Control.choice` and `Control.toggle`.

    Each control knows its `symbol` (a key of the explorer's `value`, and a trait of its own), `label`, `default`, and
    - `check(value)`: the value, made canonical; ValueError when it may not be set;
    - `to_page(value)`, `from_page(data)`: the value as JSON and back;
    - `letters(value)`: what it stands for in a formula, as {letter: number};
    - `options`: the values that select a formula and may be set, or None if it selects none;
    - `spec()`: all that a page needs to draw it and to read its letters, as JSON;
    - `when`: {symbol of a choice: [names of options]} where the control has an effect, `{}` for always.
      Elsewhere a page disables it, or hides it if it `hides`, and its value does not tell settings apart;
    - `judges`: whether the verdict alone depends on it. An account has a verdict for each of its options, and is of the
      first one else: its value does not tell settings apart either.
    """

    symbol: str
    label: str
    default: Any
    when: When
    hides: bool = False
    judges: bool = False

    @property
    @abstractmethod
    def options(self) -> Sequence[Any] | None: ...
    @abstractmethod
    def check(self, value: Any) -> Any: ...
    @abstractmethod
    def to_page(self, value: Any) -> int | str: ...
    @abstractmethod
    def from_page(self, data: Any) -> Any: ...
    @abstractmethod
    def letters(self, value: Any) -> dict[str, int]: ...
    @abstractmethod
    def spec(self) -> dict[str, Any]: ...

    @staticmethod
    def range(
        symbol: str,
        label: str,
        minimum: int,
        maximum: int,
        *,
        value: int,
        step: int = 1,
        log: bool = False,
        unit: str = "",
        when: When | None = None,
    ) -> "RangeControl":
        """A slider over whole numbers, with a field for exact entry; its symbol is a letter of the formula.

        `log=True`: the slider stops at powers of two; the field takes any number between.
        """
        return RangeControl(symbol, label, minimum, maximum, value, step, log, unit, when or {})

    @staticmethod
    def choice(
        symbol: str,
        label: str,
        options: Iterable[Any] | Mapping[str, Any],
        *,
        value: Any = None,
        letter: str | None = None,
        letters: Letters | None = None,
        selects: bool | None = None,
        when: When | None = None,
        disabled: Mapping[str, str] | None = None,
        live: Mapping[str, str] | None = None,
        judges: bool = False,
    ) -> "ChoiceControl":
        """One of several options: a list of names, or {name: value}. `value` is the first option unless given.

        Without `letter` and `letters` the choice selects a formula. With `letter="e", letters={name: number}` it is a
        letter of it, and with `letters={name: {letter: number}}` several of them; with `selects=True` it does both.
        `disabled` options, {name: reason}, are there and may not be set; they have no number. `live` ones, {name: the
        GPU's}, are measured on this machine: a page does so when the sliders rest. One that `judges` is of the verdict
        alone: it selects nothing and is no letter.
        """
        values = dict(options) if isinstance(options, Mapping) else {str(option): option for option in options}
        default = next(iter(values.values()), None) if value is None else value
        numbers = _by_option(symbol, letter, letters)
        selects = numbers is None and not judges if selects is None else selects
        return ChoiceControl(
            symbol, label, values, default, numbers, selects,
            when=when or {}, disabled=disabled or {}, live=live or {}, judges=judges,
        )  # fmt: skip

    @staticmethod
    def toggle(
        symbol: str,
        label: str,
        *,
        value: bool = False,
        selects: bool = True,
        when: When | None = None,
        hides: bool = False,
    ) -> "ChoiceControl":
        """Off or on: a checkbox that selects a formula, unless it says otherwise."""
        values = {"off": False, "on": True}
        return ChoiceControl(symbol, label, values, value, selects=selects, kind="toggle", when=when or {}, hides=hides)


def _by_option(symbol: str, letter: str | None, letters: Mapping[str, Any] | None) -> dict[str, dict[str, int]] | None:
    """{option: {letter: number}} from either way to write it; None for a choice that is no letter."""
    if letter is None and not letters:
        return None
    if not letters or all(isinstance(numbers, Mapping) for numbers in letters.values()) == (letter is not None):
        raise ValueError(f"letter and letters go together: got letter={letter!r}, letters={letters!r} for {symbol!r}.")
    if letter is None:
        return {name: dict(numbers) for name, numbers in letters.items()}
    return {name: {letter: number} for name, number in letters.items()}


@dataclass(frozen=True)
class RangeControl(Control):
    """A whole number from `minimum` to `maximum`, in steps counted from `minimum`."""

    symbol: str
    label: str
    minimum: int
    maximum: int
    default: int
    step: int = 1
    log: bool = False
    unit: str = ""
    when: When = field(default_factory=dict)
    options = None

    def __post_init__(self) -> None:
        if not 1 <= self.step <= self.maximum - self.minimum:
            raise ValueError(
                f"step must be from 1 to maximum - minimum: got step={self.step} for {self.symbol!r} "
                f"from {self.minimum} to {self.maximum}."
            )
        if self.log and self.minimum < 1:
            raise ValueError(f"a log scale starts at 1 or above: got minimum={self.minimum} for {self.symbol!r}.")
        self.check(self.default)

    def check(self, value: Any) -> int:
        """The value as int. Raises ValueError outside the range or between steps, and names the nearest that fits."""
        try:
            if isinstance(value, bool):
                raise TypeError
            number = operator.index(value)
        except TypeError:
            raise ValueError(f"{self._rule()}: got {self.symbol}={value!r}; try {self.default}.") from None
        inside = min(max(number, self.minimum), self.maximum)
        nearest = self.minimum + (inside - self.minimum + self.step // 2) // self.step * self.step
        nearest = nearest if nearest <= self.maximum else nearest - self.step
        if nearest != number:
            raise ValueError(f"{self._rule()}: got {self.symbol}={number}; nearest: {nearest}.")
        return number

    def _rule(self) -> str:
        rule = f"{self.symbol} ({self.label}) must be a whole number from {self.minimum} to {self.maximum}"
        return rule if self.step == 1 else f"{rule} in steps of {self.step}"

    def stops(self) -> list[int] | None:
        """Where a log slider stops: both ends and the powers of two between that can be set; None if not log."""
        if not self.log:
            return None
        powers = [2**k for k in range(self.maximum.bit_length())]
        inner = [p for p in powers if self.minimum < p < self.maximum and (p - self.minimum) % self.step == 0]
        last = self.maximum - (self.maximum - self.minimum) % self.step
        return [self.minimum, *inner, last]

    def to_page(self, value: int) -> int:
        """The number itself."""
        return value

    def from_page(self, data: Any) -> int:
        """The number that a page sent, checked."""
        return self.check(data)

    def letters(self, value: int) -> dict[str, int]:
        """The symbol is the letter."""
        return {self.symbol: value}

    def spec(self) -> dict[str, Any]:
        """What a page needs to draw the slider."""
        return {
            "kind": "range", "symbol": self.symbol, "label": self.label, "unit": self.unit,
            "minimum": self.minimum, "maximum": self.maximum, "step": self.step, "stops": self.stops(),
            "when": _as_lists(self.when),
        }  # fmt: skip


@dataclass(frozen=True)
class ChoiceControl(Control):
    """One of several named values; a page sees the names only, so a value may be any Python object."""

    symbol: str
    label: str
    values: dict[str, Any]
    default: Any
    numbers: dict[str, dict[str, int]] | None = None
    selects: bool = True
    kind: str = "choice"
    when: When = field(default_factory=dict)
    disabled: Mapping[str, str] = field(default_factory=dict)
    live: Mapping[str, str] = field(default_factory=dict)
    hides: bool = False
    judges: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(f"options must hold at least one option: got none for {self.symbol!r}.")
        for name in (*self.disabled, *self.live):
            if name not in self.values:
                raise ValueError(
                    f"disabled and live must name options of {self.symbol!r}: got {name!r}; {', '.join(self.values)}."
                )
        if self.numbers is not None and list(self.numbers) != self.enabled:
            raise ValueError(
                f"letters must give a number to each option, in order: got {list(self.numbers)} for {self.symbol!r}, "
                f"whose options are {self.enabled}."
            )
        if self.numbers is not None and len({tuple(numbers) for numbers in self.numbers.values()}) != 1:
            raise ValueError(f"letters must give each option the same letters, in order: got {self.numbers}.")
        if self.judges and (self.selects or self.numbers is not None or self.disabled):
            raise ValueError(
                f"a choice that judges is of the verdict alone: got {self.symbol!r}, which selects a formula, is a "
                "letter or has disabled options; leave these out."
            )
        self.check(self.default)

    @property
    def enabled(self) -> list[str]:
        """The names of the options that may be set."""
        return [name for name in self.values if name not in self.disabled]

    @property
    def options(self) -> Sequence[Any] | None:
        """The values that select a formula and may be set; None for a choice that selects none."""
        return [self.values[name] for name in self.enabled] if self.selects else None

    def check(self, value: Any) -> Any:
        """The option equal to the value. Raises ValueError with the options if there is none, or why it may not be."""
        return self.from_page(self.to_page(value))

    def to_page(self, value: Any) -> str:
        """The option's name. `True` is not taken for `1`, nor `False` for `0.0`."""
        for name, option in self.values.items():
            if option == value and isinstance(option, bool) == isinstance(value, bool):
                return name
        known = ", ".join(repr(option) for option in self.values.values())
        raise ValueError(f"{self.symbol} ({self.label}) must be one of {known}: got {self.symbol}={value!r}.")

    def from_page(self, data: Any) -> Any:
        """The value of the option that a page named."""
        if data not in self.values:
            known = ", ".join(self.values)
            raise ValueError(f"{self.symbol} ({self.label}) must be one of {known}: got {data!r}.")
        if data in self.disabled:
            raise ValueError(f"{self.symbol} ({self.label}) may not be {data!r} here: {self.disabled[data]}")
        return self.values[data]

    def letters(self, value: Any) -> dict[str, int]:
        """The option's number for each letter of the choice; nothing for one that is no letter."""
        return {} if self.numbers is None else self.numbers[self.to_page(value)]

    def spec(self) -> dict[str, Any]:
        """What a page needs to draw the choice and to read its letters."""
        return {
            "kind": self.kind, "symbol": self.symbol, "label": self.label, "options": list(self.values),
            "numbers": self.numbers, "selects": self.selects, "when": _as_lists(self.when), "hides": self.hides,
            "disabled": dict(self.disabled), "live": dict(self.live), "judges": self.judges,
        }  # fmt: skip


def _as_lists(when: When) -> dict[str, list[str]]:
    return {symbol: list(names) for symbol, names in when.items()}
