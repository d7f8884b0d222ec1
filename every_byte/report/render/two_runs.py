"""What differs between two runs, from the figures that each wrote: by category, by module and by line."""

from collections.abc import Mapping
from typing import Any

from every_byte.tables import Table
from every_byte.units import in_gib

MOST, WIDTH = 10, 60
FIGURES = "schema", "peak", "lines", "modules"


def text_of(before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]) -> str:
    """What changed, the largest changes first, each table with both figures and their difference.

    Counts: whole blocks at the peak, or when memory ran out.
    Raises: ValueError for what is none of the figures of a report.
    Unit:   bytes.
    """
    for figures, name in zip((before, after), names, strict=True):
        if missing := [key for key in FIGURES if key not in figures]:
            raise ValueError(
                f"{name} must be figures that every-byte run --json wrote: it has no {missing[0]!r}; write it anew."
            )
    peaks = [figures["peak"]["allocated_bytes"] for figures in (before, after)]
    blocks = [_headline(before, after, names), _table("peak", {"allocated": peaks[0]}, {"allocated": peaks[1]})]
    same = "No category has changed."
    for kind, of in (("category", _categories), ("module", _modules), ("line of the program", _lines)):
        blocks.append(_table(kind, of(before), of(after)))
    return "\n\n".join(filter(None, blocks)) if any(blocks[1:]) else f"{blocks[0]}\n\n{same}"


def _headline(before: Mapping[str, Any], after: Mapping[str, Any], names: tuple[str, str]) -> str:
    words = [f"{name} needs {_needs(figures)}" for figures, name in zip((before, after), names, strict=True)]
    return f"{words[0]}; {words[1]}."


def _needs(figures: Mapping[str, Any]) -> str:
    room = f"of {in_gib(figures['room_bytes'])} GiB on {figures['gpu']}"
    refused = figures["out_of_memory"] and figures["fits"]  # where a program went on, the latter is null
    gpus = (figures["fits"] or {}).get("gpus", [])
    needed = gpus[0]["in_use_bytes" if refused else "needed_bytes"] if gpus else figures["peak"]["reserved_bytes"]
    least = "at least " if refused else ""
    return f"{least}{in_gib(needed)} {room}{', and runs out of memory' if refused else ''}"


def _categories(figures: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for share in figures["lines"]:
        for category, n_bytes in share["by_category"].items():
            found[category] = found.get(category, 0) + n_bytes
    return found or dict(figures["peak"]["by_category"])


def _modules(figures: Mapping[str, Any]) -> dict[str, int]:
    return {part["module"] or "none": part["allocated_bytes"] for part in figures["modules"]}


def _lines(figures: Mapping[str, Any]) -> dict[str, int]:
    """By what a line says, and its function: its number is another where lines were added above it."""
    found: dict[str, int] = {}
    for share in figures["lines"]:
        line = share["line"]
        name = f"{line['file'].rpartition('/')[2]}, {line['function']}: {line['text']}" if line else "none"
        found[name] = found.get(name, 0) + share["allocated_bytes"]
    return found


def _table(kind: str, before: dict[str, int], after: dict[str, int]) -> str:
    """The rows that differ; "" where none does."""
    changes = {name: after.get(name, 0) - before.get(name, 0) for name in (*before, *after)}
    largest = sorted((name for name in changes if changes[name]), key=lambda name: -abs(changes[name]))
    rows = [
        [_cut(name), f"{before.get(name, 0):,d}", f"{after.get(name, 0):,d}", f"{changes[name]:+,d}"]
        for name in largest[:MOST]
    ]
    if not rows:
        return ""
    if more := len(largest) - len(rows):
        rest = sum(changes[name] for name in largest[MOST:])
        rows.append([f"and {more:,d} more", "", "", f"{rest:+,d}"])
    return Table("", [kind, "before", "after", "difference"], rows, numbers=3).text()


def _cut(name: str) -> str:
    return name if len(name) <= WIDTH else f"{name[: WIDTH - 1]}…"
