"""What a class showed, and how it is printed: who finished, whose numbers differ, memory, times, refusals."""

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass

from .refusals import Attempt
from .work import Move, Work

AIM_MB, AIM_MS = 700, 300


@dataclass(frozen=True)
class Figures:
    """Of one run; memory in bytes, by user and process, times in seconds, load averages of a minute."""

    chapters: list[str]
    n_cores: int
    works: list[Work]
    memory: dict[str, list[int]]
    leaves_open: bool
    wall_s: float
    start_s: float
    load_before: float
    load: float
    attempts: list[Attempt]

    @property
    def differing(self) -> list[str]:
        """Each user's cells and accounts that are not the book's, or not the others'."""
        cells = [f"{work.name}: {said}" for work in self.works for said in work.differing]
        return cells + [f"{name}: an account of its own of {where}" for name, where in alone(self.works)]

    @property
    def failures(self) -> list[str]:
        """Why the run has failed: nothing, where it has not."""
        names = [work.name for work in self.works if work.finished != self.chapters]
        errors = [f"{work.name}: {work.error}" for work in self.works if work.error]
        open_ways = [
            f"{one.what}: stranger {one.stranger}, owner {one.owner}" for one in self.attempts if not one.holds
        ]
        none = [] if self.attempts or len(self.works) < 2 else ["nothing was tried that should be refused"]
        return [*(f"{name} has not finished" for name in names), *errors, *self.differing, *open_ways, *none]

    def text(self) -> str:
        """As it is printed and stored."""
        moves = [move for work in self.works for move in work.moves]
        others = [move.others for move in moves]
        n_done = sum(work.finished == self.chapters for work in self.works)
        most = sorted(self.memory.values(), key=sum)
        sums = [sum(parts) / 1e6 for parts in most]
        largest = " + ".join(f"{n_bytes / 1e6:,.0f}" for n_bytes in most[-1])
        lines = [
            f"{many(len(self.works), 'user')} on {many(self.n_cores, 'core')}, each its own Unix user and server: "
            + (", and then beside it " if self.leaves_open else ", then ").join(map(short, self.chapters)),
            row("finished", f"{n_done} of {len(self.works)}"),
            row(
                "numbers differ",
                f"{len({said.split(':')[0] for said in self.differing})} of {many(len(self.works), 'user')}",
            ),
            row("memory of a user, at most", f"{sums[-1]:,.0f} MB", sums[-1], AIM_MB),
            row("  its processes", f"{largest} MB"),
            *(line for name in self.chapters for line in self._times(name)),
            *([row("at work beside a move", f"{statistics.median(others):.0f} others (median)")] if moves else []),
            row("all servers up", f"{self.start_s:.0f} s"),
            row("wall time", f"{self.wall_s:.0f} s"),
            row("load average", f"{self.load_before:.1f} before, {self.load:.1f} at work (median)"),
            *self._refusals(),
        ]
        return "\n".join(lines) + "\n"

    def _times(self, chapter: str) -> list[str]:
        """The lines of a chapter's moves, and of what followed them."""
        moves = [move for work in self.works for move in work.moves if move.chapter == chapter]
        first = [1000 * move.seconds for work in self.works for move in first_visits(work, chapter)]
        median = statistics.median(first) if first else 0
        once = f"median {median:,.0f} ms, of {many(len(first), 'move')}"
        waits = [1000 * seconds for work in self.works for seconds in work.verdicts.get(chapter, [])]
        said = f"median {statistics.median(waits):,.0f} ms behind the account" if waits else ""
        return [
            *times(chapter, moves),
            *([row("  first at a setting", once, median, AIM_MS)] if len(first) < len(moves) else []),
            *([row("  whether it fits", said)] if waits else []),
        ]

    def _refusals(self) -> list[str]:
        if not self.attempts:
            return []
        n_hold = sum(one.holds for one in self.attempts)
        ways = [f"  {'yes' if one.holds else 'NO '}  {one.what}" for one in unique(self.attempts)]
        return [row("refused", f"{n_hold} of {len(self.attempts)} attempts"), *ways]


def many(n: int, what: str) -> str:
    """A count of things: `1 user`, `8 users`."""
    return f"{n} {what}" + ("" if n == 1 else "s")


def short(chapter: str) -> str:
    """A chapter as a report names it."""
    return f"chapter {int(chapter[:2])}"


def row(name: str, said: str, found: float = 0, aim: int = 0) -> str:
    """A line of the report; with an aim, whether it is met."""
    return f"{name:28}{said}" + (f"; aim {aim:,}: {'met' if found <= aim else 'missed'}" if aim else "")


def times(chapter: str, moves: list[Move]) -> list[str]:
    """The lines of a chapter's moves."""
    name = f"slider, {short(chapter)}"
    if not moves:
        return [row(name, "not moved")]
    median, p95 = (1000 * seconds for seconds in median_and_p95([move.seconds for move in moves]))
    of = f"{p95:,.0f} ms, of {many(len(moves), 'move')}"
    return [row(name, f"median {median:,.0f} ms", median, AIM_MS), row("  95th percentile", of)]


def first_visits(work: Work, chapter: str) -> list[Move]:
    """A user's moves to where the slider has not been."""
    found: dict[tuple, Move] = {}
    for move in work.moves:
        if move.chapter == chapter:
            found.setdefault(move.setting, move)
    return list(found.values())


def median_and_p95(values: list[float]) -> tuple[float, float]:
    """Both, of one value too: the least that half, and nineteen of twenty, do not exceed."""
    ordered = sorted(values)
    at = [ordered[max(0, -(-len(ordered) * percent // 100) - 1)] for percent in (50, 95)]
    return at[0], at[1]


def alone(works: list[Work]) -> list[tuple[str, str]]:
    """Users whose account of a setting is not the one that most users got, each with the chapter."""
    found = defaultdict(Counter)
    for work in works:
        for move in work.moves:
            found[move.chapter, move.setting][move.terms] += 1
    most = {key: counted.most_common(1)[0][0] for key, counted in found.items()}
    differ = {(w.name, m.chapter): None for w in works for m in w.moves if m.terms != most[m.chapter, m.setting]}
    return list(differ)


def unique(attempts: list[Attempt]) -> list[Attempt]:
    """One for each way, one that does not hold before one that does."""
    by_way = {}
    for one in attempts:
        if one.what not in by_way or not one.holds:
            by_way[one.what] = one
    return list(by_way.values())
