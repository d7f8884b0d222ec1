"""Results that a variable keeps after backward has used them, where they add to the peak: logits, outputs, losses."""

import re
from collections import Counter

from every_byte.ledger.attribution import NEVER
from every_byte.ledger.rows import Row
from every_byte.ledger.source_lines import Line
from every_byte.palette import Category
from every_byte.units import exact

from .finding import Finding, named
from .run import Run

_SMALL = 20  # less than so much of the peak is not worth a line
_RESULTS = (Category.OUTPUTS, Category.OTHER_TENSORS)
_ASSIGNED = re.compile(r"^(\w+(?:\s*,\s*\w+)*)\s*=(?!=)")


def outliving_tensors(run: Run) -> Finding | None:
    """What was computed before the last backward, and is still there at the peak after it: in the optimizer's step, or
    in the forward of the step that follows.

    Counts: results of modules and other tensors of that step, which are gone a step later; not the model's, an
            optimizer's or the batch's, nor what stays for good, which is growth.
    """
    position = run.fatal.position if run.fatal else run.peak_position
    backward = max((one.end for one in run.trace.owners.passes if one.end <= position), default=0)
    rows = [row for row in run.account.rows if row.category in _RESULTS and _outlives(run, row, backward, position)]
    n_bytes = sum(row.n_bytes + row.slack_bytes for row in rows)
    if not rows or n_bytes * _SMALL < run.account.allocated_bytes:
        return None
    line = _line_of(run, rows)
    names = assigned(line.text) if line else ""
    one = sum(row.n_bytes * 10 > n_bytes for row in rows) == 1  # a loss beside its logits is not worth a plural
    keeps = f"{names} {'keep' if ',' in names else 'keeps'}" if names else "a variable keeps"
    delete = f"del {names}" if names else f"del {'it' if one else 'them'}"
    when = "when memory ran out" if run.fatal else "at the peak"
    return Finding(
        "tensors that outlive backward",
        n_bytes,
        f"{exact(n_bytes)} that backward had used {'was' if one else 'were'} still there {when}: {keeps} "
        f"{'it' if one else 'them'}{named(run, line)}. Write {delete} after backward(), or make the step a function, "
        "whose variables end with it.",
        line,
    )


def _outlives(run: Run, row: Row, backward: int, position: int) -> bool:
    attribution, steps = run.trace.attribution(), run.steps
    made_at, freed_at = attribution.made_at[row.allocation], attribution.freed_at.get(row.allocation, NEVER)
    begins = [0, *(step.end for step in steps if step.end < backward)]
    if not begins[-1] <= made_at < backward:
        return False
    ends = [step.end for step in steps if step.end > position]
    return run.ran_out or freed_at < (ends[1] if len(ends) > 1 else NEVER)


def _line_of(run: Run, rows: list[Row]) -> Line | None:
    """The line that called the module which made the most bytes."""
    made = run.trace.attribution().made
    sizes: Counter[Line] = Counter()
    for row in rows:
        if (line := made[row.allocation].stack.caller) is not None:
            sizes[line] += row.n_bytes
    return sizes.most_common(1)[0][0] if sizes else None


def assigned(text: str) -> str:
    """The names to which a line of Python assigns: "logits, loss"; "" where it assigns to none."""
    found = _ASSIGNED.match(text)
    return ", ".join(name.strip() for name in found[1].split(",")) if found else ""
