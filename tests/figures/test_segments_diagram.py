"""The diagram of segments says what runs of the same chain hold."""

import re

import pytest
from diagrams import words

from utils.experiments.recomputation import peak_in_units, sines
from utils.figures.segments_diagram import segments_held

UNIT = 2**20


@pytest.mark.parametrize(("n", "ways"), [(16, (None, 1, 4)), (6, (2, None)), (8, (8,))])
def test_it_says_what_runs_hold(n, ways):
    said = words(segments_held(n, ways))
    ends = [int(re.search(r": (\d+) unit", line)[1]) for line in said if "when forward ends" in line]
    peaks = [int(line.split()[-1]) for line in said if line.startswith("at the peak")]
    traces = [sines(n, k) for k in ways]
    assert ends == [trace.requested_bytes(trace.position("forward")) // UNIT for trace in traces]
    assert peaks == [peak_in_units(trace) for trace in traces]


def test_boxes_of_four_segments():
    svg = segments_held(16, (4,)).svg()
    assert svg.count('class="eb-d-fill-green"') == 4 + (4 + 3) + 2, "when forward ends, at the peak, in the legend"
    assert svg.count("stroke-dasharray") == 12 + 9 + 1
    assert words(segments_held(16, (4,))).count("2") == 3 + 1


def test_words():
    assert segments_held().alt == (
        "A chain of 16 layers, units held. all kept: 16 when forward ends, 16 kept + 2 of the node = 18 at the peak; "
        "1 segment: 1 when forward ends, 1 kept + 15 again + 2 of the node = 18 at the peak; "
        "4 segments: 4 when forward ends, 4 kept + 3 again + 2 of the node = 9 at the peak."
    )


def test_segments_are_equal():
    with pytest.raises(ValueError, match="ways must divide n: got 3 segments, n=16"):
        segments_held(16, (3,))
