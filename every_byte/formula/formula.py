"""What a formula is: named terms, each with a size and the tensors that it speaks of; compared with what was found."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypedDict

from every_byte.tables import ShownAsTable, Table
from every_byte.units import exact

from .expressions import Expression, Tree, in_order
from .notation import latex, plain

if TYPE_CHECKING:
    from sympy import Expr


class KeptSlot(Protocol):
    """What keeps a storage, as a Selector reads it: a row of `SavedTensorContext.rows`, or a slot of a ledger's row.

    Unit: bytes: `storage_bytes` is the whole storage.
    """

    @property
    def module(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def slot(self) -> str: ...
    @property
    def nth(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...] | None: ...
    @property
    def storage_bytes(self) -> int: ...
    @property
    def storage(self) -> int: ...


class PageTerm(TypedDict):
    """A term as a page shows and evaluates it: `size` is its bytes, by `Expression.tree`."""

    name: str
    why: str
    text: str
    letters: list[str]
    size: Tree


@dataclass(frozen=True)
class Selector:
    """Saved tensors by module path, autograd node and slot; each is a name or a pattern (`Addmm*`, `mat1`, `*`).

    Of a ledger's rows it also speaks by module path, category and name.

    `nth` tells nodes of one name in one module apart: the first is 1. Without it, all are meant.
    """

    module: str = "*"
    node: str = "*"
    slot: str = "*"
    nth: int | None = field(default=None, repr=False)

    def matches(self, row: KeptSlot) -> bool:
        """Whether it speaks of this row of `SavedTensorContext.rows`, or slot of a ledger."""
        pairs = (self.module, row.module), (self.node, row.node), (self.slot, row.slot)
        is_meant = self.nth is None or self.nth == row.nth
        return is_meant and all(name == pattern or fnmatchcase(name, pattern) for pattern, name in pairs)


@dataclass(frozen=True)
class Term:
    """One kept storage of a formula: `elements` elements of `element_bytes` bytes, both written as in Expression.

    `why` says in a few words what backward needs it for; `selectors` name the slots that may keep it.

    Raises: ValueError for a size that is no expression.
    """

    name: str
    elements: str
    element_bytes: int | str
    selectors: tuple[Selector, ...] = ()
    why: str = ""
    size: Expression = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        elements, each = Expression(self.elements), Expression(self.element_bytes)
        whole = elements.text if each.text == "1" else f"({elements.text})*({each.text})"
        object.__setattr__(self, "size", Expression(whole))

    @property
    def sizes(self) -> tuple[str, str]:
        """Elements, and bytes of each, as a person writes them."""
        return str(Expression(self.elements)), str(Expression(self.element_bytes))


TermRow: TypeAlias = tuple[str, str, int | str, tuple[Selector, ...], str]
"""What a Term is made of, in a table: `Term(*row)`."""


@dataclass(frozen=True, repr=False)
class Comparison(ShownAsTable):
    """For each term its name, the bytes that a formula predicts and the bytes that were accounted.

    `is_exact` says whether they agree term by term, which the sums alone do not.
    """

    title: str
    rows: tuple[tuple[str, int, int], ...]

    @property
    def predicted_bytes(self) -> int:
        """All terms as predicted."""
        return sum(predicted for _, predicted, _ in self.rows)

    @property
    def accounted_bytes(self) -> int:
        """All terms as accounted."""
        return sum(accounted for _, _, accounted in self.rows)

    @property
    def is_exact(self) -> bool:
        """Whether every term is met to the byte."""
        return all(predicted == accounted for _, predicted, accounted in self.rows)

    def _table(self) -> Table:
        rows = [*self.rows, ("total", self.predicted_bytes, self.accounted_bytes)]
        cells = [[name, exact(p), exact(a), exact(a - p)] for name, p, a in rows]
        return Table(self.title, ["term", "predicted", "accounted", "difference"], cells, numbers=3)


@dataclass(frozen=True, repr=False)
class Formula(ShownAsTable):
    """A sum of terms with a title: exact integers, mathematics, a page's numbers and a table from one definition.

    Letters that a formula does not have are ignored, so that one set of letters serves several.

    Unit:   bytes that were requested; no allocator rounding but where a term says `blocks(...)`.
    Raises: ValueError for two terms of one name.
    """

    title: str
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        names = [term.name for term in self.terms]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"terms must have names of their own: got {twice[0]!r} twice in {self.title!r}.")

    @property
    def letters(self) -> tuple[str, ...]:
        """The letters that need a value, in the book's order."""
        return tuple(in_order(letter for term in self.terms for letter in term.size.letters))

    def bytes(self, **letters: int) -> int:
        """The whole, exactly. Raises: ValueError, as `by_term`."""
        return sum(self.by_term(**letters).values())

    def by_term(self, **letters: int) -> dict[str, int]:
        """The bytes of each term, exactly, in order.

        Raises: ValueError for a letter without a value, for a value that is no whole number or negative, and for a
                size that comes out so.
        """
        for letter in self.letters:
            if letter not in letters:
                needed = ", ".join(self.letters)
                raise ValueError(f"{letter} has no value: {self.title!r} needs {needed}; pass {letter}= as well.")
            value = letters[letter]
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"{letter} must be a whole number, 0 or more: got {letter}={value!r}.")
        return {term.name: term.size.value(letters) for term in self.terms}

    @property
    def expression(self) -> "Expr":
        """The whole as a sympy expression in the letters."""
        import sympy

        return sympy.expand(sum((term.size.sympy() for term in self.terms), sympy.Integer(0)))

    def latex(self, **letters: int) -> str:
        """The whole as LaTeX, expanded; a letter that is given is put in: `latex(e=2)`."""
        values = {symbol: letters[symbol.name] for symbol in self.expression.free_symbols if symbol.name in letters}
        return latex(self.expression.subs(values))

    @property
    def text(self) -> str:
        """The whole in plain text, multiplied out: "18·b·s·d + 4·a·b·s"."""
        return plain(self.expression)

    def for_a_page(self) -> list[PageTerm]:
        """Each term with its size as an expression that a page evaluates."""
        return [
            {
                "name": term.name,
                "why": term.why,
                "text": str(term.size),
                "letters": list(term.size.letters),
                "size": term.size.tree(),
            }
            for term in self.terms
        ]

    def account(self, rows: Iterable[KeptSlot]) -> dict[str, int]:
        """What was really kept, under the names of the terms: bytes of the storages each term selects.

        Counts: each storage once, by any of its rows; those of 0 bytes belong nowhere.
        Raises: ValueError for a storage that no term selects, or more than one.
        """
        found = self.kept(rows)
        return {term: sum(row.storage_bytes for row in kept) for term, kept in found.items()}

    def kept(self, rows: Iterable[KeptSlot]) -> dict[str, list[KeptSlot]]:
        """The storages that each term selects, each by its first row.

        Counts: as `account`. Raises: as `account`.
        """
        storages: dict[int, list[KeptSlot]] = {}
        for row in rows:
            storages.setdefault(row.storage, []).append(row)
        by_term: dict[str, list[KeptSlot]] = {term.name: [] for term in self.terms}
        for rows_of_storage in storages.values():
            if rows_of_storage[0].storage_bytes:
                by_term[self.term_of(rows_of_storage)].append(rows_of_storage[0])
        return by_term

    def compare(self, rows_or_account: Iterable[KeptSlot] | dict[str, int], **letters: int) -> Comparison:
        """Predicted beside accounted, term by term, for rows of `SavedTensorContext.rows` or the account of them.

        Raises: ValueError, as `by_term` and `account`; for an account with a name that is no term's.
        """
        predicted = self.by_term(**letters)
        accounted = rows_or_account if isinstance(rows_or_account, dict) else self.account(rows_or_account)
        if unknown := [name for name in accounted if name not in predicted]:
            raise ValueError(f"an account names the terms of {self.title!r}: got {unknown[0]!r}.")
        return Comparison(self.title, tuple((name, n, accounted.get(name, 0)) for name, n in predicted.items()))

    def term_of(self, rows: Sequence[KeptSlot]) -> str:
        """The name of the one term that selects a storage, by the rows of the slots that keep it.

        Raises: ValueError if no term does, or more than one.
        """
        names = [t.name for t in self.terms if any(s.matches(row) for s in t.selectors for row in rows)]
        if len(names) == 1:
            return names[0]
        slots = ", ".join(f"{row.module or 'the root module'}: {row.node}.{row.slot or '?'}" for row in rows)
        what = f"{rows[0].storage_bytes:,d} bytes of shape {rows[0].shape}, kept by {slots}"
        if names:
            both = f"terms {' and '.join(map(repr, names))} of {self.title!r} both select {what}"
            raise ValueError(f"{both}; make their selectors tell these apart.")
        raise ValueError(
            f"no term of {self.title!r} selects {what}. Parameters are left out by "
            "SavedTensorContext(model.parameters()); what else is kept needs a term of its own."
        )

    def _table(self) -> Table:
        if all(term.sizes[1] == "1" for term in self.terms):
            return Table(self.title, ["term", "bytes", "what for"], [[t.name, t.sizes[0], t.why] for t in self.terms])
        cells = [[t.name, *t.sizes, t.why] for t in self.terms]
        return Table(self.title, ["term", "elements", "bytes each", "kept for"], cells)
