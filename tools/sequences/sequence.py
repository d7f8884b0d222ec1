"""The steps of a program at any setting: sizes and repeats in letters, learned from runs that differ in sizes alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from every_byte.formula.expressions import Expression

from .folding import folded
from .forms import Forms
from .steps import Free, Kind, Mark, Name, Refusal, Repeat, Request, Step, unfolded


class NoForm(ValueError):
    """A size or a number of repeats for which no form in letters was found, or runs that differ in more than sizes."""


@dataclass(frozen=True)
class RequestSequence:
    """What a program asks for, in letters.

    `steps` are those of one run, whose kinds and repeats have a form each: `sizes` in the order in which kinds first
    occur, `repeats` in the order of the loops, `said` those of the numbers in its last sentence, where it is refused.
    """

    steps: tuple[Step, ...]
    sizes: tuple[str, ...]
    repeats: tuple[str, ...]
    said: tuple[str, ...]

    @classmethod
    def of(cls, runs: Sequence[tuple[Mapping[str, int], Sequence[Step]]]) -> "RequestSequence":
        """That of several runs, each with its letters.

        Raises: NoForm for runs that differ in more than sizes and repeats, and where there is no form for one.
        """
        forms = Forms([letters for letters, _ in runs])
        trees = [folded(steps) for _, steps in runs]
        if len({shape(tree) for tree in trees}) != 1:
            raise NoForm("runs of one sequence must differ in sizes and repeats alone: these do in their steps.")
        all_kinds = [kinds(tree) for tree in trees]
        sizes = [_size(of_each, forms) for of_each in zip(*all_kinds, strict=True)]
        repeats = [_form(times, forms) for times in zip(*map(_times, trees), strict=True)]
        said = [_form(numbers, forms) for numbers in zip(*(_numbers(tree[-1]) for tree in trees), strict=True)]
        return cls(trees[0], tuple(sizes), tuple(repeats), tuple(said))

    def at(self, letters: Mapping[str, int]) -> list[tuple[Any, ...]]:
        """The steps at these letters, each as `told` has it.

        Raises: ValueError for letters that give no size.
        """
        values = [Expression(size).value(letters) for size in self.sizes]
        known = {kind: replace(kind, n_bytes=n) for kind, n in zip(kinds(self.steps), values, strict=True)}
        times = iter([Expression(form).value(letters) for form in self.repeats])
        steps = [_changed(step, known, times) for step in self.steps]
        if isinstance(last := steps[-1], Refusal):
            steps[-1] = replace(last, numbers=tuple(Expression(form).value(letters) for form in self.said))
        return told(unfolded(steps))


def told(steps: Iterator[Step] | Sequence[Step]) -> list[tuple[Any, ...]]:
    """Steps with allocations numbered in the order of requests: two runs ask for the same if these are equal.

    Raises: ValueError for steps of an allocation that is not alive: at these letters they are no run.
    """
    alive: dict[Kind, list[int]] = {}
    found: list[tuple[Any, ...]] = []
    n = 0
    for step in steps:
        if isinstance(step, Request):
            alive.setdefault(step.kind, []).append(n)
            found.append(("request", step.kind.n_bytes, step.kind.operation, step.kind.term))
            n += 1
        elif isinstance(step, Mark | Refusal):
            found.append(("ends", step))
        elif isinstance(step, Free | Name):
            of_kind = alive.get(step.kind, [])
            place = len(of_kind) - 1 - step.place if step.place >= 0 else -1 - step.place
            if not 0 <= place < len(of_kind):
                raise ValueError(f"a step must be of an allocation that is alive: got {step}.")
            number = of_kind[place]
            found.append(("name", number, step.term) if isinstance(step, Name) else ("free", number))
            if isinstance(step, Free):
                of_kind.remove(number)
    return found


def kinds(tree: Sequence[Step]) -> list[Kind]:
    """The kinds of steps in the order in which they first occur."""
    return list(dict.fromkeys(step.kind for step in _flat(tree) if isinstance(step, Request | Free | Name)))


def shape(tree: Sequence[Step]) -> tuple[Any, ...]:
    """What runs must have in common: the steps without sizes and repeats."""
    numbers = {kind: i for i, kind in enumerate(kinds(tree))}

    def of(step: Step) -> Any:
        if isinstance(step, Repeat):
            return ("repeat", *map(of, step.of))
        if isinstance(step, Mark):
            return step
        if isinstance(step, Refusal):
            return step.parts
        name = (
            step.term
            if isinstance(step, Name)
            else step.place
            if isinstance(step, Free)
            else (step.kind.operation, step.kind.term)
        )
        return (type(step).__name__, numbers[step.kind], getattr(step, "place", 0), name)

    return tuple(map(of, tree))


def _flat(tree: Sequence[Step]) -> Iterator[Step]:
    """All steps, those of a loop once."""
    for step in tree:
        yield from _flat(step.of) if isinstance(step, Repeat) else (step,)


def _times(tree: Sequence[Step]) -> list[int]:
    """How often each loop runs, an outer one before those in it."""
    loops = (step for step in tree if isinstance(step, Repeat))
    return [n for loop in loops for n in (loop.times, *_times(loop.of))]


def _changed(step: Step, known: Mapping[Kind, Kind], times: Iterator[int]) -> Step:
    if isinstance(step, Repeat):
        n = next(times)
        return Repeat(n, tuple(_changed(inner, known, times) for inner in step.of))
    return step if isinstance(step, Mark | Refusal) else replace(step, kind=known[step.kind])


def _numbers(step: Step) -> tuple[int, ...]:
    return step.numbers if isinstance(step, Refusal) else ()


def _size(of_each: Sequence[Kind], forms: Forms) -> str:
    return of_each[0].letter or _form([kind.n_bytes for kind in of_each], forms)


def _form(values: Sequence[int], forms: Forms) -> str:
    if (form := forms.of(values)) is None:
        raise NoForm(f"no form in letters has the values {', '.join(map(str, values))}.")
    return form
