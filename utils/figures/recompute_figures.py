"""What checkpointing does to memory, as figures: over the events of a step, and over the sequence length."""

from collections.abc import Callable, Mapping

from matplotlib.figure import Figure

from every_byte.figures.bars import INK, book_figure
from every_byte.ledger.trace import Trace
from every_byte.palette import assign
from every_byte.units import MiB, short

STYLES = ("-", "--", "-.", ":")


def curves(title: str, traces: Mapping[str, Trace], *, unit_bytes: int = MiB) -> Figure:
    """Requested bytes over each trace's events as a line; its peak has a dot and a number, forward's end a triangle.

    Unit:   units of `unit_bytes`.
    Raises: ValueError for more traces than there are line styles, and for one without the mark "forward".
    """
    _must_have_styles(traces)
    colours = assign(traces)
    with book_figure(title, 3.6) as (figure, axes):
        for (name, trace), style in zip(traces.items(), STYLES, strict=False):
            totals, end = _totals(trace, unit_bytes)
            colour = colours[name].light
            axes.step(range(len(totals)), totals, style, where="post", color=colour, linewidth=1.8, label=name)
            axes.plot(end, totals[end], "v", color=colour, markersize=7)
            at = max(range(len(totals)), key=totals.__getitem__)
            axes.plot(at, totals[at], "o", color=colour, markersize=4)
            said = {"textcoords": "offset points", "ha": "center", "color": colour, "size": 9}
            axes.annotate(f"{totals[at]:.0f}", (at, totals[at]), (0, 5), **said)
        axes.set_xlabel("allocations and frees, in order; a triangle where forward ends")
        axes.set_ylabel(f"units requested, of {short(unit_bytes)} each")
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.legend(frameon=False, labelcolor=INK)
    return figure


def _totals(trace: Trace, unit_bytes: int) -> tuple[list[float], int]:
    """Units requested after each allocation and free, from none; and how many of them belong to forward."""
    totals, n_bytes, end = [0.0], 0, None
    sizes: dict[int, int] = {}
    for event in trace:
        if event.action == "alloc":
            sizes[event.allocation] = event.n_bytes
            n_bytes += event.n_bytes
        elif event.action == "free":
            n_bytes -= sizes.pop(event.allocation)
        else:
            end = len(totals) - 1 if event.action == "mark" and event.name == "forward" else end
            continue
        totals.append(n_bytes / unit_bytes)
    if end is None:
        raise ValueError('traces must have the mark "forward": this one has not.')
    return totals, end


def over_length(
    title: str, forms: Mapping[str, Callable[[int], int]], found: Mapping[str, Mapping[int, int]]
) -> Figure:
    """Bytes that a layer keeps over the sequence length: each closed form as a line, with what was found on it.

    Unit:   bytes; the axis is in MiB.
    Raises: ValueError for more lines than there are line styles.
    """
    _must_have_styles(forms)
    colours = assign(forms)
    longest = max(s for points in found.values() for s in points)
    lengths = [longest * i // 64 for i in range(1, 65)]
    with book_figure(title, 3.4) as (figure, axes):
        for (name, form), style in zip(forms.items(), STYLES, strict=False):
            colour, points = colours[name].light, found[name]
            axes.plot(lengths, [form(s) / MiB for s in lengths], style, color=colour, label=name)
            axes.plot(points.keys(), [n_bytes / MiB for n_bytes in points.values()], "o", color=colour, markersize=5)
        axes.set_xlabel("sequence length s")
        axes.set_ylabel("MiB kept by a layer")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, labelcolor=INK, title="computed again")
    return figure


def _must_have_styles(lines: Mapping) -> None:
    if len(lines) > len(STYLES):
        raise ValueError(f"a figure has {len(STYLES)} line styles: got {len(lines)} lines.")
