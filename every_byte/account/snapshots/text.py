"""What a snapshot tells, as plain text of some 60 lines: facts, the peak by category and line, growth, segments."""

from collections.abc import Iterable
from textwrap import wrap

from every_byte.tables import text_table
from every_byte.units import exact, short

from .categories import CATEGORIES
from .groups import NO_STACK, NOT_SAID, Group
from .layout import Room, pools_of, room_at_end
from .lines import Lines, percent
from .stacks import readable
from .told import OutOfMemory, Told

WIDTH = 100
MOST_LINES, MOST_MAKERS, MOST_LEAKS, MOST_STEPS, MOST_POOLS, MOST_PIECES = 8, 2, 6, 5, 6, 5
_FACTS = 18


def text_of(told: Told) -> str:
    """The whole text."""
    lines = Lines(told)
    blocks = [_head(told), *(_failed(one, lines) for one in told.out_of_memory[-2:]), *_instants(told, lines)]
    blocks += [_steps(told), _leaks(told, lines), *_segments(told)]
    return "\n\n".join("\n".join(block) for block in [*blocks, _rules(told)] if block)


def _head(told: Told) -> list[str]:
    history = told.history
    peak, end = told.totals[told.peak_position], told.totals[-1]
    if not len(history):
        lines = [f"{told.name}: device {history.device}, segments alone, without a history."]
    else:
        lines = [
            f"{told.name}: device {history.device}, {len(history):,d} events, {len(history.allocations):,d} allocations"
            f"{', of a simulated GPU' if told.is_simulated else ''}.",
            f"  peak allocated {exact(peak)}, {when(told.peak_position)}",
            f"  peak reserved  {exact(max(told.reserved))}, {when(told.peak_reserved_position)}",
        ]
    lines.append(f"  at the end     {exact(end)} allocated, {exact(told.reserved[-1])} reserved")
    found = sum(each.block_bytes for each in history.found)
    lines += [f"  {name:<14} {fact}" for name, fact in _facts(told, found) if fact]
    return [part for line in lines for part in wrapped(line)]


def _facts(told: Told, found: int) -> Iterable[tuple[str, str]]:
    history = told.history
    if history.found:
        yield "before it", f"{exact(found)} in {len(history.found):,d} blocks that no event of the history made"
    yield "history", _completeness(told) if len(history) else ""
    yield "call stacks", _stacks(told)
    yield "settings", _settings(told.settings)
    others = [f"{device} ({n:,d} events)" for device, n in told.events_by_device.items() if device != history.device]
    yield "other devices", f"{', '.join(others[:8])}: --device {next(iter(others)).split()[0]}" if others else ""


def _completeness(told: Told) -> str:
    history = told.history
    if history.was_cut:
        return (
            "cut: blocks that were there before it have call stacks, so that their events were recorded and dropped; "
            "raise max_entries of _record_memory_history"
        )
    if told.is_round:
        return f"{len(history):,d} events are a round number: if that was max_entries, the first ones were dropped"
    if history.found:
        return "began when memory was allocated already; nothing tells that it was cut"
    return "whole: it begins with nothing allocated"


def _stacks(told: Told) -> str:
    if told.is_simulated:
        return "labels of a simulated GPU: operation, autograd node, module and phase"
    if not told.has_stacks:
        return "none: lines and categories are not known" if len(told.history) else ""
    return (
        "Python and C++" if told.has_cpp else 'Python alone: operators and autograd nodes are not known (stacks="all")'
    )


def _settings(settings: dict) -> str:
    """What differs from the usual settings."""
    usual = {"max_split_size": -1, "garbage_collection_threshold": 0.0, "expandable_segments": False}
    told = [f"{name} {settings[name]}" for name, value in usual.items() if name in settings and settings[name] != value]
    divisions = settings.get("roundup_power2_divisions")
    if isinstance(divisions, dict) and any(divisions.values()):
        told.append("roundup_power2_divisions " + ", ".join(f"{k}:{v}" for k, v in divisions.items() if v))
    said = settings.get("PYTORCH_CUDA_ALLOC_CONF")
    return readable("; ".join(told) + (f' ("{said}")' if said else "")) or ("as usual" if settings else "")


def _instants(told: Told, lines: Lines) -> Iterable[list[str]]:
    if told.at_peak and len(told.history):
        yield from _instant(told, lines, f"At the peak, {when(told.peak_position)}:", told.at_peak)
    if told.at_end and told.peak_position != len(told.history):
        yield _by_line(told, lines, "At the end, by the line that made it:", told.at_end, makers=0)


def _instant(told: Told, lines: Lines, title: str, live: list) -> Iterable[list[str]]:
    whole = sum(each.block_bytes for each in live)
    groups = told.by_category(live)
    total = Group("total", len(live), sum(each.n_bytes for each in live), whole)
    rows = [_cells(group.name, group, whole) for group in groups] + [[*_cells("total", total, whole)[:-1], ""]]
    yield text_table(title, ["category", "allocations", "requested", "in blocks", ""], rows, numbers=4).splitlines()
    yield _by_line(told, lines, "", live, makers=MOST_MAKERS)


def _by_line(told: Told, lines: Lines, title: str, live: list, *, makers: int) -> list[str]:
    whole = sum(each.block_bytes for each in live)
    rows, groups = [], told.by_line(live)
    for group in groups[:MOST_LINES]:
        rows.append(_cells(lines.short(group.name), group, whole))
        parts = group.parts if {part.name for part in group.parts} - {NO_STACK, NOT_SAID} else []
        rows += [_cells(f"  {part.name}", part, whole) for part in parts[:makers]]
        if makers and (rest := parts[makers:]):
            rows.append(_cells(f"  {len(rest)} more", _together(rest), whole))
    if rest := groups[MOST_LINES:]:
        rows.append(_cells(f"{len(rest)} other lines", _together(rest), whole))
    head = ["by line", "allocations", "requested", "in blocks", ""]
    return text_table(title, head, [[lines.cut(row[0], WIDTH - 50), *row[1:]] for row in rows], numbers=4).splitlines()


def _together(groups: list[Group]) -> Group:
    return Group("", *(sum(getattr(group, name) for group in groups) for name in ("n", "n_bytes", "block_bytes")))


def _cells(name: str, group: Group, whole: int) -> list[str]:
    share = percent(group.block_bytes, whole)
    return [name, f"{group.n:,d}", f"{group.n_bytes:,d}", f"{group.block_bytes:,d}", share]


def _steps(told: Told) -> list[str]:
    rows = [
        [f"{row['step']:,d}", *(f"{row[name]:,d}" for name in ("allocated_bytes", "max_allocated_bytes",
         "reserved_bytes", "max_reserved_bytes"))]
        for row in told.step_rows()
    ]  # fmt: skip
    if not rows:
        return ["No optimizer step is to be seen in it."] if len(told.history) else []
    if len(rows) > MOST_STEPS:
        rows = [*rows[:2], ["…", "", "", "", ""], *rows[-2:]]
    head = ["step", "allocated at its end", "at most within it", "reserved at its end", "at most within it"]
    return text_table(f"Each step, found by {told.steps.found_by}, bytes:", head, rows, numbers=4).splitlines()


def _leaks(told: Told, lines: Lines) -> list[str]:
    n = len(told.steps)
    if not told.leaks:
        if n >= 3:
            return wrapped(
                f"Nothing grows: in {n:,d} steps no line left more with each than it freed of what was there."
            )
        return wrapped("Whether something grows from step to step is told of three steps or more.") if n else []
    rows = [
        [lines.cut(lines.short(leak.place), 40), lines.cut(leak.made_by, 26), f"{leak.n_steps:,d}",
         f"{leak.bytes_a_step:,d}"]
        for leak in told.leaks[:MOST_LEAKS]
    ]  # fmt: skip
    if rest := told.leaks[MOST_LEAKS:]:
        rows.append([f"{len(rest)} more", "", "", f"{sum(leak.bytes_a_step for leak in rest):,d}"])
    whole = sum(leak.bytes_a_step for leak in told.leaks)
    title = f"Grows with each step, {exact(whole)} a step; these lines made what stays:"
    table = text_table(title, ["line", "made by", "steps", "bytes a step"], rows, numbers=2).splitlines()
    return table + wrapped("Who keeps it no history says: look for a list, a dict or an attribute that takes them up.")


def _segments(told: Told) -> Iterable[list[str]]:
    segments = told.history.segments
    if not segments:
        return
    rows = []
    for (pool, kind, stream, is_expandable), those in list(pools_of(segments).items())[:MOST_POOLS]:
        room = room_at_end(those)
        said = readable(kind[:20]), "expandable" * is_expandable, f"pool {pool[0]}.{pool[1]}" if any(pool) else ""
        name = ", ".join(filter(None, said))
        cells = room.reserved_bytes, room.allocated_bytes, room.pending_bytes, room.free_bytes, room.largest_bytes
        rows.append([name, str(stream), f"{len(those):,d}", *(f"{n:,d}" for n in cells)])
    head = ["at the end", "stream", "segments", "reserved", "allocated", "pending", "free", "largest piece"]
    yield text_table("", head, rows, numbers=6).splitlines()
    lines = [_free("At the end", told.room_at_end)]
    if len(told.history):
        lines.append(_free("Where the most is reserved", told.room_at_peak))
    yield [part for line in lines for part in wrapped(line)]


def _free(when: str, room: Room) -> str:
    if not room.pieces:
        return f"{when}, nothing lies free in {short(room.reserved_bytes)} of segments."
    pieces = ", ".join(short(n) for n in room.pieces[:MOST_PIECES]) + (", …" if len(room.pieces) > MOST_PIECES else "")
    n = len(room.pieces)
    return (
        f"{when}, {exact(room.free_bytes)} of {short(room.reserved_bytes)} lie free, in {n:,d} "
        f"piece{'' if n == 1 else 's'} ({pieces}): {room.fragmentation:.0%} of it is not in the largest."
    )


def _failed(one: OutOfMemory, lines: Lines) -> list[str]:
    room, driver = one.room, "" if one.driver_bytes is None else f"the driver had {exact(one.driver_bytes)} left, and "
    said = [
        f"Out of memory at event {one.position:,d}: {exact(one.n_bytes)} were asked for, by {lines.short(one.place)} "
        f"({one.made_by}); {driver}{exact(room.free_bytes)} lay free in segments, the largest piece "
        f"{exact(room.largest_bytes)}.",
    ]
    if room.free_bytes >= one.n_bytes > room.largest_bytes:
        said.append("There was room enough in all, but not in one piece: that is fragmentation.")
    return [part for line in said for part in wrapped(line)]


def _rules(told: Told) -> list[str]:
    if not told.at_peak or not len(told.history):
        return []
    there = {group.name for group in told.by_category(told.at_peak)}
    lines = [f"- {one.name}: {one.rule}" for one in CATEGORIES if one.name in there]
    note = "Blocks are requests, rounded up to 512 bytes; what they have beyond that is known at the end alone."
    said = ["By these rules, of which the first that holds counts:", *lines, note]
    return [part for line in said for part in wrapped(line)]


def when(position: int) -> str:
    """A place in the history in words."""
    return f"after event {position:,d}" if position else "before the first event"


def wrapped(line: str) -> list[str]:
    """A line in `WIDTH` columns."""
    indent = " " * (2 if line.startswith("- ") else _FACTS - 1 if line.startswith("  ") else 0)
    return wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]
