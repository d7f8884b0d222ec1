"""A program that is run again and again, each time with other changes made from outside before it begins."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

Change: TypeAlias = tuple[str, Mapping[str, Any]]
"""The name of a change, one of those in `changes.py`, and its arguments, as JSON has them."""


@dataclass(frozen=True)
class Script:
    """A program, by the words that follow `every-byte run`, and the changes under which it runs."""

    words: tuple[str, ...]
    changes: tuple[Change, ...] = ()

    def with_change(self, name: str, **arguments: Any) -> Self:
        """The same with one change more."""
        return replace(self, changes=(*self.changes, (name, arguments)))
