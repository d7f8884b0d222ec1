"""The sequences of one combination of choices, and where each holds: learned from drawn settings, checked at others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .conditions import Condition, Conditions
from .folding import folded
from .sequence import NoForm, RequestSequence, kinds, shape, told
from .steps import Step

N_DRAWN = 12
N_CHECKED = 6
N_ALIKE = 2
"""At so many settings a program has to ask for what another one does, to count as the same."""
LEAST_RUNS = 5
"""So many runs have the same steps before their sizes are put into letters."""
MOST_DRAWN = 120
Letters = Mapping[str, int]


@dataclass(frozen=True)
class Branch:
    """A sequence, and the conditions under which a program has it; None for one that was not found."""

    conditions: tuple[Condition, ...]
    sequence: RequestSequence | None


@dataclass(frozen=True)
class Drawn:
    """A run, with its letters; `told` is what it asked for."""

    letters: Letters
    steps: Sequence[Step]
    told: Sequence[tuple[Any, ...]]


class Program:
    """A program whose choices are made: `run(letters)` gives its steps, `draw()` letters to run it at."""

    def __init__(
        self, run: Callable[[Letters], Sequence[Step]], draw: Callable[[], Letters], features: Sequence[str] = ()
    ) -> None:
        self._run, self._draw, self._features = run, draw, features
        self.runs: list[Drawn] = []

    def at(self, letters: Letters) -> Drawn:
        """The run at these letters."""
        steps = self._run(letters)
        return Drawn(letters, steps, told(steps))

    def more(self, n: int) -> list[Drawn]:
        """So many further runs, which are kept."""
        found = [self.at(self._draw()) for _ in range(n)]
        self.runs += found
        return found

    def has(self, branches: Sequence[Branch]) -> bool:
        """Whether these are its branches, at N_ALIKE settings."""
        for i in range(N_ALIKE):
            if i == len(self.runs):
                self.more(1)
            if not is_met(branches, self.runs[i]):
                return False
        return True

    def learned(self, known: Sequence[RequestSequence]) -> tuple[Branch, ...]:
        """Its branches: of sequences that are known, where they hold, and of others.

        Where a setting that was not learned from is met by none, it is learned from as well.
        """
        self.more(max(0, N_DRAWN - len(self.runs)))
        while True:
            branches = self._branches(known)
            wrong = [run for run in self.more(N_CHECKED) if not is_met(branches, run)]
            if not wrong or len(self.runs) > MOST_DRAWN:
                return branches

    def _branches(self, known: Sequence[RequestSequence]) -> tuple[Branch, ...]:
        sequences: list[RequestSequence] = []
        left = list(self.runs)
        waiting = iter(known)
        while left and (sequence := next(waiting, None) or self._new(left)):
            if (others := [run for run in left if not holds(sequence, run)]) != left:
                sequences.append(sequence)
                left = others

        def way(run: Drawn) -> int:
            return next((i for i, sequence in enumerate(sequences) if holds(sequence, run)), -1)

        conditions = Conditions(self._features, lambda letters: way(self.at(letters)), self._draw)
        found = conditions.leaves([run.letters for run in self.runs], [way(run) for run in self.runs])
        return tuple(Branch(of, sequences[i] if i >= 0 else None) for of, i in found)

    def _new(self, runs: Sequence[Drawn]) -> RequestSequence | None:
        """A sequence of some of these runs: those with the same steps and the most kinds, which coincide least."""
        trees = [folded(run.steps) for run in runs]
        groups: dict[Any, list[int]] = {}
        for i, tree in enumerate(trees):
            groups.setdefault(shape(tree), []).append(i)
        for group in sorted(groups.values(), key=lambda group: (len(kinds(trees[group[0]])), len(group)), reverse=True):
            if len(group) < LEAST_RUNS:
                continue
            try:
                return RequestSequence.of([(runs[i].letters, runs[i].steps) for i in group])
            except NoForm:
                continue
        return None


def holds(sequence: RequestSequence, run: Drawn) -> bool:
    """Whether a run asked for what a sequence says."""
    try:
        return sequence.at(run.letters) == run.told
    except ValueError:
        return False


def is_met(branches: Sequence[Branch], run: Drawn) -> bool:
    """Whether a run asked for what the branch says that holds at its letters."""
    branch = next(branch for branch in branches if all(condition(run.letters) for condition in branch.conditions))
    return branch.sequence is not None and holds(branch.sequence, run)
