"""A run as steps: what is requested, freed, counted under a term, and when the account is taken; without addresses.

A step names an allocation by its *kind*, which all share that the program makes at one place with one size, and by its
place among those of the kind that are alive: 0 the newest, 1 the one before; or -1 the oldest, -2 the next.
"""

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from every_byte.ledger.events import Event
from every_byte.ledger.requests import Moment, Requests

_NUMBER = re.compile(r"\d+")
GPU = "{gpu}"
"""Stands for a GPU's name in a sentence."""


@dataclass(frozen=True)
class Kind:
    """What allocations have in common; `site` tells apart what one operation makes at several places.

    `term` is what they count as at first, "" for nothing; `letter` is their size, where that is a letter of its own.
    """

    n_bytes: int
    operation: str
    site: Hashable = ()
    term: str = ""
    letter: str = ""


@dataclass(frozen=True)
class Request:
    """An allocation is made."""

    kind: Kind


@dataclass(frozen=True)
class Free:
    """One is freed."""

    kind: Kind
    place: int


@dataclass(frozen=True)
class Name:
    """From now on one counts as this term's; "" for none."""

    kind: Kind
    place: int
    term: str


@dataclass(frozen=True)
class Mark:
    """The account of a stage is taken: of these terms, and whatever else counts as one. `on_host` are bytes elsewhere.

    `in_blocks`: whole blocks count.
    """

    stage: str
    terms: tuple[str, ...]
    on_host: tuple[tuple[str, int], ...] = ()
    in_blocks: bool = False


@dataclass(frozen=True)
class Refusal:
    """The program ends with a sentence: `parts` are those between the numbers in it."""

    parts: tuple[str, ...]
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, sentence: str, gpu: str) -> "Refusal":
        """Of what a program said on that GPU; what is worked out from a number alone, as its divisors, is left out."""
        first, found, _ = sentence.partition("; nearest: ")
        text = (f"{first}." if found else sentence).replace(gpu, GPU)
        return cls(tuple(_NUMBER.split(text)), tuple(map(int, _NUMBER.findall(text))))


@dataclass(frozen=True)
class Repeat:
    """Steps that follow so many times."""

    times: int
    of: "tuple[Step, ...]"


Step: TypeAlias = Request | Free | Name | Mark | Refusal | Repeat

_WORKSPACE = "cuBLAS workspace"


def steps_of(requests: Requests) -> list[Step]:
    """A run up to its last moment, step by step."""
    return list(_Steps(requests).all())


class _Steps:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._first = _first_terms(requests)
        self._kinds: dict[int, Kind] = {}
        self._alive: dict[Kind, list[int]] = {}
        self._terms: dict[int, str] = {}

    def all(self) -> Iterator[Step]:
        events, start = self._requests.trace.events, 0
        for moment in self._requests.moments:
            for event in events[start : moment.position]:
                yield from self._step(event)
            start = moment.position
            yield from self._at(moment)
        if self._requests.refused:
            for event in events[start:]:
                yield from self._step(event)
            yield Refusal.of(self._requests.refused, self._requests.trace.gpu)

    def _step(self, event: Event) -> Iterator[Step]:
        if event.action == "alloc":
            kind = self._kinds[event.allocation] = kind_of(event, self._first.get(event.allocation, ""))
            self._terms[event.allocation] = kind.term
            self._alive.setdefault(kind, []).append(event.allocation)
            yield Request(kind)
        elif event.action == "free":
            kind, place = self._kinds[event.allocation], self._place(event.allocation)
            self._alive[kind].remove(event.allocation)
            self._terms.pop(event.allocation, None)
            yield Free(kind, place)

    def _place(self, number: int) -> int:
        alive = self._alive[self._kinds[number]]
        oldest = alive.index(number)
        newest = len(alive) - 1 - oldest
        return newest if newest <= oldest else -1 - oldest

    def _at(self, moment: Moment) -> Iterator[Step]:
        wanted = {number: term for term, numbers in moment.kept.items() for number in numbers}
        for number in sorted({*wanted, *self._terms}):
            if (term := wanted.get(number, "")) != self._terms.get(number, ""):
                self._terms[number] = term
                yield Name(self._kinds[number], self._place(number), term)
        terms = () if moment.in_blocks else tuple(moment.kept)
        yield Mark(moment.stage, terms, tuple(moment.on_host.items()), moment.in_blocks)


def _first_terms(requests: Requests) -> dict[int, str]:
    """What each allocation counts as at the first moment that it lives to see."""
    born = {event.allocation: i for i, event in enumerate(requests.trace.events) if event.action == "alloc"}
    found: dict[int, str] = {}
    for moment in requests.moments:
        wanted = {number: term for term, numbers in moment.kept.items() for number in numbers}
        for number, position in born.items():
            if position < moment.position:
                found.setdefault(number, wanted.get(number, ""))
    return found


def kind_of(event: Event, term: str = "") -> Kind:
    """The kind of an allocation: where it was made, blocks of a model aside, its size, and what it counts as."""
    site = (_NUMBER.sub("#", event.module), event.node, _NUMBER.sub("#", event.phase), event.name)
    return Kind(event.n_bytes, event.operation, site, term, "W" if event.name == _WORKSPACE else "")


def unfolded(steps: tuple[Step, ...] | list[Step]) -> Iterator[Step]:
    """The same without repeats."""
    for step in steps:
        if isinstance(step, Repeat):
            for _ in range(step.times):
                yield from unfolded(step.of)
        else:
            yield step
