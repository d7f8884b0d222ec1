"""A note of a report: one thing that is not as on a card, and how several names are put into one."""

from dataclasses import dataclass

MEASURED = "`--gpu live` measures that on a card"
MOST_NAMED = 3  # operators in a clause


@dataclass(frozen=True)
class Note:
    """One thing that is not as on a card: what it is, why that is so, and a way out, "" if there is none.

    `is_of_figures`: whether it keeps figures from being exact. `is_of_values`: whether it does so only where the
    program's allocations depend on values that it read.
    """

    what: str
    why: str
    way_out: str = ""
    is_of_figures: bool = True
    is_of_values: bool = False

    def __str__(self) -> str:
        way_out = f"; {self.way_out.rstrip('.')}" if self.way_out else ""
        return f"{self.what.rstrip('.')}: {self.why.rstrip('.')}{way_out}."


def listed(names: list[str], verb: str) -> str:
    """Some names and what is said of them: one, or several."""
    *most, last = names
    return f"{', '.join(most)} and {last} are {verb}" if most else f"{last} is {verb}"


def few(names: list[str]) -> str:
    """Operators, the first ones by name; one and its backward are one."""
    found = list(
        dict.fromkeys(name.removeprefix("aten::").removeprefix("cudnn_").removesuffix("_backward") for name in names)
    )
    more = [f"{len(found) - MOST_NAMED} more"] if len(found) > MOST_NAMED else []
    *most, last = [*found[:MOST_NAMED], *more]
    return f"{', '.join(most)} and {last}" if most else last
