"""The sequences of an explorer at all combinations of its choices, as its page gets them."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from every_byte.formula.expressions import Expression
from every_byte.gpu.memory.specs import EXPLORED
from every_byte.ledger.requests import Requests
from every_byte.widget import Explorer
from every_byte.widget.controls import ChoiceControl, RangeControl

from .conditions import Condition
from .learning import Branch, Program
from .sequence import RequestSequence
from .steps import steps_of

Settings = dict[str, Any]


@dataclass(frozen=True)
class Learned:
    """The branches of each combination of choices, {names of options: branches}."""

    choices: tuple[str, ...]
    branches: Mapping[tuple[str, ...], tuple[Branch, ...]]


def learn(
    explorer: Explorer, requests: Callable[[Settings], Requests], features: Sequence[str], seed: int = 0
) -> Learned:
    """The sequences of an explorer: `requests` runs a setting, `features` are what its conditions may ask for."""
    draw = Random(seed)
    ranges = {s: c for s, c in explorer.controls.items() if isinstance(c, RangeControl)}
    choices = {s: c for s, c in explorer.controls.items() if isinstance(c, ChoiceControl) and not c.judges}
    known: list[tuple[Branch, ...]] = []
    found: dict[tuple[str, ...], tuple[Branch, ...]] = {}
    for names in itertools.product(*(control.enabled for control in choices.values())):
        chosen = {s: c.values[name] for (s, c), name in zip(choices.items(), names, strict=True)}
        workspace = EXPLORED[chosen["gpu"]].cublas_workspace_bytes

        def run(letters: Mapping[str, int], chosen: Settings = chosen) -> list[Any]:
            return steps_of(requests({s: letters[s] for s in ranges} | chosen))

        def drawn(workspace: int = workspace) -> dict[str, int]:
            return {s: drawn_from(control, draw) for s, control in ranges.items()} | {"W": workspace}

        program = Program(run, drawn, features)
        branches = next((of for of in known if program.has(of)), None)
        if branches is None:
            sequences = dict.fromkeys(branch.sequence for of in known for branch in of if branch.sequence)
            branches = program.learned(list(sequences))
            known.append(branches)
        found[names] = branches
    return Learned(tuple(choices), found)


def drawn_from(control: RangeControl, draw: Random) -> int:
    """A number that a slider can be set to, small ones as often as large ones."""
    low, high, step = control.minimum, control.maximum, control.step
    number = math.exp(draw.uniform(math.log(low), math.log(high + step)))
    return min(high, low + int(number - low) // step * step)
