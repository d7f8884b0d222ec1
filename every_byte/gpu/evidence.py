"""Which operators recordings hold the simulated GPU to, on which architecture, by which version of PyTorch.

`evidence.json` is written by `tools/verified_operations.py`: an operator is in it where a recorded case in which it ran
agrees with the simulated GPU in every figure and every event.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from every_byte.gpu.memory.specs import GPUSpec

FILE = Path(__file__).with_name("evidence.json")
HELD, ELSEWHERE, UNRECORDED = "held", "elsewhere", "unrecorded"
"""How well what ran is known, from best to worst: as `Evidence.level` says it."""

Place = tuple[str, str]
"""A version of PyTorch and an architecture: ("2.13", "8.0")."""


@dataclass(frozen=True)
class Evidence:
    """What recordings say of the operators that ran on a simulated GPU.

    `held` are those that recordings of this version hold on this architecture, by the names of `Trace.operators`.
    `elsewhere` are those that only recordings of another architecture or version hold, and which; `unrecorded` those
    that none holds.

    Counts: operators but views and what brings values to the host, each type of numbers by itself; not how often one
            ran, nor with which shapes.
    Source: `evidence.json`, from the recordings in tests/reference of PyTorch's CUDA build.

    Example:
        >>> Evidence.of(["aten::mm float32"], find_spec("a100-80gb")).level
        'held'
    """

    torch_version: str
    architecture: str
    held: tuple[str, ...]
    elsewhere: Mapping[str, tuple[Place, ...]]
    unrecorded: tuple[str, ...]

    @classmethod
    def of(cls, operators: Iterable[str], spec: GPUSpec) -> "Evidence":
        """The evidence for these operators on this GPU, by the rules that it follows."""
        here = spec.torch_version, architecture_of(spec)
        held: list[str] = []
        elsewhere: dict[str, tuple[Place, ...]] = {}
        unrecorded: list[str] = []
        for name in operators:
            places = recorded().get(name, ())
            if here in places:
                held.append(name)
            elif places:
                elsewhere[name] = _nearest(places, here)
            else:
                unrecorded.append(name)
        return cls(*here, tuple(held), elsewhere, tuple(unrecorded))

    def __len__(self) -> int:
        return len(self.held) + len(self.elsewhere) + len(self.unrecorded)

    @property
    def level(self) -> str:
        """`held`: recordings of this architecture hold all that ran; `elsewhere`: of another one some; else
        `unrecorded`: no recording holds some of it."""
        return UNRECORDED if self.unrecorded else ELSEWHERE if self.elsewhere else HELD

    @property
    def recorded_on(self) -> tuple[Place, ...]:
        """Where else what is not held here was recorded: version and architecture, in order."""
        return tuple(sorted({place for places in self.elsewhere.values() for place in places}, key=in_order))

    def to_json(self) -> dict[str, Any]:
        """As plain JSON, with names in full."""
        return {
            "level": self.level,
            "torch_version": self.torch_version,
            "architecture": self.architecture,
            "n_operators": len(self),
            "n_held": len(self.held),
            "elsewhere": [
                {"operator": name, "recorded_on": [{"torch_version": v, "architecture": a} for v, a in places]}
                for name, places in self.elsewhere.items()
            ],
            "unrecorded": list(self.unrecorded),
        }


def architecture_of(spec: GPUSpec) -> str:
    """A GPU's compute capability as text: "8.9"."""
    major, minor = spec.capability
    return f"{major}.{minor}"


def is_recorded(spec: GPUSpec) -> bool:
    """Whether anything was recorded on this architecture by this version."""
    here = spec.torch_version, architecture_of(spec)
    return any(here in places for places in recorded().values())


@cache
def recorded() -> dict[str, frozenset[Place]]:
    """For each operator, where recordings hold it."""
    groups = json.loads(FILE.read_text(encoding="utf-8"))["operators"]
    return {name: frozenset(map(_place, where.split(", "))) for where, names in groups.items() for name in names}


@cache
def recorded_libraries() -> dict[str, tuple[str, ...]]:
    """By the name of a library that is not PyTorch, the versions that recordings are of."""
    versions = json.loads(FILE.read_text(encoding="utf-8"))["libraries"]
    return {name: tuple(those) for name, those in versions.items()}


def _place(text: str) -> Place:
    version, _, architecture = text.partition(" on ")
    return version, architecture


def _nearest(places: Iterable[Place], here: Place) -> tuple[Place, ...]:
    """Those of the same version, if there are any; else those of the same architecture; else all."""
    alike = [place for place in places if place[0] == here[0]] or [place for place in places if place[1] == here[1]]
    return tuple(sorted(alike or places, key=in_order))


def in_order(place: Place) -> tuple[tuple[int, ...], ...]:
    """By version, then by architecture: 2.9 comes before 2.13."""
    return tuple(tuple(map(int, part.split("."))) for part in place)


def text_of(recorded: Mapping[str, Iterable[Place]], libraries: Mapping[str, Iterable[str]]) -> str:
    """The content of `evidence.json`: each set of places once, with the operators that are held there; libraries."""
    groups: dict[str, list[str]] = {}
    for name, places in sorted(recorded.items()):
        where = ", ".join(f"{version} on {architecture}" for version, architecture in sorted(places, key=in_order))
        groups.setdefault(where, []).append(name)
    versions = {name: sorted(those) for name, those in sorted(libraries.items())}
    return json.dumps({"format": 1, "libraries": versions, "operators": dict(sorted(groups.items()))}, indent=0) + "\n"
