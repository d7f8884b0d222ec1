"""A comparison as plain text: whether the two agree, where they part, what explains the rest, and what to report."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from every_byte.ledger.source_lines import prefix_of
from every_byte.tables import Table
from every_byte.units import exact

from .alignment import ENDED, FREED, REFUSED, SEGMENTS, SIZE, Parting
from .comparison import Comparison, Difference
from .lines import Lines
from .sequences import Request, Requests
from .text import wrapped

AROUND, MOST_DIFFERENCES, MOST_FREED = 3, 10, 6


@dataclass(frozen=True)
class Compared:
    """What a comparison is of, in words: the file, the simulated GPU, the versions, and how the program ended."""

    file: str
    gpu: str
    versions: str
    ended: str
    files: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def comparison_text(comparison: Comparison, compared: Compared) -> str:
    """The whole text."""
    prefix = prefix_of(set(compared.files))
    blocks = [_head(comparison, compared)]
    parting = comparison.parting
    if parting is not None:
        blocks += [_parting(comparison, parting, prefix), _context(comparison, parting, prefix)]
        blocks += [_rest(comparison, parting)]
    blocks += [
        _figures(comparison),
        _settings(comparison),
        [p for note in compared.notes for p in wrapped(f"- {note}")],
    ]
    if parting is not None:
        blocks.append(_report(comparison, parting, compared, prefix))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _head(comparison: Comparison, compared: Compared) -> list[str]:
    n, real = comparison.n_compared, len(comparison.real)
    if comparison.agrees:
        headline = f"They agree to the byte: {n:,d} requests, in order, and what is freed between them."
    elif comparison.n_same == real:
        headline = f"They part, though all {real:,d} requests of the snapshot are of the simulation's sizes, in order."
    else:
        headline = f"They part: {comparison.n_same:,d} of the {real:,d} requests of the snapshot agree in order."
    lines = [
        f"{compared.file} and a simulated {compared.gpu} ({compared.versions}); {compared.ended}.",
        "",
        headline,
    ]
    if comparison.start:
        lines.append(
            f"The snapshot begins with request {comparison.start + 1:,d} of the simulation, before which "
            f"{exact(comparison.simulated.live_bytes_at(comparison.start))} are allocated; there, "
            f"{exact(comparison.real.found_bytes)}."
        )
    if comparison.was_stopped and real > n:
        lines.append(f"The snapshot goes on for {real - n:,d} requests, which were not compared: raise --steps.")
    if comparison.agrees and comparison.real.refused is not None:
        lines.append(f"It ends with a request that failed, of {exact(comparison.real.refused_bytes or 0)}.")
    return [part for line in lines for part in wrapped(line)]


def _parting(comparison: Comparison, parting: Parting, prefix: str) -> list[str]:
    real, simulated = comparison.real, comparison.simulated
    one = _at(real, parting.real) or (real.refused if parting.kind == REFUSED else None)
    other = _at(simulated, parting.simulated)
    what = {
        FREED: f"what is freed after request {parting.real + 1:,d}",
        SEGMENTS: f"what is taken from the driver for request {parting.real + 1:,d}",
        ENDED: "the simulation ends, and the snapshot goes on",
        REFUSED: "the request that failed",
    }.get(parting.kind, f"the size of request {parting.real + 1:,d}")
    lines = [f"The first difference is {what}:", _side("snapshot", one, prefix), _side("simulation", other, prefix)]
    if parting.kind == SIZE and all(side and "workspace" in side.made_by for side in (one, other)):
        lines.append("A workspace's size depends on the GPU: is --gpu that on which the snapshot was taken?")
    if parting.kind == FREED and one and other:
        ours, theirs = Counter(one.frees_from(0)), Counter(other.frees_from(comparison.start))
        lines += [_freed("snapshot", ours - theirs), _freed("simulation", theirs - ours)]
    if parting.kind == SEGMENTS and one and other:
        lines += [f"  snapshot    {_segments(one)}", f"  simulation  {_segments(other)}"]
    return [part for line in lines for part in wrapped(line)]


def _side(name: str, one: Request | None, prefix: str) -> str:
    if one is None:
        return f"  {name:<11} has ended"
    return f"  {name:<11} {exact(one.n_bytes)}, {one.place.removeprefix(prefix)}, {one.made_by}"


def _freed(name: str, freed: Counter[Any]) -> str:
    """What one of both alone frees after a request, each by its request's number."""
    pieces = [f"request {n + 1:,d}" if n >= 0 else f"{exact(size)} from before" for n, size in sorted(freed.elements())]
    more = f", and {len(pieces) - MOST_FREED} more" if len(pieces) > MOST_FREED else ""
    return f"  {name:<11} alone frees {', '.join(pieces[:MOST_FREED]) or 'nothing'}{more}"


def _segments(one: Request) -> str:
    return ", ".join(f"{action} {exact(n)}" for action, n in one.segments[:MOST_FREED]) or "nothing"


def _context(comparison: Comparison, parting: Parting, prefix: str) -> list[str]:
    """A few requests of both, around the first difference."""
    rows = []
    for offset in range(-AROUND, AROUND + 1):
        one, other = _at(comparison.real, parting.real + offset), _at(comparison.simulated, parting.simulated + offset)
        if one is not None or other is not None:
            mark = ">" if offset == 0 else " "
            rows.append([f"{mark} {parting.real + offset + 1:,d}", *_short(one, prefix), *_short(other, "")])
    head = ["request", "snapshot", "line", "made by", "simulation", "module", "made by"]
    return Table("", head, rows).text().splitlines()


def _short(one: Request | None, prefix: str) -> list[str]:
    if one is None:
        return ["-", "", ""]
    return [f"{one.n_bytes:,d}", Lines.cut(one.place.removeprefix(prefix), 24), Lines.cut(one.made_by, 20)]


def _rest(comparison: Comparison, parting: Parting) -> list[str]:
    if parting.kind == REFUSED:
        return []
    if not comparison.differences:
        return wrapped("Behind it all requests are of the same sizes: only when memory is freed or bought differs.")
    rows = [_difference(one) for one in comparison.differences[:MOST_DIFFERENCES]]
    if rest := comparison.differences[MOST_DIFFERENCES:]:
        rows.append(
            [f"{len(rest)} more", "", "", f"{sum(d.n for d in rest):,d}", f"{sum(d.n_bytes for d in rest):+,d}"]
        )
    head = ["made by", "snapshot", "simulation", "requests", "simulation more"]
    table = Table("What differs from there on, in bytes:", head, rows, numbers=4).text()
    whole = sum(one.n_bytes for one in comparison.differences)
    return [*table.splitlines(), f"In all the simulation requests {whole:+,d} bytes."]


def _difference(one: Difference) -> list[str]:
    sides = ["-" if n is None else f"{n:,d}" for n in (one.real_bytes, one.simulated_bytes)]
    return [Lines.cut(one.made_by, 40), *sides, f"{one.n:,d}", f"{one.n_bytes:+,d}"]


def _figures(comparison: Comparison) -> list[str]:
    rows = [
        [name, f"{real:,d}", f"{simulated:,d}", f"{simulated - real:+,d}" if simulated != real else "the same"]
        for name, real, simulated in zip(("peak allocated, in blocks of 512", "peak reserved"), *comparison.peaks)
    ]
    head = ["over what was compared, bytes", "snapshot", "simulation", ""]
    return Table("", head, rows, numbers=3).text().splitlines()


def _settings(comparison: Comparison) -> list[str]:
    lines = [
        f"- set otherwise: {name} is {real!r} in the snapshot, and {simulated!r} in the simulation"
        for name, (real, simulated) in comparison.settings.items()
    ]
    return [part for line in lines for part in wrapped(line)]


def _report(comparison: Comparison, parting: Parting, compared: Compared, prefix: str) -> list[str]:
    """What a report of the difference needs."""
    one, other = _at(comparison.real, parting.real), _at(comparison.simulated, parting.simulated)
    lines: Iterable[str] = (
        "If the program, its settings and its inputs are the same, the book is wrong. Please report it, with this:",
        f"    {compared.versions}; simulated {compared.gpu}; {compared.ended}",
        f"    differs in {parting.kind} at request {parting.real + 1:,d} of {len(comparison.real):,d}, simulation's "
        f"{parting.simulated + 1:,d}",
        f"    snapshot   {_pasted(one, prefix)}",
        f"    simulation {_pasted(other, '')}",
        f"    settings   {', '.join(comparison.settings) or 'the same'}",
        "    the GPU and the PyTorch that wrote the snapshot: (fill in: torch.__version__, "
        "torch.cuda.get_device_name())",
        "and with the snapshot and the program, or the smallest one that still differs.",
    )
    return list(lines)


def _pasted(one: Request | None, prefix: str) -> str:
    return "has ended" if one is None else f"{one.n_bytes} bytes, {one.place.removeprefix(prefix)}, {one.made_by}"


def _at(sequence: Requests, number: int) -> Request | None:
    return sequence.requests[number] if 0 <= number < len(sequence) else None
