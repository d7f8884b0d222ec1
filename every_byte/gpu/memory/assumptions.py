"""What a simulated GPU assumes of values that are not computed, where the size of a tensor depends on them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

REFUSE = "refuse"
_NONZERO = ("all", "none", REFUSE)
_ROUTING = ("balanced", "worst", REFUSE)


@dataclass(frozen=True)
class Assumptions:
    """Instead of values: how large what depends on them is.

    `nonzero`: of a mask that is computed, how many elements are true, "all", "none" or a number; of `unique()`, how
    many values differ. By default as many as there can be. `routing`: which experts the best scores of a router are,
    "balanced", each as often as any other, or "worst", all tokens with the same few. "refuse" assumes nothing: where a
    size depends on such a value, that is an error.

    Example: Assumptions.read(["nonzero=none", "routing=worst"])
    """

    nonzero: str | int = "all"
    routing: str = "balanced"

    @classmethod
    def read(cls, texts: Iterable[str]) -> "Assumptions":
        """Those that "nonzero=all" and the like name; the others stay as they are by default.

        Raises: ValueError for a name or a value that there is not.
        """
        found = cls()
        for text in texts:
            name, _, value = text.partition("=")
            if name == "nonzero" and (value in _NONZERO or value.isdecimal()):
                found = replace(found, nonzero=int(value) if value.isdecimal() else value)
            elif name == "routing" and value in _ROUTING:
                found = replace(found, routing=value)
            else:
                raise ValueError(
                    f"an assumption must be nonzero={'|'.join(_NONZERO[:2])}|N or routing={'|'.join(_ROUTING[:2])}, or "
                    f"{REFUSE} of either: got {text!r}; try nonzero=all."
                )
        return found
