"""Pictures of an account: its peak against a rule of thumb, the moments of its formula, what each remedy saves."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import nan
from typing import Any

from matplotlib.figure import Figure

from every_byte.account.of_model import Account
from every_byte.advice.advice import Advice
from every_byte.closed_form.closed_form import ClosedForm, held_at
from every_byte.figures.bars import INK, legend, stacked_bars, titled_figure
from every_byte.palette import assign, colour_of
from every_byte.units import GiB

from .curves import STYLES

_SMALL = 100  # a category below a hundredth of the peak is drawn with all others that small
_WIDTH = 6.0  # inches: narrow, so that letters are large on a phone


def against_rule(title: str, mine: Account, apart: Mapping[str, str]) -> Figure:
    """The peak of an account below what "16 bytes a parameter" counts: weights, gradients and two averages of each.

    `apart` maps operations to words: the rows that they made have a piece of the bar to themselves, with these words.

    Counts: a rule for weights in float32, which are those of the account.
    Unit:   bytes, requested; the axis is in MiB.
    """
    least = mine.ledger.requested_bytes // _SMALL
    weights = mine.ledger.parts["parameters"]
    rule = {"parameters": weights, "gradients": weights, "optimizer state": 2 * weights}
    pieces: dict[str, int] = {}
    for row in mine.ledger:
        name = apart.get(row.operation, row.category)
        pieces[name] = pieces.get(name, 0) + row.n_bytes
    large = {name: n_bytes for name, n_bytes in pieces.items() if n_bytes >= least}
    in_order = [name for name in (*mine.ledger.parts, *apart.values()) if name in large]
    remainder = {"everything else": sum(pieces.values()) - sum(large.values())}
    bars = {"16 bytes a\nparameter": rule, "the account": {name: large[name] for name in in_order} | remainder}
    return stacked_bars(title, bars, "MiB requested at the peak")


def over_letter(title: str, form: ClosedForm, sizes: Iterable[int], what: str) -> Figure:
    """What a formula of one letter says of each moment at which the peak may be, as a line over that letter.

    `what` is the letter in words, for its axis. A dot marks the first size at which another moment is the highest.

    Unit:   bytes, requested; the axis is in GiB.
    Raises: ValueError for a formula of several letters, for more moments than there are line styles, and for a size at
            which no form was found.
    """
    (letter, *others), across = form.letters, sorted(sizes)
    if others:
        raise ValueError(
            f"form must have one letter: got {', '.join(form.letters)}; derive it with formula(letters=…)."
        )
    if len(form.moments) > len(STYLES):
        raise ValueError(f"form must have at most {len(STYLES)} moments: got {len(form.moments)}.")
    colours = assign(map(str, form.moments))
    with titled_figure(title, 3.4, _WIDTH) as (figure, axes):
        for (moment, forms), style in zip(form.moments.items(), STYLES, strict=False):
            n_bytes = [sum(held.values()) / GiB if (held := held_at(forms, (size,))) else nan for size in across]
            look: dict[str, Any] = {"color": colours[str(moment)].light, "linewidth": 2, "label": str(moment)}
            axes.plot(across, n_bytes, style, **look)
        for before, size in pairwise(across):
            if form.moment(**{letter: size}) != form.moment(**{letter: before}):
                at = size, form.bytes(**{letter: size}) / GiB
                axes.plot(*at, "o", color=INK)
                axes.annotate(f"{letter} = {size:,d}", at, (-4, 8), textcoords="offset points", ha="right", color=INK)
        axes.set_xlabel(what)
        axes.set_ylabel("GiB requested")
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, labelcolor=INK, loc="lower right")
    return figure


def savings(title: str, advice: Advice) -> Figure:
    """By how much each remedy, alone, lowers the peak: a bar for each, and whether the run then fits.

    Unit: bytes, in whole blocks; the axis is in GiB.
    """
    singles = [ran for ran in advice.runs if len(ran.remedies) == 1]
    looks = {True: ("fits", colour_of("blue")), False: ("does not fit", colour_of("orange"))}
    with titled_figure(title, 0.9 + 0.42 * len(singles), _WIDTH) as (figure, axes):
        for row, ran in enumerate(singles):
            saved, (verdict, colour) = (advice.plain.peak_bytes - ran.peak_bytes) / GiB, looks[ran.fits]
            axes.barh(row, saved, height=0.4, color=colour.light, hatch=colour.hatch, label=verdict)
            words = f"{ran.name}: {round(saved, 2) + 0.0:.2f} GiB" + (", fits" if ran.fits else "")  # 0.00, never -0.00
            axes.text(0, row - 0.28, words, va="bottom")
        axes.set_ylim(len(singles) - 0.6, -1)
        axes.set_yticks([])
        axes.set_xlabel("GiB less at the peak than without a remedy")
        axes.spines["left"].set_visible(False)
        legend(axes)
    return figure
