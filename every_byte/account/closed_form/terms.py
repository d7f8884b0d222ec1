"""The terms of a derived formula: kinds of rows that a reader takes for one, added up, with a name and what they are for."""

from collections.abc import Iterable, Mapping, Sequence

from every_byte.formula.expressions import Expression
from every_byte.formula.formula import Formula, Term
from every_byte.palette import CATEGORIES, STATE

from .forms import Form
from .keys import Key

AS_ONE = STATE | {"inputs", "autocast copies", "cuBLAS workspace"}
"""Categories that are one term each."""


def term_names(keys: Iterable[Key]) -> dict[Key, str]:
    """The name of the term that each kind of rows belongs to."""
    return {key: _name(key) for key in keys}


def _name(key: Key) -> str:
    if key.category in AS_ONE:
        return key.category
    where = f"{key.alike.module}: " if key.module else ""
    kept = ", ".join(dict.fromkeys(slot.replace("Backward0", "") for slot in key.kept_for))
    what = key.name if key.category == "activations" else f"{key.category}: {key.name}"
    return f"{where}{what}{f' → {kept}' if kept else ''}"


def formula_of(title: str, letters: Sequence[str], forms: Mapping[Key, Form]) -> Formula:
    """A formula whose terms are these forms, those of one name and type added up; the book's categories in order."""
    names = term_names(forms)
    groups: dict[str, list[Key]] = {}
    for key in forms:
        groups.setdefault(names[key], []).append(key)
    order = list(CATEGORIES)
    in_order = sorted(groups, key=lambda name: _rank(groups[name][0].category, order))
    return Formula(title, tuple(_term(name, [forms[key] for key in groups[name]], groups[name]) for name in in_order))


def _rank(category: str, order: list[str]) -> int:
    return order.index(category) if category in order else len(order)


def _term(name: str, forms: Sequence[Form], keys: Sequence[Key]) -> Term:
    total = sum(forms[1:], forms[0])
    sizes = {key.dtype.itemsize if key.dtype is not None else 1 for key in keys}
    each = sizes.pop() if len(sizes) == 1 else 1
    elements = total.divided(each)
    if each == 1 or not elements.is_whole:
        return Term(name, _written(total), 1, why=keys[0].category)
    return Term(name, _written(elements), each, why=keys[0].category)


def _written(form: Form) -> str:
    return Expression(form.text).text
