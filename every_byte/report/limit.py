"""Whether a run stays below a number of bytes that somebody allows it, and whose most of it is where it does not."""

from dataclasses import dataclass

from every_byte.units import exact, short

from .finding import named
from .findings import findings_of
from .owners import Owner, owners_of
from .run import Run

MOST_OWNERS = 3


@dataclass(frozen=True)
class Limit:
    """What is allowed, and the words by which it was: "--at-most 20GiB"."""

    n_bytes: int
    said: str


def needed_bytes(run: Run) -> int:
    """What segments take at most, with more steps, too; of a run for which there is no room, what it needs at once.

    Unit: bytes, of PyTorch's allocator: not the CUDA context.
    """
    if run.origin == "measured" or run.is_empty:
        return run.peak_reserved_bytes
    own = run.fits.own
    if run.fatal or not own.fits:
        return own.in_use_bytes
    return max(own.needed_bytes, run.peak_reserved_bytes)


def beyond(run: Run, limit: Limit) -> list[str]:
    """What is to be said where a run needs more than is allowed, a line each; nothing where it does not.

    The largest owners follow the sentence, each with its line of the program, then what is wrong with the run.
    """
    needed = needed_bytes(run)
    if needed <= limit.n_bytes:
        return []
    least = "at least " if run.ran_out else ""
    over = f"needs {least}{exact(needed)}, {short(needed - limit.n_bytes)} more than {limit.said} allows"
    return [f"{over}; the largest owners at the peak, {run.peak_place.when}:", *owners_in_lines(run), *_wrong(run)]


def owners_in_lines(run: Run, most: int = MOST_OWNERS) -> list[str]:
    """The largest owners at the instant that matters, a line each."""
    if not run.holds_something:
        return ["  nothing was allocated"]
    return [
        f"  {short(n * owner.n_bytes):>9}  {in_words(run, owner)}" for owner, n in owners_of(run.account.rows)[:most]
    ]


def in_words(run: Run, owner: Owner) -> str:
    """An owner in a line: its category, module, name and shape, and the program's line that made it."""
    lines = run.lines_of_owners.get(owner, [])
    about = f", {owner.about}" if owner.about else ""
    inside = f" in {owner.module}" if owner.module else ""
    line = named(run, lines[0] if lines else None, before=", ", after="")
    return f"{owner.category}{inside} ({owner.what}{about}){line}"


def _wrong(run: Run) -> list[str]:
    return [f"  {finding.sentence}" for finding in findings_of(run)]
