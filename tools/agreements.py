"""Which operators ran, on which card, in a recorded case that the simulated GPU repeats in every figure and event.

    python tools/agreements.py                 each recorded case on each card: a line for those that part, then counts
    python tools/agreements.py l40s --jobs 2   of some cards

For programs there is `agreements`, which yields them one by one.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

import operator_results as samples  # noqa: E402

from every_byte.verify.recordings import BOOK, Recordings  # noqa: E402
from every_byte.verify.simulated import GPUS  # noqa: E402
from every_byte.verify.verify import jobs, outcomes  # noqa: E402


@dataclass(frozen=True)
class Agreement:
    """A recorded case, or the samples of an operator in one mode, on a card: `parts` is "" where all agree.

    `operations` are those that ran, without those of which the simulated GPU says that it does not know them.
    """

    card: str
    case: str
    operations: frozenset[str]
    parts: str = ""

    @property
    def agrees(self) -> bool:
        """Whether every figure and every event is that of the recording."""
        return not self.parts


def agreements(cards: Sequence[str] = (), n_processes: int = 1, with_samples: bool = True) -> Iterator[Agreement]:
    """Every recorded case on these cards, or on all; then PyTorch's own samples, operator by operator."""
    recordings = Recordings(BOOK)
    chosen = [one for one in jobs([], cards=tuple(cards or GPUS)) if one in recordings]
    for found in outcomes(chosen, recordings, n_processes):
        if not found.left:
            yield Agreement(found.recorded.card, found.recorded.key, found.operations, found.parts)
    for card in (cards or GPUS) if with_samples else ():
        for mode in samples.modes_of(card):
            yield from _of_samples(card, mode)


def _of_samples(card: str, mode: str) -> Iterator[Agreement]:
    for name in samples.recorded(mode, card):
        found = [one for one in samples.results(mode, [name], card=card) if one.verdict != samples.UNJUDGED]
        exact = [one for one in found if one.verdict == samples.EXACT]
        wrong = next((str(one) for one in found if one.verdict == samples.WRONG), "")
        ran = frozenset().union(*(one.operations - one.flags for one in exact))
        yield Agreement(card, f"{name}, {mode}", ran, wrong)


def main() -> int:
    """The command: see the head of this file. Returns 1 if a case parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cards", nargs="*", choices=[*GPUS, []])
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run the cases")
    options = parser.parse_args()
    counts, held = defaultdict(lambda: [0, 0]), defaultdict(set)
    for one in agreements(options.cards, options.jobs):
        counts[one.card][one.agrees] += 1
        if one.agrees:
            held[one.card] |= one.operations
        else:
            print(f"{one.case}: {one.parts}", flush=True)
    for card, (part, agree) in counts.items():
        print(f"{card}: {agree:,d} agree, {part:,d} part; operators that ran in one that agrees: {len(held[card]):,d}")
    return int(any(part for part, _ in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
