"""What a report says reads well for none, one, two and many, and in each place of a run."""

from dataclasses import replace

import pytest
import torch
from reported import Steps, mlp, of_an_mlp, out_of_memory, reported

from every_byte.report.fits import Fits
from every_byte.report.place import Place
from every_byte.report.render.verdict import times
from every_byte.report.report import Report
from every_byte.units import exact
from utils import SimulatedGPU


def in_lines(report) -> str:
    return " ".join(repr(report).split())


def searching(gpu, n_refused: int, n_before: int = 0):
    """A program that asks for too much, so many times, and goes on with less."""
    steps = Steps(gpu)
    model = torch.nn.Linear(1000, 1000, device=gpu.device)
    optimizer = torch.optim.SGD(model.parameters())
    for b in [*[10] * n_before, *[60_000_000 + i for i in range(n_refused)], 10]:
        try:
            model(torch.empty(1, 1000, device=gpu.device).expand(b, 1000)).sum().backward()
        except torch.OutOfMemoryError:
            continue
        optimizer.step()
        steps.end()
        optimizer.zero_grad()
    return steps.found


@pytest.mark.parametrize(
    ("n_refused", "n_before", "said"),
    [
        (1, 0, "Memory ran out once, and the program went on: addmm asked for {} (step 1, forward)."),
        (1, 2, "Memory ran out once, and the program went on: addmm asked for {} (step 3, forward)."),
        (2, 0, "Memory ran out twice, and the program went on each time: the first time addmm asked for {} (step 1,"),
        (3, 1, "Memory ran out 3 times, and the program went on each time: the first time addmm asked for {} (step 2,"),
    ],
)
def test_a_refusal_that_was_survived_is_told(n_refused, n_before, said):
    report = reported(searching, n_refused, n_before, gpu="a100-80gb")
    asked = exact(60_000_000 * 1000 * 4)
    assert len(report.survived) == n_refused
    assert "Fits on a100-80gb: " in in_lines(report)
    assert said.format(asked) in in_lines(report)
    page = report.html()
    assert said.format(asked) in page
    last = f"The program went on after it; this is the last of {n_refused} such requests."
    assert ("The program went on after it." if n_refused == 1 else last) in page


def test_a_run_without_a_refusal_tells_of_none():
    assert of_an_mlp().survived == []
    assert "emory ran out" not in repr(of_an_mlp())
    assert out_of_memory().survived == []
    assert "the program went on" not in repr(out_of_memory())


def test_where_it_ran_out_for_good_those_before_are_told_as_well():
    with SimulatedGPU("t4-16gb") as gpu:
        steps = searching(gpu, 2)
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2**34, device=gpu.device)
    report = Report.of(gpu, steps=steps, exit_code=1, ended="torch.OutOfMemoryError: no")
    assert len(report.survived) == 2
    assert "It ran out after step 1, outside forward and backward: " in in_lines(report)
    said = "Memory ran out twice, and the program went on each time: the first time addmm asked for "
    assert said in in_lines(report)
    assert "(step 1, forward); then it ran out for good." in in_lines(report)


@pytest.mark.parametrize(("n", "said"), [(1, "once"), (2, "twice"), (3, "3 times"), (1000, "1,000 times")])
def test_how_often(n, said):
    assert times(n) == said
    found = of_an_mlp().fits
    tight = replace(of_an_mlp())
    tight.__dict__["fits"] = Fits((replace(found.own, n_retries=n), *found.verdicts[1:]), found.basis)
    assert f"It is tight: to make room, unused segments went back to the driver {said}." in in_lines(tight)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Place(3, "forward"), "in step 3, forward"),
        (Place(3, "", is_after=True), "after step 3, outside forward and backward"),
        (Place(3, "forward", is_after=True), "after step 3, forward"),
        (Place(1, "step"), "in step 1, optimizer"),
        (Place(0, "backward"), "in backward"),
        (Place(0, ""), "outside forward and backward"),
    ],
)
def test_a_place_within_a_sentence(place, said):
    assert place.at == said
    found = of_an_mlp().fits
    cut_up = replace(of_an_mlp())
    cut_up.__dict__["fits"] = Fits((replace(found.own, fits=False, runs_out=place.at),), found.basis)
    assert f"Memory runs out {said}: what is in use at once would fit, but not in the pieces" in in_lines(cut_up)


def test_a_program_that_was_interrupted_before_its_first_step_did_not_fail():
    report = reported(mlp, 0, exit_code=130, ended="interrupted")
    assert "It ended on a100-80gb before its first step was done, with less than 0.1 of 78.7 GiB reserved." in in_lines(
        report
    )
    assert "up to where it ended, before its first step was done: it may need more" in in_lines(report)
    assert "Gets at least that far on " in in_lines(report)


def test_notes_are_below_on_the_page_and_above_in_the_text():
    def program(gpu):
        with pytest.warns(UserWarning, match="poisson is not modelled"):
            torch.poisson(torch.ones(7, device=gpu.device))
        return mlp(gpu, 1)

    report = reported(program)
    assert "what is named above is not known" in in_lines(report)
    assert "what is named below is not known" in report.html()


@pytest.mark.long
@pytest.mark.parametrize(("n", "said"), [(61, "1 in the middle is left out"), (62, "2 in the middle are left out")])
def test_steps_that_are_left_out(n, said):
    assert said in reported(mlp, n).html()
    assert "left out" not in reported(mlp, 3).html().split("<script")[0]
