"""The kernel's half of an explorer: one widget that sets a formula's prediction beside an account of the same bytes.

The page evaluates the formula itself, at once. It asks for an account with a custom message {request, settings}; the
answer, a synced trait, carries the request's number and the settings that it is for. The page has one request under
way at most and asks again when the settings have moved on, so the newest setting wins.
"""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import anywidget
import traitlets
from ipywidgets import ValueWidget

from ..formulas import Formula
from ..palette import assign
from .account import Account, release, sentence
from .controls import Control, combinations
from .curves import Curve, captions_at, curves_by_choice
from .scripts import one_module
from .stages import UNNAMED, as_given, check_account, check_same_stages, formulas_by_stage, terms_by_stage, word
from .table import SettingTable

_NO_ANSWER = {"request": 0, "settings": None, "terms": None, "origin": "", "badge": "", "error": ""}


class _Setting(traitlets.TraitType):
    """The trait of one control: `explorer.b` is `explorer.value["b"]`, and can be linked."""

    def __init__(self, control: Control):
        super().__init__(control.default)
        self.control = control

    def validate(self, obj, value):
        try:
            return self.control.check(value)
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from None


def _to_page(value: dict, explorer: "Explorer") -> dict:
    return {symbol: explorer.controls[symbol].to_page(setting) for symbol, setting in value.items()}


def _from_page(data: dict, explorer: "Explorer") -> dict:
    return {symbol: explorer.controls[symbol].from_page(item) for symbol, item in data.items()}


class Explorer(anywidget.AnyWidget, ValueWidget):
    """Sliders, a formula evaluated in the page, and beside it what a GPU accounts for, term by term.

    `formula(settings)` gives the Formula for a setting, or its stages as {name: Formula}, the same for all settings; it
    is called once for each combination of the choices that are no letter. `measure(settings)` gives the Account; it may
    run on another thread than the cells, so it opens its own GPU, and whatever it raises becomes a sentence in the
    explorer.
    `parts=True` says that the stages are parts of one whole, such as the sub-layers of a block: they add up to a total.
    `curves(settings)` gives the curves to draw, a list of Curve; it is called once for each combination of the choices
    in `curves_of` (of all that are no letter, unless given), with the settings of these alone.
    `value` is the whole setting; each control is a trait under its symbol as well. Both can be observed and linked.

    Counts: what the formula's terms count.
    Unit:   bytes, exact; below 2**53 each.
    Raises: ValueError for two controls of one symbol, or a symbol that a widget already uses, and for stages that are
            not the same for all settings; TraitError for a setting that a control refuses.
    """

    _esm = one_module()
    _css = Path(__file__).parent / "explorer.css"
    spec = traitlets.Dict().tag(sync=True)  # title, controls, stages, parts, terms, formulas, curves, colours
    value = traitlets.Dict().tag(sync=True, to_json=_to_page, from_json=_from_page)
    answer = traitlets.Dict().tag(sync=True)  # the last account, with the request and the settings that it is for
    description = traitlets.Unicode()  # `interact` looks for it

    def __init__(
        self,
        *,
        title: str,
        controls: Sequence[Control],
        formula: Callable[[dict], Formula | dict[str, Formula]],
        measure: Callable[[dict], Account],
        parts: bool = False,
        curves: Callable[[dict], list[Curve]] | None = None,
        curves_of: Sequence[str] | None = None,
    ):
        self.controls = _by_symbol(controls)
        self.formula = formula
        self.measure = measure
        self._newest_request = 0
        self._one_at_a_time = threading.Lock()
        self.add_traits(**{symbol: _Setting(control) for symbol, control in self.controls.items()})
        start = {symbol: control.default for symbol, control in self.controls.items()}
        spec = self._spec(title, start, parts) | {"curves": curves_by_choice(curves, curves_of, self.controls)}
        super().__init__(spec=spec, value=start, answer=_NO_ANSWER, description=title)
        self.observe(self._one_setting_changed, list(self.controls))
        self.on_msg(lambda _, content, __: self._serve(content["request"], content["settings"]))

    def predict(self, settings: dict) -> dict[str, int] | dict[str, dict[str, int]]:
        """The formula's bytes for a setting, by term, or {stage: {term: bytes}}: what the page shows as predicted.

        Raises: ValueError for a size that is no whole number or negative at this setting.
        """
        letters = self._letters(settings)
        formulas = formulas_by_stage(self.formula(settings))
        return as_given({stage: formula.by_term(**letters) for stage, formula in formulas.items()})

    def table(self) -> SettingTable:
        """The present setting as a plain table: predicted, accounted, difference."""
        settings = _to_page(self.value, self)
        answer = self._answer_now(settings)
        title = f"{self.spec['title']}: {', '.join(f'{symbol} = {name}' for symbol, name in settings.items())}"
        formulas = formulas_by_stage(self.formula(self.value))
        said = answer["error"] or answer["badge"]
        try:
            self.predict(self.value)
        except ValueError as error:
            said = f"{said} No prediction of this setting: {error}"
        accounted = None if answer["terms"] is None else terms_by_stage(answer["terms"])
        return SettingTable(title, formulas, self._letters(self.value), accounted, said, self.spec["parts"])

    def _letters(self, settings: dict) -> dict[str, int]:
        letters = {}
        for symbol, control in self.controls.items():
            letters |= control.letters(settings[symbol])
        return letters

    def _check_letters(self, start: dict, terms: list[dict]) -> None:
        given = self._letters(start)
        for term in terms:
            if missing := [letter for letter in term["letters"] if letter not in given]:
                raise ValueError(
                    f"each letter of a formula needs a control: got {missing[0]!r} in {term['name']!r}, but the "
                    f"controls give {', '.join(given)}; add Control.range({missing[0]!r}, …)."
                )

    def _spec(self, title: str, start: dict, parts: bool) -> dict:
        formulas, stages, places = [], None, {}  # places: of each term in the list that all formulas share
        for chosen in combinations(list(self.controls.values())):
            when = _to_page(chosen, self)
            found = formulas_by_stage(self.formula(start | chosen))
            stages = stages or list(found)
            setting = ", ".join(f"{symbol}={name}" for symbol, name in when.items())
            check_same_stages(stages, list(found), setting, word(parts))
            terms = [term for item in found.items() for term in _terms(*item)]
            self._check_letters(start, terms)
            formulas.append({"when": when, "terms": [places.setdefault(json.dumps(t), len(places)) for t in terms]})
        terms = [json.loads(term) for term in places]
        colours = assign(term["name"] for term in terms)
        return {
            "title": title,
            "controls": [control.spec() for control in self.controls.values()],
            "stages": stages,
            "parts": parts,
            "terms": terms,
            "formulas": formulas,
            "colours": {name: colour._asdict() for name, colour in colours.items()},
        }

    @traitlets.validate("value")
    def _whole_setting(self, proposal) -> dict:
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
    def _value_changed(self, change) -> None:
        for symbol, setting in change["new"].items():
            setattr(self, symbol, setting)

    def _one_setting_changed(self, change) -> None:
        self.value = self.value | {change["name"]: change["new"]}

    def _serve(self, request: int, settings_of_page: dict) -> None:
        """Answers one request, unless a newer one has come in while it waited or ran."""
        self._newest_request = max(self._newest_request, request)
        with self._one_at_a_time:
            if request < self._newest_request:
                return
            answer = {"request": request, "settings": settings_of_page, **self._account(settings_of_page)}
            if request == self._newest_request:
                self.answer = answer

    def _account(self, settings_of_page: dict) -> dict:
        try:
            account = self.measure(_from_page(settings_of_page, self))
            if not isinstance(account, Account):
                raise TypeError(f"measure must return an Account: got {type(account).__name__}.")
            check_account(account.terms, self.spec["stages"], word(self.spec["parts"]))
        except Exception as error:  # whatever it is: the reader needs a sentence, the kernel has to live
            text = sentence(error)
            release(error)
            return {"terms": None, "origin": "", "badge": "", "error": text}
        return {"terms": dict(account.terms), "origin": account.origin, "badge": account.badge, "error": ""}

    def _answer_now(self, settings_of_page: dict) -> dict:
        """The answer for a setting, taken at once if the last one is of another; it keeps the last one's number."""
        with self._one_at_a_time:
            if self.answer["settings"] != settings_of_page:
                request = self.answer["request"]
                self.answer = {"request": request, "settings": settings_of_page, **self._account(settings_of_page)}
            return self.answer

    def __repr__(self) -> str:
        settings = "".join(f", {symbol}={name!r}" for symbol, name in _to_page(self.value, self).items())
        return f"Explorer({self.spec['title']!r}{settings})"

    def _repr_mimebundle_(self, **kwargs):
        data, metadata = super()._repr_mimebundle_(**kwargs)
        captions = captions_at(self.spec["curves"], _to_page(self.value, self))
        return data | {"text/html": self.table()._repr_html_() + captions}, metadata


def _terms(stage: str, formula: Formula) -> list[dict]:
    return [term if stage == UNNAMED else {"stage": stage, **term} for term in formula.javascript()]


def _by_symbol(controls: Sequence[Control]) -> dict[str, Control]:
    by_symbol = {}
    for control in controls:
        if control.symbol in by_symbol or hasattr(Explorer, control.symbol):
            used = "by another control" if control.symbol in by_symbol else "by every widget"
            raise ValueError(f"controls need symbols of their own: {control.symbol!r} is already used {used}.")
        by_symbol[control.symbol] = control
    return by_symbol
