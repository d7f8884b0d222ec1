"""The peak as a tree in a terminal, and as a table of every allocation, for a spreadsheet."""

import csv
import io

from every_byte.report.flames import KINDS, by_stack, lines_of
from every_byte.report.owners import about
from every_byte.report.run import Run
from every_byte.units import short

from . import facts

BAR, LETTERS = 20, 58
COLUMNS = (
    *("category", "module", "name", "operation", "shape and type", "requested_bytes", "slack_bytes", "kept_for"),
    *("file", "line", "function"),
)


def tree_in_text(run: Run) -> str:
    """The instant that matters by call stack: each line of the program with all that it leads to, and a bar."""
    if not run.holds_something:
        return "Nothing was allocated."
    flame = by_stack(run)
    at = "when memory ran out" if run.ran_out else f"at the peak, {run.peak_place.when}"
    lines = [f"By call stack, {at}; what is less than a hundredth is left out:"]
    for depth, one in lines_of(flame):
        bar = "█" * max(1, round(BAR * one.n_bytes / flame.n_bytes))
        name = f"{'  ' * depth}{one.name}"
        name = name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"
        share = facts.percent(one.n_bytes, flame.n_bytes)
        lines.append(f"{name:<{LETTERS}} {short(one.n_bytes):>9} {share:>5} {bar}")
    return "\n".join(lines)


def table_in_csv(run: Run) -> str:
    """Every allocation at the instant that matters, the largest first, as comma-separated values with a head.

    Unit: bytes.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    rows = run.account.rows if run.holds_something else ()
    for row in sorted(rows, key=lambda row: -row.n_bytes - row.slack_bytes):
        line = row.line or ("", "", "")
        sizes = about(row.shape, row.dtype), row.n_bytes, row.slack_bytes, " ".join(row.kept_for)
        writer.writerow([row.category, row.module, row.name, row.operation, *sizes, *line])
    return text.getvalue()


def flames_to_json(run: Run) -> dict[str, object]:
    """The trees that a page draws, by what they go by; that of call stacks only where lines were noted."""
    kinds = {name: make for name, make in KINDS.items() if run.line_names or name != "call stack"}
    return {name: make(run).to_json() for name, make in kinds.items()}
