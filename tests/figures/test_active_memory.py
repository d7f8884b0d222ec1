"""Each block over time, as it is drawn: one shape each, its owner's colour and hatch, and the peak on top."""

import pytest

from every_byte.figures.active_memory import active_memory, largest_blocks
from every_byte.palette import assign
from every_byte.units import MiB, exact
from utils import Ledger

PART = {"after": "step 1 zero_grad", "until": "step 2 zero_grad"}


def test_every_block_is_drawn_once(step):
    trace, _ = step
    figure = active_memory("A step", trace, **PART, smallest_bytes=0)
    n_drawn = sum(len(collection.get_paths()) for collection in figure.axes[0].collections[:-1])
    events = trace.between(**PART)
    there = trace.live_at(trace.position("step 1 zero_grad"))
    assert n_drawn == len(there) + sum(event.action == "alloc" for event in events)


def test_its_top_is_the_peak(step):
    trace, _ = step
    figure = active_memory("A step", trace, **PART)
    peak = Ledger.at_peak(trace, **PART).allocated_bytes
    assert figure.axes[0].get_ylim()[1] == pytest.approx(1.04 * peak / MiB)
    assert figure.axes[0].get_title(loc="left") == "A step"
    assert figure.axes[0].get_ylabel() == "MiB allocated"
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[0] == "parameters"
    assert names[-1] == "smaller blocks"
    assert {"activations", "gradients", "autocast copies", "temporaries"} <= set(names)


def test_the_legend_has_the_hatches(step):
    trace, _ = step
    figure = active_memory("", trace, **PART, smallest_bytes=0)
    colours = assign(text.get_text() for text in figure.legends[0].get_texts())
    swatches = dict(
        zip((text.get_text() for text in figure.legends[0].get_texts()), figure.legends[0].legend_handles, strict=True)
    )
    assert swatches["activations"].get_hatch() == colours["activations"].hatch == "."
    assert swatches["temporaries"].get_hatch() == colours["temporaries"].hatch == "x"


def test_the_peak_is_marked_where_it_is(step):
    trace, _ = step
    figure = active_memory("", trace, **PART, marks_peak=True)
    peak = Ledger.at_peak(trace, **PART).allocated_bytes
    (line,) = figure.axes[0].lines
    assert line.get_ydata() == [peak / MiB]
    assert [text.get_text() for text in figure.axes[0].texts] == [f"peak {exact(peak)}"]
    assert figure.axes[0].get_ylim()[1] > 1.1 * peak / MiB


def test_what_lies_below_the_cut_is_not_in_the_legend(step):
    trace, _ = step
    standing = Ledger.at(trace, "step 1 zero_grad").allocated_bytes
    figure = active_memory("", trace, **PART, from_bytes=standing)
    names = {text.get_text() for text in figure.legends[0].get_texts()}
    assert "activations" in names
    assert not {"parameters", "buffers", "optimizer state"} & names
    assert figure.axes[0].get_ylim()[0] == standing / MiB


def test_positions_are_as_good_as_marks(step):
    trace, _ = step
    by_mark, by_position = (
        active_memory("", trace, after=at) for at in ("step 2 forward", trace.position("step 2 forward"))
    )
    assert by_mark.axes[0].get_xlim() == by_position.axes[0].get_xlim()


def test_the_numbers_are_those_of_the_table(step):
    trace, _ = step
    end = trace.position("step 2 forward")
    window = {"after": end - 22, "until": end + 21}
    figure = active_memory("", trace, **window, labels=3)
    assert [text.get_text() for text in figure.axes[0].texts] == ["1", "2", "3"]
    made = [text.get_position()[0] for text in figure.axes[0].texts]
    assert made == sorted(made)
    at = trace.position("step 2 forward")
    fourth = next(n for n, event in enumerate(trace.events[at:]) if event.operation == "aten::nll_loss_backward")
    n_before = sum(event.action in ("alloc", "free") for event in trace.events[window["after"] : at + fourth])
    assert 0 < made[-1] - (n_before + 1) < 1
    rows = largest_blocks(trace, **window, n=3).splitlines()[-3:]
    assert [row.split()[0] for row in rows] == ["1", "2", "3"]
    assert "nll_loss_backward" in rows[-1]
    assert f"{2 * 256 * 50304 * 4:,}" in rows[-1]
