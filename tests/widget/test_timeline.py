"""The kernel's half of a timeline and a verdict: columns that keep the peak, sentences, letters by choice, limits."""

import json
import re

import pytest
import torch

from every_byte.formula.formula import Formula, Term
from every_byte.gpu.capacity import Fit
from every_byte.ledger.trace import Trace
from every_byte.widget import Account, Control, Explorer, Limit, Timeline
from every_byte.widget.timeline import MOST_COLUMNS
from utils import Ledger, SimulatedGPU
from utils.experiments.training import StepSettings, train_steps

MARKS = {"after": "step 1 zero_grad", "until": "step 2 zero_grad"}
FITS = Fit("a100-80gb", 85_097_971_712, 587_202_560, 2**30)
SHORT = Fit("t4-16gb", 15_655_829_504, 587_202_560, 2**34, 0, "step 1 forward")


class Sums(torch.nn.Sequential):
    def forward(self, x):
        return super().forward(x).sum()


def trained(holding=()) -> Trace:
    """Two steps of a stack of 40 layers, a few hundred events each, on a GPU that holds segments already."""
    with SimulatedGPU("a100-80gb", holding=holding) as gpu:
        train_steps(
            gpu,
            lambda: Sums(*(torch.nn.Linear(300, 300, device=gpu.device) for _ in range(40))),
            lambda: [torch.empty(700, 300, device=gpu.device)],
            StepSettings(optimizer="foreach"),
            n_steps=2,
        )
    return gpu.trace


@pytest.fixture(scope="module")
def trace() -> Trace:
    return trained()


# ---- columns


def test_what_was_there_before_shows_in_segments_alone(trace):
    with SimulatedGPU("a100-80gb") as gpu:
        left = torch.empty(48 << 20, dtype=torch.uint8, device=gpu.device)
        beside = trained(gpu.memory_snapshot())
    assert beside.n_found == 1
    found, expected = Timeline.of(beside, **MARKS), Timeline.of(trace, **MARKS)
    assert (found.columns, found.peak, found.caption) == (expected.columns, expected.peak, expected.caption)
    assert {a - b for a, b in zip(found.reserved, expected.reserved, strict=True)} == {left.nbytes}


@pytest.mark.parametrize("most", [1, 7, 100, MOST_COLUMNS, 10_000])
def test_each_column_is_an_instant_of_the_ledger_and_one_of_them_is_its_peak(trace, most):
    found = Timeline.of(trace, **MARKS, most=most)
    first, last = trace.position(MARKS["after"]), trace.position(MARKS["until"])
    events = [i for i in range(first, last) if trace.events[i].action in ("alloc", "free")]
    assert found.n_events == len(events)
    assert len(found.places) == min(most, len(events))
    for column in {0, len(found.places) // 2, len(found.places) - 1, found.peak}:
        position = events[found.places[column] - 1] + 1
        assert found.at(column) == {k: n for k, n in Ledger.at(trace, position).parts.items() if n}
    assert found.at(found.peak) == Ledger.at_peak(trace, **MARKS).parts


def test_nothing_between_two_columns_is_higher_than_what_is_drawn(trace):
    every = Timeline.of(trace, **MARKS, most=10_000)
    few = Timeline.of(trace, **MARKS, most=20)
    total = [sum(numbers) for numbers in zip(*every.columns.values(), strict=True)]
    bounds = [every.n_events * part // 20 for part in range(21)]
    drawn = [sum(few.at(column).values()) for column in range(20)]
    assert drawn == [max(total[a:b]) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def test_phases_follow_one_another_without_a_gap(trace):
    found = Timeline.of(trace, **MARKS)
    assert [name for name, *_ in found.phases] == ["batch", "forward", "backward", "optimizer", "zero_grad"]
    assert [first for _, first, _ in found.phases] == [0, *(last + 1 for *_, last in found.phases[:-1])]
    assert found.phases[-1][2] == len(found.places) - 1


def test_reserved_is_what_the_allocator_had():
    with SimulatedGPU("a100-80gb") as gpu:
        gpu.trace.mark("begin")
        small = torch.empty(10, device=gpu.device)
        large = torch.empty(2**26, dtype=torch.uint8, device=gpu.device)
        reserved = gpu.memory_reserved()
        del large
        gpu.empty_cache()
        beside = torch.empty(10, device=gpu.device)
        gpu.trace.mark("end")
        del small, beside
    found = Timeline.of(gpu.trace, after="begin", until="end")
    assert found.reserved == [2**21, reserved, reserved, 2**21]


def test_the_peak_has_the_name_of_the_position_it_is_at(trace):
    peak = trace.peak_position(**MARKS)
    assert Timeline.of(trace, **MARKS, named={"the summit": peak}).peak_is == "the summit"
    assert Timeline.of(trace, **MARKS, named={"beside it": peak + 1}).peak_is == ""


def test_the_caption_is_the_ledger_at_the_peak(trace):
    found = Timeline.of(trace, **MARKS, named={"the summit": trace.peak_position(**MARKS)})
    n_bytes = Ledger.at_peak(trace, **MARKS).allocated_bytes
    assert re.match(
        rf"The peak of the step, in the summit: {n_bytes:,d} bytes \(.* MiB\) allocated: par", found.caption
    )
    assert "in backward: " in Timeline.of(trace, **MARKS).caption


def test_a_timeline_needs_events(trace):
    with SimulatedGPU("a100-80gb") as gpu:
        gpu.trace.mark("begin")
        gpu.trace.mark("end")
    with pytest.raises(ValueError, match="a timeline needs events: there are none between 'begin' and 'end'"):
        Timeline.of(gpu.trace, after="begin", until="end")
    with pytest.raises(ValueError, match="after must come before until"):
        Timeline.of(trace, after=MARKS["until"], until=MARKS["after"])


# ---- the outline of another step


def total(timeline):
    return [sum(numbers) for numbers in zip(*timeline.columns.values(), strict=True)]


@pytest.mark.parametrize("most", [1, 3, 7, 100, MOST_COLUMNS, 10_000])
def test_an_outline_keeps_its_peak_in_its_phase(trace, most):
    shown = Timeline.of(trace, **MARKS, most=most)
    for of_other in (5, 60, 10_000):
        other = Timeline.of(trace, after="model", until="step 1 zero_grad", most=of_other)
        name, n_bytes = shown.beside("before", other).outline
        assert name == "before"
        assert len(n_bytes) == len(shown.places)
        assert set(n_bytes) <= set(total(other))
        assert max(n_bytes) == max(total(other))


def test_a_step_is_its_own_outline(trace):
    shown = Timeline.of(trace, **MARKS)
    assert shown.beside("again", shown).outline == ("again", total(shown))
    assert shown.outline is None


def of_phases(*phases) -> Timeline:
    """A timeline whose bytes are what is given: (name, bytes of each column)."""
    n_bytes = [n for _, numbers in phases for n in numbers]
    spans, first = [], 0
    for name, numbers in phases:
        spans.append((name, first, first + len(numbers) - 1))
        first += len(numbers)
    peak = n_bytes.index(max(n_bytes))
    return Timeline({"activations": n_bytes}, n_bytes, list(range(1, first + 1)), first, spans, peak)


@pytest.mark.parametrize(
    ("other", "outline"),
    [
        ([("forward", [1, 9, 2, 3]), ("backward", [8, 7])], [9, 3, 8, 8, 7, 7]),
        ([("forward", [5]), ("backward", [1, 2, 3, 4, 5, 6, 7, 8])], [5, 5, 2, 4, 6, 8]),
        ([("batch", [6]), ("forward", [1, 2, 3]), ("backward", [4, 4])], [6, 3, 4, 4, 4, 4]),  # with what comes first
        ([("forward", [1, 2]), ("clip", [7]), ("backward", [3, 3])], [1, 7, 3, 3, 3, 3]),  # with what is before it
        ([("forward", [1, 2, 3]), ("optimizer", [4, 5, 6])], [1, 2, 3, 4, 5, 6]),  # nothing of backward: one whole
        ([("forward", [1]), ("backward", [2]), ("forward", [3]), ("backward", [4])], [1, 1, 2, 3, 3, 4]),
    ],
)
def test_phases_of_the_outline_lie_where_those_of_the_step_are(other, outline):
    shown = of_phases(("forward", [1, 1]), ("backward", [2, 2, 2, 2]))
    assert shown.beside("other", of_phases(*other)).outline[1] == outline


def test_the_caption_says_the_peak_of_the_outline(trace):
    other = of_phases(("forward", [10, 2**20]))
    caption = Timeline.of(trace, **MARKS).beside("of a small one", other).caption
    assert caption.endswith(" The peak of a small one: 1,048,576 bytes (1 MiB) allocated.")


# ---- in an explorer


def make(**account):
    formula = Formula("x", (Term("parameters", "2*L*d", 4), Term("activations", "b*d", 4)))
    limits = {"late": Limit("100 - b", "for more than 100 rows it needs more.")}
    return Explorer(
        title="A step",
        controls=[
            Control.choice(
                "model", "model", ["one", "two"], letters={"one": {"L": 1, "d": 8}, "two": {"L": 2, "d": 16}}
            ),
            Control.range("b", "rows", 1, 1000, value=4),
        ],
        formula=lambda settings: {"early": formula, "late": formula},
        measure=lambda settings: Account({"early": {}, "late": {}}, device="a100-80gb", **account),
        limits=limits,
    )


def test_the_answer_brings_the_timeline_and_the_verdict_to_the_page(trace):
    explorer = make(timeline=Timeline.of(trace, **MARKS, capacity_bytes=FITS.margin_bytes), fit=FITS)
    explorer.table()
    shown = json.loads(json.dumps(explorer.answer))
    assert shown["fit"] == {"fits": True, "headline": FITS.headline, "reasons": FITS.reasons}
    assert len(json.dumps(shown["timeline"])) < 50_000
    assert set(shown["timeline"]["colours"]) == set(shown["timeline"]["columns"])
    assert shown["timeline"]["capacity"] == FITS.margin_bytes


def test_the_plain_table_says_verdict_and_peak(trace):
    timeline = Timeline.of(trace, **MARKS)
    said = repr(make(timeline=timeline, fit=SHORT).table()).splitlines()[-1]
    assert said == f"simulated on a100-80gb. {SHORT.headline}. {SHORT.reasons} {timeline.caption}"
    assert repr(make().table()).splitlines()[-1] == "simulated on a100-80gb"


def test_a_remark_comes_with_the_answer():
    explorer = make(remark="Two bytes less.", fit=FITS)
    said = repr(explorer.table()).splitlines()[-1]
    assert said == f"simulated on a100-80gb. {FITS.headline}. {FITS.reasons} Two bytes less."
    assert explorer.answer["remark"] == "Two bytes less."
    assert make().answer["remark"] == ""


def test_an_error_has_neither():
    explorer = make()
    explorer.measure = lambda settings: 1 / 0
    explorer.table()
    assert (explorer.answer["timeline"], explorer.answer["fit"]) == (None, None)


# ---- letters and limits


def test_a_choice_may_stand_for_several_letters():
    explorer = make()
    assert explorer.predict(explorer.value)["early"] == {"parameters": 64, "activations": 128}
    explorer.model = "two"
    assert explorer.predict(explorer.value)["early"] == {"parameters": 256, "activations": 256}
    assert explorer.spec["which"] == [0]  # it selects no formula
    with pytest.raises(ValueError, match="letters must give each option the same letters, in order: got"):
        Control.choice("m", "m", ["x", "y"], letters={"x": {"L": 1}, "y": {"d": 1}})
    with pytest.raises(ValueError, match="letter and letters go together: got letter='e', letters="):
        Control.choice("m", "m", ["x"], letter="e", letters={"x": {"L": 1}})


def test_beyond_its_limit_a_stage_has_no_prediction():
    explorer = make()
    explorer.b = 100
    assert list(explorer.predict(explorer.value)) == ["early", "late"]
    explorer.b = 101
    assert list(explorer.predict(explorer.value)) == ["early"]
    lines = [re.split(r"\s{2,}", line.strip()) for line in repr(explorer.table()).splitlines()]
    assert [line[2 if line[0] in ("parameters", "activations") else 1] for line in lines[2:8]][3:] == ["–", "–", "–"]
    assert lines[-1][0] == ("simulated on a100-80gb. No prediction of late: for more than 100 rows it needs more.")


def limited(limits):
    good = make()
    return Explorer(
        title="A step",
        controls=[*good.controls.values(), Control.choice("way", "way", {"short": 0, "long": 1})],
        formula=good.formula,
        measure=good.measure,
        limits=limits,
    )


def test_a_stage_may_have_several_limits_and_some_for_a_few_options():
    of_long = Limit("50 - b", "a long way has 50 rows.", {"way": ["long"]})
    explorer = limited({"early": of_long, "late": [of_long, Limit("100 - b", "there are 100.")]})
    expected = {
        (0, 50): "simulated on a100-80gb",
        (1, 50): "simulated on a100-80gb",
        (0, 51): "simulated on a100-80gb",
        (1, 51): "No prediction of early, late: a long way has 50 rows.",
        (0, 101): "No prediction of late: there are 100.",
        (1, 101): "No prediction of early, late: a long way has 50 rows.",
    }
    for (way, b), said in expected.items():
        explorer.value = explorer.value | {"way": way, "b": b}
        assert repr(explorer.table()).splitlines()[-1].endswith(said)
        assert ("early" in explorer.predict(explorer.value)) == ("early" not in said)


def test_a_limit_of_two_choices_needs_both():
    explorer = limited({"late": Limit("0 - 1", "never.", {"way": ["long"], "model": ["two"]})})
    for way, model, holds in [(0, "one", True), (1, "one", True), (0, "two", True), (1, "two", False)]:
        assert ("late" in explorer.predict(explorer.value | {"way": way, "model": model})) == holds


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            {"late": Limit("b", "no.", {"way": ["short", "wide"]})},
            "when of a limit must name options of 'way': got 'wide'; short, long.",
        ),
        (
            {"late": [Limit("b", "no.", {"b": ["3"]})]},
            "when of a limit must name options of 'b': got '3'; there are none.",
        ),
        ({"never": Limit("b", "no.")}, "limits must name stages of the formula: got 'never'; there are early, late."),
        (
            {"late": Limit("b - q", "no.")},
            "each letter of a limit needs a control: got 'q' in 'b - q', but the controls",
        ),
    ],
)
def test_a_limit_that_cannot_be_is_refused(limits, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        limited(limits)
