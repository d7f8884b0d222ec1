"""The sequences of an explorer at all combinations of its choices, as its page gets them."""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from every_byte.formula.expressions import Expression
from every_byte.gpu.memory.specs import EXPLORED, GPUSpec
from every_byte.ledger.requests import Requests
from every_byte.widget import Explorer
from every_byte.widget.controls import ChoiceControl, RangeControl

from .learning import Branch, Program
from .sequence import RequestSequence, kinds
from .steps import Free, Kind, Mark, Name, Refusal, Repeat, Request, Step, steps_of

Settings = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[2] / "book" / "sequences"


def path_of(name: str) -> Path:
    """Where the sequences of an explorer are stored."""
    return FOLDER / f"{name}.json"


def stored_sequences(name: str) -> dict[str, Any] | None:
    """What is stored of an explorer; None for one whose program is not known."""
    path = path_of(name)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


@dataclass(frozen=True)
class Learned:
    """The branches of each combination of choices, {names of options: branches}."""

    choices: tuple[str, ...]
    branches: Mapping[tuple[str, ...], tuple[Branch, ...]]


def learn(
    explorer: Explorer,
    requests: Callable[[Settings], Requests],
    features: Sequence[str] = (),
    most: Mapping[str, int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Learned:
    """The sequences of an explorer: `requests` runs a setting, `features` are what its conditions may ask for.

    `most` are the largest numbers of sliders to learn from, where a run of larger ones takes long;
    `progress` hears of combinations of choices that are done, and of programs found.
    """
    draw, most = Random(0), most or {}
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
            return {s: drawn_from(control, draw, most.get(s)) for s, control in ranges.items()} | {"W": workspace}

        program = Program(run, drawn, features)
        branches = next((of for of in known if program.has(of)), None)
        if branches is None:
            sequences = dict.fromkeys(branch.sequence for of in known for branch in of if branch.sequence)
            branches = program.learned(list(sequences))
            known.append(branches)
        found[names] = branches
        if progress:
            progress(len(found), len(known))
    return Learned(tuple(choices), found)


def drawn_from(control: RangeControl, draw: Random, most: int | None = None) -> int:
    """A number that a slider can be set to, up to the most, small ones as often as large ones."""
    low, high, step = control.minimum, most or control.maximum, control.step
    number = math.exp(draw.uniform(math.log(low), math.log(high + step)))
    return min(high, low + int(number - low) // step * step)


def of_page(learned: Learned) -> dict[str, Any]:
    """What page/sequence.js plays: sizes, operations and sequences once, and for each combination which branches."""
    shared = _Shared()
    all_branches = list(dict.fromkeys(learned.branches.values()))
    branches = [[shared.branch(branch) for branch in of] for of in all_branches]
    return {
        "choices": learned.choices,
        "which": [all_branches.index(of) for of in learned.branches.values()],
        "branches": branches,
        "sequences": [shared.sequence(sequence) for sequence in shared.sequences],
        "sizes": [Expression(size).tree() for size in shared.sizes],
        "operations": list(shared.operations),
        "gpus": {name: _of_gpu(spec) for name, spec in EXPLORED.items()},
    }


def _of_gpu(spec: GPUSpec) -> dict[str, Any]:
    return {
        "total": spec.total_bytes, "context": spec.context_bytes, "said": spec.context_said,
        "workspace": spec.cublas_workspace_bytes, "rules": str(spec.rules),
    }  # fmt: skip


class _Shared:
    """What sequences have in common, each once and by its place."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.operations: dict[str, int] = {}
        self.sequences: dict[RequestSequence, int] = {}

    def branch(self, branch: Branch) -> list[Any]:
        """[conditions, place of the sequence], the place -1 where there is none."""
        conditions = [[self._size(of.room), of.holds] for of in branch.conditions]
        return [conditions, -1 if branch.sequence is None else _place(self.sequences, branch.sequence)]

    def sequence(self, sequence: RequestSequence) -> dict[str, Any]:
        """Its kinds as [size, operation, term], and its steps, in which a kind is its place."""
        of_kind = {kind: i for i, kind in enumerate(kinds(sequence.steps))}
        pairs = zip(of_kind, sequence.sizes, strict=True)
        return {
            "kinds": [[self._size(size), _place(self.operations, kind.operation), kind.term] for kind, size in pairs],
            "steps": self._steps(sequence.steps, of_kind, iter(sequence.repeats), sequence.said),
        }

    def _steps(
        self, steps: Sequence[Step], of_kind: Mapping[Kind, int], repeats: Iterator[str], said: Sequence[str]
    ) -> list[Any]:
        found: list[Any] = []
        for step in steps:
            match step:
                case Request(kind):
                    found.append(of_kind[kind])
                case Free(kind, place):
                    found.append([of_kind[kind], place])
                case Name(kind, place, term):
                    found.append([of_kind[kind], place, term])
                case Mark(stage, terms, on_host, in_blocks):
                    found.append({"stage": stage, "terms": terms, "host": dict(on_host), "blocks": in_blocks})
                case Refusal(parts, _):
                    found.append({"parts": parts, "numbers": [self._size(size) for size in said]})
                case Repeat(_, of):
                    times = self._size(next(repeats))
                    found.append({"times": times, "of": self._steps(of, of_kind, repeats, said)})
        return found

    def _size(self, size: str) -> int:
        return _place(self.sizes, size)


def _place(known: dict[Any, int], item: Any) -> int:
    return known.setdefault(item, len(known))
