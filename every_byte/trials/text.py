"""What was found out about a script, in words and as JSON: the answer first."""

from collections.abc import Iterator
from typing import Any

from every_byte.advice.advice import HEAD, exactness, left_of, more_flops, recommendation, rows, sizes, title, told_of
from every_byte.advice.largest import Largest
from every_byte.advice.remedy import Left
from every_byte.advice.runs import Ran
from every_byte.tables import Table
from every_byte.units import short

from .script import Script
from .search import Tried

FORMAT = 1
NOT_WHOLE = "The time was over, or Ctrl-C was pressed, before all was run; --seconds gives more time."
_TOOK = "peak_bytes", "reserved_bytes", "needed_bytes", "fits", "n_retries", "flops", "is_exact"


def text_of(tried: Tried) -> str:
    """The recommendation with its lines, the table, the largest batch, each remedy's lines, and what was not run."""
    advice = tried.advice
    best = advice.best if advice.best is not advice.plain else None
    blocks = [recommendation(advice), _indented(best.lines) if best else "", "" if tried.is_whole else NOT_WHOLE]
    blocks += [title(advice), Table("", HEAD, rows(advice), numbers=5).text(), sizes(advice), exactness(advice)]
    return "\n\n".join(filter(None, [*blocks, *told_of(advice), left_of(advice)]))


def _indented(lines: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in lines.splitlines())


def line_of(one: Ran[Script] | Left, plain: Ran[Script]) -> str:
    """A run that has just ended, or a remedy that was not applied, in a line."""
    if isinstance(one, Left):
        return f"  {one.name}: not run: {one.reason}"
    saved = one.peak_bytes - plain.peak_bytes
    change = "" if one is plain else f" ({'-' if saved < 0 else '+'}{short(abs(saved))})"
    return f"  {one.name}: peak {short(one.peak_bytes)}{change}, {'fits' if one.fits else 'does not fit'}"


def to_json(tried: Tried, command: list[str], seconds: float) -> dict[str, Any]:
    """The same as plain JSON; all bytes are exact.

    {"format": 1, "gpu": its name, "torch_version", "command": [words], "seconds": float, "n_steps": int,
     "room_bytes": what segments may take, "answer": a sentence, "is_whole": whether all was run, "best": a name,
     "runs": [the plain one first {"name", "remedies": [names], "lines": to write, "keeps_values", "peak_bytes",
         "reserved_bytes": in these steps, "needed_bytes": in as many as it takes, "fits", "n_retries", "flops",
         "more_flops": in words, "is_exact"}, ...],
     "sizes": [{"name", "letter", "value": the largest that fits, "next_value", "reason"}, ...],
     "left": [what was not run {"name", "reason"}, ...]}
    """
    advice = tried.advice
    return {
        "format": FORMAT,
        "gpu": tried.bench.spec.name,
        "torch_version": tried.bench.spec.torch_version,
        "command": command,
        "seconds": seconds,
        "n_steps": tried.bench.n_steps,
        "room_bytes": tried.bench.budget_bytes,
        "answer": recommendation(advice),
        "is_whole": tried.is_whole,
        "best": advice.best.name if advice.best else None,
        "runs": [_run(ran, tried) for ran in (advice.plain, *advice.runs)],
        "sizes": list(_sizes(advice.sizes)),
        "left": [{"name": one.name, "reason": one.reason} for one in advice.left],
    }


def _run(ran: Ran[Script], tried: Tried) -> dict[str, Any]:
    took = tried.took[ran.name]
    return {
        "name": ran.name,
        "remedies": [remedy.name for remedy in ran.remedies],
        "lines": ran.lines,
        "keeps_values": ran.keeps_values,
        **{name: took[name] for name in _TOOK},
        "more_flops": more_flops(ran, tried.plain),
    }


def _sizes(found: tuple[tuple[str, Largest], ...]) -> Iterator[dict[str, Any]]:
    for name, one in found:
        yield {
            "name": name,
            "letter": one.letter,
            "value": one.value,
            "next_value": one.next_value,
            "reason": one.reason,
        }
