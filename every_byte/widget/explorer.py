"""The kernel's half of an explorer: one widget that sets a formula's prediction beside an account of the same bytes.

The page evaluates the formula itself, at once. It asks for an account with a custom message {request, settings}; the
answer, a synced trait, carries the request's number and the settings that it is for. The page has one request under
way at most and asks again when the settings have moved on, so the newest setting wins. Where a choice judges, the
verdict is work of its own: the page asks for it when its setting rests, with {request, settings, judge: true}. With
{again: true} it asks for an answer that is of no setting, so that it has to ask for its own once more.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets
from ipywidgets import ValueWidget

from every_byte.failures import release, sentence

from .account import Account, Answer, Judge, check_verdicts, failed, judged, said_of
from .controls import Control
from .curves import Curve, captions_at, curves_by_choice
from .scripts import one_module
from .settings import judging, named, of_the_account
from .spec import evaluated, letters_of, make_spec, room
from .stages import (
    Limit,
    Stages,
    as_given,
    check_account,
    formulas_by_stage,
    limits_by_stage,
    no_prediction,
    reasons_beyond,
    terms_by_stage,
    word,
)
from .table import SettingTable

_NO_ANSWER = {"request": 0, "settings": None, **failed("")}


class _Setting(traitlets.TraitType[Any, Any]):
    """The trait of one control: `explorer.b` is `explorer.value["b"]`, and can be linked."""

    def __init__(self, control: Control) -> None:
        super().__init__(control.default)
        self.control = control

    def validate(self, obj: Any, value: Any) -> Any:
        try:
            return self.control.check(value)
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from None


def to_page(value: Mapping[str, Any], explorer: "Explorer") -> dict[str, int | str]:
    """A setting as a page writes it."""
    return {symbol: explorer.controls[symbol].to_page(setting) for symbol, setting in value.items()}


def from_page(data: Mapping[str, int | str], explorer: "Explorer") -> dict[str, Any]:
    """A setting that a page has written.

    Raises: ValueError for an item that its control refuses.
    """
    return {symbol: explorer.controls[symbol].from_page(item) for symbol, item in data.items()}


class Explorer(anywidget.AnyWidget, ValueWidget):  # type: ignore[misc]  # ipywidgets brings no types
    """Sliders, a formula evaluated in the page, and beside it what a GPU accounts for, term by term.

    `formula(settings)` gives the Formula for a setting, or its stages as {name: Formula}, the same for all settings; it
    is called once for each combination of the choices that are no letter. `measure(settings)` gives the Account; it may
    run on another thread than the cells, so it opens its own GPU, and whatever it raises becomes a sentence in the
    explorer.
    `parts=True` says that the stages are parts of one whole, such as the sub-layers of a block: they add up to a total.
    `limits`, {stage: Limit} or {stage: [Limit, …]}, says up to where a stage's formula predicts anything.
    `curves(settings)` gives the curves to draw, a list of Curve; it is called once for each combination of the choices
    in `curves_of` (of all that are no letter, unless given), with the settings of these alone.
    A choice that judges has no say in either: they are called without it, and the Account judges by it.
    `formula_of_each=True` says that there are too many combinations for that: `formula` is called with a whole setting,
    the page predicts what has an account, and its categories are those of a ledger.
    `capacity` says how many bytes there are, for a page without an account to say what cannot fit: a number, or the
    symbol of a choice and {option: bytes}.
    `value` is the whole setting; each control is a trait under its symbol as well. Both can be observed and linked.

    Counts: what the formula's terms count.
    Unit:   bytes, exact; below 2**53 each.
    Raises: ValueError for two controls of one symbol, or a symbol that a widget already uses, and for stages that are
            not the same for all settings; TraitError for a setting that a control refuses.
    """

    _esm = one_module()
    _css = Path(__file__).parent / "page" / "explorer.css"
    spec = traitlets.Dict().tag(sync=True)  # title, controls, and what spec.py and curves.py make
    value = traitlets.Dict().tag(sync=True, to_json=to_page, from_json=from_page)
    answer = traitlets.Dict().tag(sync=True)  # the last account, with the request and the settings that it is for
    description = traitlets.Unicode()  # `interact` looks for it

    def __init__(
        self,
        *,
        title: str,
        controls: Sequence[Control],
        formula: Callable[[dict[str, Any]], Stages],
        measure: Callable[[dict[str, Any]], Account],
        parts: bool = False,
        limits: Mapping[str, Limit | Sequence[Limit]] | None = None,
        curves: Callable[[dict[str, Any]], Sequence[Curve]] | None = None,
        curves_of: Sequence[str] | None = None,
        capacity: int | tuple[str, Mapping[str, int]] | None = None,
        formula_of_each: bool = False,
    ) -> None:
        self.controls = _by_symbol(controls)
        self.formula, self.measure = formula, measure
        self._newest_request = 0
        self._one_at_a_time = threading.Lock()
        self._judge: Judge | None = None  # of the account that `answer` is of
        self.add_traits(**{symbol: _Setting(control) for symbol, control in self.controls.items()})
        start = {symbol: control.default for symbol, control in self.controls.items()}
        self.limits = limits_by_stage(limits)
        spec = make_spec(title, self.controls, formula, parts, self.limits, formula_of_each)
        spec |= {
            "curves": curves_by_choice(curves, curves_of, self.controls),
            "capacity": room(capacity, self.controls, parts),
        }
        super().__init__(spec=spec, value=start, answer=_NO_ANSWER, description=title)
        self.observe(self._one_setting_changed, list(self.controls))
        self.on_msg(lambda _, content, __: self._heard(content))

    def predict(self, settings: Mapping[str, Any]) -> dict[str, int] | dict[str, dict[str, int]]:
        """The formula's bytes for a setting, by term, or {stage: {term: bytes}}: what the page shows as predicted.

        A stage beyond its limit is left out.

        Raises: ValueError for a size that is no whole number or negative at this setting.
        """
        letters = letters_of(self.controls, settings)
        formulas, beyond = formulas_by_stage(self._formula_at(settings)), self._beyond(settings)
        predicted = {s: formula.by_term(**letters) for s, formula in formulas.items() if s not in beyond}
        return as_given(predicted)

    def _formula_at(self, settings: Mapping[str, Any]) -> Stages:
        return self.formula(of_the_account(self.controls, settings))

    def _beyond(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """The stages beyond their limits, each with the reason."""
        return reasons_beyond(self.limits, letters_of(self.controls, settings), to_page(settings, self))

    def answer_at(self, settings: Mapping[str, Any]) -> Answer:
        """The account of a setting with all verdicts, or why there is none; the explorer stays where it is.

        Raises: ValueError for an item that its control refuses.
        """
        settings = {symbol: control.check(settings[symbol]) for symbol, control in self.controls.items()}
        with self._one_at_a_time:
            answer, judge = self._account(to_page(settings, self))
            choice = judging(self.controls)
            return self._judged(answer, judge, choice.values if choice else ())

    def table(self) -> SettingTable:
        """The present setting as a plain table: predicted, accounted, difference."""
        settings = to_page(self.value, self)
        answer = self._answer_now(settings)
        shown = named(self.controls, settings).items()
        title = f"{self.spec['title']}: {', '.join(f'{symbol} = {name}' for symbol, name in shown)}"
        formulas = formulas_by_stage(self._formula_at(self.value))
        letters = letters_of(self.controls, self.value)
        beyond = self._beyond(self.value)
        judge = judging(self.controls)
        remark = said_of(answer, judge, str(settings[judge.symbol]) if judge else "", *no_prediction(beyond))
        try:
            self.predict(self.value)
        except ValueError as error:
            remark = f"{remark} No prediction of this setting: {error}"
        with_terms = [side for side in (answer["beside"], answer) if side and side["terms"] is not None]
        accounts = {side["origin"]: terms_by_stage(side["terms"]) for side in with_terms}
        return SettingTable(title, formulas, letters, accounts, remark, self.spec["parts"], tuple(beyond))

    @traitlets.validate("value")
    def _whole_setting(self, proposal: traitlets.Bunch) -> dict[str, Any]:
        value = proposal["value"]
        if unknown := [symbol for symbol in value if symbol not in self.controls]:
            known = ", ".join(self.controls)
            raise traitlets.TraitError(f"value has no setting {unknown[0]!r}: its settings are {known}.")
        if missing := [symbol for symbol in self.controls if symbol not in value]:
            raise traitlets.TraitError(
                f"value must hold every setting: {', '.join(missing)} missing; to change one alone, assign to its own "
                f"name, such as explorer.{next(iter(value), missing[0])}."
            )
        try:
            return {symbol: control.check(value[symbol]) for symbol, control in self.controls.items()}
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from None

    @traitlets.observe("value")
    def _value_changed(self, change: traitlets.Bunch) -> None:
        for symbol, setting in change["new"].items():
            setattr(self, symbol, setting)

    def _one_setting_changed(self, change: traitlets.Bunch) -> None:
        self.value = self.value | {change["name"]: change["new"]}

    def _heard(self, content: dict[str, Any]) -> None:
        if content.get("again"):
            self.answer = self.answer | {"settings": None}
        else:
            self._serve(content["request"], content["settings"], content.get("judge", False))

    def _serve(self, request: int, settings_of_page: dict[str, Any], has_account: bool = False) -> None:
        """Answers one request, unless a newer one has come in while it waited or ran."""
        self._newest_request = max(self._newest_request, request)
        with self._one_at_a_time:
            if request < self._newest_request:
                return
            if has_account and self._is_answered(settings_of_page):
                answer, judge = self._judged_at(settings_of_page), self._judge
            else:
                answer, judge = self._account(settings_of_page)
            if request == self._newest_request:
                self._judge = judge
                self.answer = answer | {"request": request, "settings": settings_of_page}

    def _account(self, settings_of_page: dict[str, Any]) -> tuple[Answer, Judge | None]:
        """The answer without a number, and what judges its account."""
        try:
            account = self.measure(of_the_account(self.controls, from_page(settings_of_page, self)))
            if not isinstance(account, Account):
                raise TypeError(f"measure must return an Account: got {type(account).__name__}.")
            check_verdicts(account, judging(self.controls))
            for side in filter(None, (account, account.beside)):
                check_account(side.terms, self.spec["stages"], word(self.spec["parts"]))
        except Exception as error:  # whatever it is: the reader needs a sentence, the kernel has to live
            text = sentence(error)
            release(error)
            return failed(text), None
        return account.answer() | self._formula_for_page(settings_of_page), account.judge

    def _judged_at(self, settings_of_page: dict[str, Any]) -> Answer:
        """The present answer with the verdict for the chosen option."""
        choice = judging(self.controls)
        return self._judged(self.answer, self._judge, [settings_of_page[choice.symbol]] if choice else ())

    def _judged(self, answer: Answer, judge: Judge | None, options: Iterable[str]) -> Answer:
        choice = judging(self.controls)
        if judge is None or choice is None or answer["error"]:
            return answer
        try:
            return judged(answer, judge, choice, options)
        except Exception as error:
            text = sentence(error)
            release(error)
            return answer | failed(text)

    def _formula_for_page(self, settings_of_page: dict[str, Any]) -> Answer:
        """The formula of one setting, where the page has none; stages beyond their limits are left out."""
        if not self.spec.get("asked"):
            return {}
        settings = from_page(settings_of_page, self)
        beyond, stages = self._beyond(settings), formulas_by_stage(self._formula_at(settings))
        there = {stage: formula for stage, formula in stages.items() if stage not in beyond}
        return {"formula": evaluated(there, letters_of(self.controls, settings)) if there else []}

    def _answer_now(self, settings_of_page: dict[str, Any]) -> Answer:
        """The answer for a setting with its verdict, what is missing taken at once; it keeps the last one's number."""
        with self._one_at_a_time:
            if not self._is_answered(settings_of_page):
                answer, self._judge = self._account(settings_of_page)
                self.answer = {"request": self.answer["request"], "settings": settings_of_page, **answer}
            self.answer = self._judged_at(settings_of_page)
            return self.answer

    def _is_answered(self, settings_of_page: dict[str, Any]) -> bool:
        """Whether the last answer is of this setting, whatever option of a choice that judges."""
        answered = self.answer["settings"]
        if answered is None:
            return False
        return of_the_account(self.controls, answered) == of_the_account(self.controls, settings_of_page)

    def __repr__(self) -> str:
        shown = named(self.controls, to_page(self.value, self))
        settings = "".join(f", {symbol}={name!r}" for symbol, name in shown.items())
        return f"Explorer({self.spec['title']!r}{settings})"

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        captions = captions_at(self.spec["curves"], to_page(self.value, self))
        return data | {"text/html": self.table()._repr_html_() + captions}, metadata


def _by_symbol(controls: Sequence[Control]) -> dict[str, Control]:
    by_symbol: dict[str, Control] = {}
    for control in controls:
        if control.symbol in by_symbol or hasattr(Explorer, control.symbol):
            used = "by another control" if control.symbol in by_symbol else "by every widget"
            raise ValueError(f"controls need symbols of their own: {control.symbol!r} is already used {used}.")
        by_symbol[control.symbol] = control
    return by_symbol
