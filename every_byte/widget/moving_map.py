"""A map of segments and blocks that moves: one picture for each request of a replay, and a text that says the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from every_byte.gpu.replay import FREE, Found, Moment, Piece, Replay, Row
from every_byte.ledger.trace import Trace
from every_byte.palette import CATEGORIES, assign
from every_byte.rounding import ROUNDING_BYTES
from every_byte.units import MiB, short

LINE_BYTES = 256 * MiB
"""What one line of the map stands for: a longer segment goes on in the next one."""


@dataclass(frozen=True)
class MovingMap:
    """The replay of a trace, as an explorer draws it; `categories` says what each allocation is.

    Unit:   a page gets sizes in units of 512 bytes, of which every block is a multiple, but for requests, in bytes.
    """

    replay: Replay
    categories: Mapping[int, str]

    @classmethod
    def of(cls, replay: Replay, trace: Trace) -> "MovingMap":
        """Each allocation is called what it is at the moment at which it is given back."""
        attribution = trace.attribution()
        ends = {event.allocation: place for place, event in enumerate(trace) if event.action == "free"}
        made = [event.allocation for event in trace if event.action == "alloc"]
        return cls(replay, {number: attribution.category(number, ends.get(number, len(trace))) for number in made})

    @property
    def names(self) -> list[str]:
        """The categories that occur, in the book's order."""
        return [name for name in CATEGORIES if name in self.categories.values()]

    def said(self, moment: Moment) -> str:
        """One of the replay's moments in words."""
        return said_of(moment, self.replay, self.categories[moment.event.allocation])

    def spec(self) -> dict[str, Any]:
        """What a page needs to draw it: each row of the map once, and for each request which rows there are."""
        names = self.names
        code = {number: names.index(name) for number, name in self.categories.items()}
        places: dict[Row, int] = {}
        steps = [
            {
                "rows": [places.setdefault(row, len(places)) for row in moment.rows],
                "driver": moment.driver_bytes // ROUNDING_BYTES,
                "asks": moment.event.n_bytes,
                "of": code[moment.event.allocation],
                "number": moment.event.allocation,
                "said": self.said(moment),
            }
            for moment in self.replay.moments
        ]
        return {
            "line": LINE_BYTES // ROUNDING_BYTES, "n_requests": self.replay.n_requests, "refused": not self.replay.fits,
            "names": names, "colours": {name: colour._asdict() for name, colour in assign(names).items()},
            "rows": [[_drawn(piece, code) for piece in row] for row in places], "steps": steps,
        }  # fmt: skip


def _drawn(piece: Piece, code: Mapping[int, int]) -> list[int]:
    """[size, what: a place among the names, -1 for free, -2 for no memory, the number of an allocation]."""
    size = piece.n_bytes // ROUNDING_BYTES
    return [size, piece.holds] if piece.holds <= FREE else [size, code[piece.holds], piece.holds]


def said_of(moment: Moment, replay: Replay, category: str = "") -> str:
    """A request in words: what comes back first, what is asked for, what it finds."""
    event = moment.event
    place = ", ".join(filter(None, [event.phase, "backward" if event.node else ""]))
    where = f" ({place})" if place else ""
    asked = event.name or event.operation.removeprefix("aten::").partition(".")[0]
    what = f" ({category})" if category not in ("", asked) else ""
    head = f"Request {moment.number} of {replay.n_requests}{where}:"
    return f"{head} {_returned(moment.returned)}{asked} asks for {short(event.n_bytes)}{what}. {_found(moment, replay)}"


def _returned(blocks: tuple[int, ...]) -> str:
    if not blocks:
        return ""
    comes = "comes" if len(blocks) == 1 else "come"
    return f"{_counted(len(blocks), 'block')}, {short(sum(blocks))}, {comes} back; then "


def _counted(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _found(moment: Moment, replay: Replay) -> str:
    found = moment.found
    if found.piece_bytes:
        kept = found.piece_bytes - found.block_bytes
        return f"It is cut from a free piece of {short(found.piece_bytes)}." if kept else "It takes a free piece whole."
    none = _no_piece(found, replay)
    freed = f" {_what_went(found, replay)}" if found.returned else ""
    if moment.is_refused:
        free_bytes = replay.capacity_bytes - moment.allocated_bytes
        return (
            f"{none}{freed} {_too_little(moment, replay)}: out of memory, with {short(free_bytes)} free, "
            f"{short(moment.free_bytes)} of them in {_counted(len(moment.free_pieces), 'piece')} of what PyTorch holds."
        )
    size = short(sum(found.bought))
    how = (
        f"Pages for {size} are mapped" if replay.settings.expandable_segments else f"A new segment of {size} is bought"
    )
    return f"{none}{freed} {how}." if none else f"{freed.strip()} {how}.".strip()


def _no_piece(found: Found, replay: Replay) -> str:
    """Why no free piece will do."""
    if not found.largest_bytes:
        return "There is no free piece."
    largest = short(found.largest_bytes)
    if found.block_bytes and found.largest_bytes >= found.block_bytes:
        return f"The free piece of {largest} may not be cut for it, by max_split_size_mb."
    return f"No free piece holds it: the largest has {largest}."


def _what_went(found: Found, replay: Replay) -> str:
    size = short(sum(found.returned))
    if replay.settings.expandable_segments:
        return f"Unused pages, {size}, go back first."
    n = len(found.returned)
    return f"{_counted(n, 'unused segment')}, {size}, {'goes' if n == 1 else 'go'} back first."


def _too_little(moment: Moment, replay: Replay) -> str:
    left = short(moment.driver_bytes)
    if replay.settings.expandable_segments:
        return f"The driver has {left} left, less than the pages that are missing"
    segment = short(replay.settings.segment_size(replay.settings.round_size(moment.event.n_bytes)))
    return f"A new segment of {segment} is more than the {left} that the driver has left"
