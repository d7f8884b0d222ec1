"""What checkpointing does to memory, as figures: over the events of a step, and over the sequence length."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from .figures import INK, book_figure
from .palette import assign
from .trace import Trace
from .units import MiB

STYLES = ("-", "--", "-.", ":")


def curves(title: str, traces: Mapping[str, Trace]) -> Figure:
    """Requested bytes over the events of each trace as a line; its peak has a dot and a number, forward's end a tick.

    Unit:   MiB.
    Raises: ValueError for more traces than there are line styles, and for one without the mark "forward".
    """
    _must_have_styles(traces)
    colours = assign(traces)
    with book_figure(title, 3.6) as (figure, axes):
        for (name, trace), style in zip(traces.items(), STYLES, strict=False):
            totals, end = _totals(trace)
            colour = colours[name].light
            axes.step(range(len(totals)), totals, style, where="post", color=colour, linewidth=1.8, label=name)
            axes.plot(end, totals[end], "|", color=colour, markersize=16)
            at = max(range(len(totals)), key=totals.__getitem__)
            axes.plot(at, totals[at], "o", color=colour, markersize=4)
            said = {"textcoords": "offset points", "ha": "center", "color": colour, "size": 9}
            axes.annotate(f"{totals[at]:.0f}", (at, totals[at]), (0, 5), **said)
        axes.set_xlabel("allocations and frees, in order; a bar ends forward")
        axes.set_ylabel("MiB requested")
        axes.set_ylim(0, 1.15 * axes.get_ylim()[1])
        axes.legend(frameon=False, labelcolor=INK)
    return figure


def _totals(trace: Trace) -> tuple[list[float], int]:
    """MiB requested after each allocation and free, from none; and how many of them belong to forward."""
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
        totals.append(n_bytes / MiB)
    if end is None:
        raise ValueError('traces must have the mark "forward": this one has not.')
    return totals, end


def over_length(title: str, lines: Mapping[str, Mapping[int, float]], unit: str) -> Figure:
    """A number for each sequence length, as a line with its points; both axes start at 0.

    Raises: ValueError for more lines than there are line styles.
    """
    _must_have_styles(lines)
    colours = assign(lines)
    with book_figure(title, 3.4) as (figure, axes):
        for (name, values), style in zip(lines.items(), STYLES, strict=False):
            colour = colours[name].light
            axes.plot(values.keys(), values.values(), style, marker="o", markersize=4, color=colour, label=name)
        axes.set_xlabel("sequence length s")
        axes.set_ylabel(unit)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, labelcolor=INK)
    return figure


def _must_have_styles(lines: Mapping) -> None:
    if len(lines) > len(STYLES):
        raise ValueError(f"a figure has {len(STYLES)} line styles: got {len(lines)} lines.")
