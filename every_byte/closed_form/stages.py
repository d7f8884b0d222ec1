"""Stages of a model: as many at all sizes, each of layers whose number is a letter; a moment is in one of them."""

from collections.abc import Iterable, Sequence
from functools import cache

from every_byte.report.owners import kind_of

Stages = frozenset[str]
"""What holds stages, by its path with stars, as "encoder.stages" does of "encoder.stages.3.layers.0"."""


def stages_of(lines: Iterable[Sequence[frozenset[str]]]) -> Stages:
    """What holds stages in lines of runs, of each of which the paths of its modules are given.

    These are lists of modules that are as long in all runs, of lists that are not, when one letter alone changes.
    """
    found, vary = set(), set()
    for line in lines:
        lengths = [_lengths(paths) for paths in line]
        known = {kind for each in lengths for kind in each}
        found |= known
        vary |= {kind for kind in known if len({each.get(kind) for each in lengths}) > 1}
    return frozenset(kind for kind in found - vary if any(_is_inside(inner, kind) for inner in vary))


def _is_inside(inner: str, outer: str) -> bool:
    return f"{inner}.".startswith(f"{outer}.*." if outer else "*.")


def kind_in(module: str, stages: Stages) -> str:
    """The path of a module with a star for each number but a stage's: "stages.3.layers.*" of "stages.3.layers.0"."""
    return _kind_in(module, stages) if stages else kind_of(module)


@cache
def _kind_in(module: str, stages: Stages) -> str:
    parts = module.split(".")
    inside = [kind_of(".".join(parts[:i])) in stages for i in range(len(parts))]
    return ".".join(part if is_stage else kind_of(part) for part, is_stage in zip(parts, inside, strict=True))


def _lengths(paths: frozenset[str]) -> dict[str, frozenset[int]]:
    """Of each kind of list how many numbers there are below it, in any of its kind."""
    numbers: dict[str, set[str]] = {}
    for path in paths:
        parts = path.split(".")
        for i, part in enumerate(parts):
            if kind_of(part) != part:
                numbers.setdefault(".".join(parts[:i]), set()).add(part)
    lengths: dict[str, set[int]] = {}
    for where, those in numbers.items():
        lengths.setdefault(kind_of(where), set()).add(len(those))
    return {kind: frozenset(each) for kind, each in lengths.items()}
