"""The terms of a derived formula: kinds of rows that a reader takes for one, added up, with a name."""

from collections.abc import Iterable, Mapping, Sequence

from every_byte.formula.formula import Formula, Term
from every_byte.palette import CATEGORIES, STATE, Category

from .forms import Form, plain
from .kernels import KernelForm
from .keys import Key
from .polynomials import Point, Polynomial

AS_ONE = STATE | {Category.INPUTS, Category.AUTOCAST_COPIES, Category.CUBLAS_WORKSPACE}
"""Categories that are one term each."""


def term_names(keys: Iterable[Key]) -> dict[Key, str]:
    """The name of the term that each kind of rows belongs to."""
    return {key: _name(key) for key in keys}


def _name(key: Key) -> str:
    if key.category in AS_ONE:
        return key.category
    where = f"{key.alike.module}: " if key.module else ""
    kept = _slots(key.kept_for)
    what = key.name if key.category == Category.ACTIVATIONS else f"{key.category}: {key.name}"
    if what.replace("_", "") == kept.partition(".")[0].lower():
        return f"{where}{kept}"  # an operation that keeps what it makes: its node has its name
    return f"{where}{what}{f' → {kept}' if kept else ''}"


def _slots(kept_for: Iterable[str]) -> str:
    """Slots by their nodes: "Addmm.mat1, Attention.key/query/value"."""
    slots: dict[str, dict[str, None]] = {}
    for one in kept_for:
        node, _, slot = one.partition(".")
        slots.setdefault(node.replace("Backward0", ""), {})[slot] = None
    return ", ".join(f"{node}.{'/'.join(names)}" for node, names in slots.items())


def formula_of(title: str, forms: Mapping[Key, Form | KernelForm], point: Point) -> Formula:
    """A formula whose terms are these forms, those of one name added up; the book's categories in their order.

    What a kernel takes for itself by its grid stands as the number that it is at this point.
    """
    plain_forms = {key: _as_form(form, point) for key, form in forms.items()}
    names = term_names(plain_forms)
    groups: dict[str, list[Key]] = {}
    for key in plain_forms:
        groups.setdefault(names[key], []).append(key)
    order = list(CATEGORIES)
    in_order = sorted(groups, key=lambda name: _rank(groups[name][0].category, order))
    terms = (_term(name, [plain_forms[key] for key in groups[name]], groups[name]) for name in in_order)
    return Formula(title, tuple(terms))


def _as_form(form: Form | KernelForm, point: Point) -> Form:
    if isinstance(form, Form):
        return form
    return plain(Polynomial.of({(0,) * len(point): form.at(point)}), ("",) * len(point))


def _rank(category: str, order: list[str]) -> int:
    return order.index(category) if category in order else len(order)


def _term(name: str, forms: Sequence[Form], keys: Sequence[Key]) -> Term:
    total = sum(forms[1:], forms[0])
    sizes = {key.dtype.itemsize if key.dtype is not None else 1 for key in keys}
    each = sizes.pop() if len(sizes) == 1 else 1
    return Term(name, total.divided(each).text, each, why=keys[0].category)
