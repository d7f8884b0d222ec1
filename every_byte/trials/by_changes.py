"""Remedies of a script, made from the changes that they are, and what several of them say of their price."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from every_byte.advice.remedy import Changed, Offer, Remedy

from .script import Script

Offers: TypeAlias = Iterator[Offer[Script]]
OF_HOST = "FLOPs do not count the way to the host and back, which a step waits for"
TO_BFLOAT16 = "products in bfloat16, with 8 significant bits; weights, gradients and averages in float32"
EIGHT_BIT = "averages of one byte a number, and so other steps"


def remedy_by(name: str, kind: str, lines: str, *change: tuple[str, dict[str, Any]], **about: Any) -> Remedy[Script]:
    """A remedy that makes these changes, each by its name and arguments; `about` is what else a Remedy says."""

    def apply(script: Script) -> Changed[Script]:
        for what, arguments in change:
            script = script.with_change(what, **arguments)
        return Changed(script, lines)

    return Remedy(name, kind, apply, **about)
