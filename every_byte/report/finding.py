"""One thing that is wrong with a run: how many bytes it is about, a sentence, and the line of the program to change."""

from dataclasses import dataclass

from every_byte.ledger.source_lines import Line

from .run import Run

SMALL = 100
"""What is less than so much of the peak is not worth a sentence."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: which rule found it, how many bytes it is about, a sentence, and the line to change.

    Unit: bytes.
    """

    rule: str
    n_bytes: int
    sentence: str
    line: Line | None = None


def named(run: Run, line: Line | None, *, before: str = " (", after: str = ")") -> str:
    """A line within a sentence, " (train.py:41)"; "" where it is not known."""
    return f"{before}{run.line_names.of(line)}{after}" if line is not None and run.line_names else ""
