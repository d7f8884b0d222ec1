"""The table of steps of a report and of a snapshot: as text, of many the first and the last; on a page more of them."""

from collections.abc import Sequence

from every_byte.report.steps import Step
from every_byte.tables import Table

from .markup import Html, n_bytes, table

HEAD = ["step", "allocated at its end", "at most within it", "reserved at its end", "at most within it"]
MOST_IN_TEXT, MOST_ON_A_PAGE = 5, 60


def _numbers(step: Step) -> tuple[int, int, int, int]:
    return step.allocated_bytes, step.max_allocated_bytes, step.reserved_bytes, step.max_reserved_bytes


def steps_table(title: str, steps: Sequence[Step], peak: int | None = None) -> Table:
    """The steps; of many two at each end and that of the peak, given by its number."""
    shown = set(range(len(steps)))
    if len(steps) > MOST_IN_TEXT:
        shown = {0, 1, len(steps) - 2, len(steps) - 1} | {i for i in shown if steps[i].number == peak}
    rows, before = [], -1
    for i in sorted(shown):
        if i > before + 1:
            rows.append(["…", "", "", "", ""])
        rows.append([f"{steps[i].number:,d}", *(f"{amount:,d}" for amount in _numbers(steps[i]))])
        before = i
    return Table(title, HEAD, rows, numbers=4)


def steps_on_a_page(title: str, steps: Sequence[Step], peak: int | None = None) -> Html:
    """The same for a page."""
    half = MOST_ON_A_PAGE // 2
    shown = [*steps[:half], *steps[-half:]] if len(steps) > MOST_ON_A_PAGE else list(steps)
    rows = [
        [f"{step.number:,d}" + (" (the peak)" if step.number == peak else ""), *map(n_bytes, _numbers(step))]
        for step in shown
    ]
    n = len(steps) - len(shown)
    left_out = f"; {n:,d} in the middle {'is' if n == 1 else 'are'} left out" if n else ""
    names = [*HEAD[:-1], f"{HEAD[-1]} "]  # a phone names each cell by its column: no two are to have one name
    return table(f"{title}{left_out}", names, rows, numbers=4)
