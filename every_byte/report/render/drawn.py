"""What the scripts of a report's page draw, as plain JSON: the run over time, the tree of modules, the card, a map."""

from collections import Counter
from typing import Any

from every_byte.ledger.rows import Row
from every_byte.report.owners import about
from every_byte.report.run import Run
from every_byte.report.shortage import Shortage, drawn

from . import facts
from .moments import Moments
from .reporters import flames_to_json

MOST_ROWS = 20_000  # in the tree; of more, those of one module and category are one
Key = tuple[str, str, str, str, int]  # module, category, what, about, bytes
MAP_POINTS = 24_000  # pixels of all lines of the map together


def data_of(report: Run, moments: Moments) -> dict[str, Any]:
    """All that the page draws.

    `timeline` is as `Moments.spec` has it. `rows` are [module, category, what, about, number, bytes of each, slack of
    all], the first four as places in `texts`. `flames` are trees by call stack, module and
    category, as `Flame.to_json` has them. `card` is the instant that the account is of: `parts` by category,
    what is reserved, at most or when memory ran out, and what there is. `map` has the segments where memory ran out,
    [size, what] in blocks of 512 bytes, or is null.

    Unit: bytes, where nothing else is said.
    """
    texts, rows = _rows(report)
    return {
        "timeline": moments.spec(str(report.peak_place)),
        "texts": texts,
        "rows": rows,
        "flames": flames_to_json(report),
        "card": card_of(report),
        "map": report.shortage and _map(report.shortage, list(moments.timeline.columns)),
    }


def _rows(report: Run) -> tuple[list[str], list[list[int]]]:
    """The rows of a report's account, those alike as one; texts once each."""
    ledger = report.account
    found: Counter[Key] = Counter()
    slack: Counter[Key] = Counter()
    for row in ledger.rows:
        key = _key(row, in_full=len(ledger) <= MOST_ROWS, line=facts.at_line(report, row.line))
        found[key] += 1 if len(ledger) <= MOST_ROWS else row.n_bytes
        slack[key] += row.slack_bytes
    texts: dict[str, int] = {}
    rows = []
    for key, n in found.items():
        *words, n_bytes = key
        places = [texts.setdefault(word, len(texts)) for word in key[:4]]
        sizes = [n, n_bytes] if n_bytes else [1, n]
        rows.append([*places, *sizes, slack[key]])
    return list(texts), rows


def _key(row: Row, *, in_full: bool, line: str) -> Key:
    if not in_full:
        return row.module, row.category, "all of it", "", 0
    kept = f", kept for {row.kept_for[0]}" if row.kept_for else ""
    what = row.name or row.operation
    return row.module, row.category, what, f"{about(row.shape, row.dtype)}{kept}{line}".lstrip(", "), row.n_bytes


def card_of(report: Run) -> dict[str, Any]:
    """The card at the instant that the account is of, as `data_of` has it."""
    shortage = report.shortage if report.ran_out else None
    own = report.fits.own
    needed_bytes = own.needed_bytes if own.fits and report.origin == "simulated" else 0
    reserved_bytes = shortage.reserved_bytes if shortage else max(report.peak_reserved_bytes, needed_bytes)
    return {
        "parts": report.account.parts,
        "reserved": reserved_bytes,
        "room": report.room_bytes,
        "total": report.spec.total_bytes,
        "asked": shortage.asked_bytes if shortage else 0,
    }


def _map(shortage: Shortage, names: list[str]) -> dict[str, Any] | None:
    segments = drawn(shortage.segments, MAP_POINTS)
    if not segments:
        return None
    place = {i: names.index(name) for i, name in enumerate(shortage.names) if name in names}
    return {
        "segments": [[[size, place.get(what, what)] for size, what in row] for row in segments],
        "asked": shortage.asked_bytes,
        "free": [len(shortage.free_pieces), max(shortage.free_pieces, default=0)],
    }
