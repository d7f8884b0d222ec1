"""The checkpoint explorer in a bare page: predictions by choice, the outline of the step without, what is saved."""

import random

import pytest
from bare_page import draw, redraw, settle, state

from every_byte.widget.stages import reasons_beyond
from utils.experiments.checkpointed_step import OPTIMAL, CheckpointedStep
from utils.experiments.gpt_step import predicted
from utils.explorers.checkpoint import WITHOUT, checkpoint_explorer

SMALL = {"model": "gpt2", "b": 1, "s": 64}


@pytest.fixture(scope="module")
def explorer():
    return checkpoint_explorer()


@pytest.fixture(scope="module")
def shown(explorer):
    """GPT-2 small, every block."""
    return state(explorer)


@pytest.fixture(scope="module")
def near(explorer):
    """A checkpoint that saves next to nothing: both steps have nearly the same peak."""
    return state(explorer, regions="attention only")


@pytest.fixture(scope="module")
def plain(explorer):
    return state(explorer, **SMALL, regions="none")


@pytest.fixture(scope="module")
def planned(explorer):
    return state(explorer, **SMALL, policy=OPTIMAL, budget_mib=1)


@pytest.fixture(scope="module")
def refused(explorer):
    return state(explorer, **SMALL, regions="k segments", k=20)


# ---- prediction


def test_predictions_equal_pythons_for_200_random_settings(page, explorer):
    pick = random.Random(5)
    settings, expected, n_beyond = [], [], 0
    for _ in range(200):
        setting = {
            c.symbol: c.values[pick.choice(c.enabled)] for c in explorer.controls.values() if hasattr(c, "values")
        }
        setting |= {"b": pick.randint(1, 128), "s": pick.randint(16, 16384), "k": pick.randint(1, 48), "budget_mib": 7}
        step = CheckpointedStep(**setting | {"k": 1})
        letters = step.letters | {"k": setting["k"]}
        beyond = reasons_beyond(explorer.limits, letters, setting)
        n_beyond += len(beyond)
        rows = [
            [stage, term.name, None if stage in beyond else term.size.value(letters)]
            for stage, form in predicted(step.held).items()
            for term in form.terms
        ]
        settings.append(setting)
        expected.append(rows)
    predict = (
        "(v) => explorers.predict(spec, v).map(({ stage, name, bytes }) => [stage, name, isNaN(bytes) ? null : bytes])"
    )
    assert page.evaluate(f"([spec, values]) => values.map({predict})", [explorer.spec, settings]) == expected
    assert 200 < n_beyond < 500


def test_predicted_and_simulated_agree(page, shown):
    view = draw(page, shown)
    *within, (_, predicted, simulated) = view.stages()
    assert [a == b for _, a, b in within] == [True, True]
    assert predicted is None
    assert simulated > 0
    assert "agree in every term of every stage that has a prediction. Of these moments, backward of the" in view.status
    assert page.locator(".eb").get_attribute("data-alarm") == "false"


def test_where_a_solver_chooses_nothing_is_predicted_and_that_is_said(page, planned):
    view = draw(page, planned)
    assert [a is None for _, a, _ in view.stages()] == [True, True, False]
    assert view.status.endswith(
        "No prediction of end of forward, backward of the loss: what is kept follows from a solver's choice, not from "
        "a formula."
    )
    assert page.locator(".eb").get_attribute("data-alarm") == "false"


def test_where_no_stage_has_a_prediction_none_is_said_to_agree(page, explorer):
    found = state(explorer, policy=OPTIMAL, budget_mib=100)
    view = draw(page, found)
    assert view.status.startswith("Of these moments, backward of the loss has the most: ")
    assert "agree" not in view.status


def test_regions_that_cannot_be_give_a_sentence(page, refused):
    view = draw(page, refused)
    assert view.state == "failed"
    assert "⚠" in view.root.locator(".eb-status").evaluate("node => getComputedStyle(node, '::before').content")
    assert view.status == (
        "k may be the number of blocks at most: got k=20, and the model has 12. No prediction of end of forward, "
        "backward of the loss, backward of the embedding: there are no such regions."
    )
    assert not page.locator(".eb-remark").is_visible()
    assert not page.locator(".eb-timeline").is_visible()


# ---- what is saved


def test_what_is_saved_and_added_is_said_above_the_timeline(page, shown, plain):
    draw(page, shown)
    remark = page.locator(".eb-remark")
    assert remark.inner_text() == shown[2]["remark"]
    assert remark.inner_text().startswith("Saves 3,803,185,440 bytes (3.54 GiB) at the end of forward; saves ")
    assert remark.bounding_box()["y"] < page.locator(".eb-timeline").bounding_box()["y"]
    spec, value, answer = shown
    page.evaluate("([spec, value, answer]) => view.draw(value, answer)", [spec, value | {"b": 3}, answer])
    assert remark.evaluate("node => getComputedStyle(node).opacity") == "0.35"  # it is another setting's
    redraw(page, plain)
    assert remark.inner_text().startswith("Nothing is checkpointed. ")


# ---- both steps


def heights(page):
    """Where the outline's highest point, its ends and the areas' peak are, in pixels."""
    return page.evaluate(
        """() => {
          const line = document.querySelector(".eb-outline");
          const [x0, x1] = [line.getBBox().x, line.getBBox().x + line.getBBox().width];
          const top = document.querySelector(".eb-top");
          return { y: line.getBBox().y, x0, x1, peak: top.cy.baseVal.value };
        }"""
    )


def test_the_step_without_is_a_line_over_the_areas_on_the_same_scales(page, shown):
    draw(page, shown)
    settle(page)
    outline = shown[2]["timeline"]["outline"]["bytes"]
    columns, peak = shown[2]["timeline"]["columns"], shown[2]["timeline"]["peak"]
    found = heights(page)
    areas = page.locator(".eb-areas .eb-segment path").first.evaluate(
        "node => [node.getBBox().x, node.getBBox().width]"
    )
    assert [found["x0"], found["x1"] - found["x0"]] == pytest.approx(areas, abs=0.2)
    ticks = page.locator(".eb-areas .eb-tick").evaluate_all("nodes => nodes.map((node) => node.y1.baseVal.value)")
    ground, per_byte = ticks[0], (ticks[0] - ticks[1]) / 2**32  # 4 GiB
    assert ground - found["y"] == pytest.approx(max(outline) * per_byte, abs=0.2)
    assert ground - found["peak"] == pytest.approx(sum(n[peak] for n in columns.values()) * per_byte, abs=0.2)


def test_the_line_is_told_from_areas_without_colour(page, shown):
    draw(page, shown)
    settle(page)
    style = page.locator(".eb-outline").evaluate(
        "node => [getComputedStyle(node).fill, parseFloat(getComputedStyle(node).strokeWidth)]"
    )
    assert style == ["none", 2]
    halo = page.locator(".eb-outline-halo").evaluate("node => parseFloat(getComputedStyle(node).strokeWidth)")
    assert halo > 2
    assert page.locator(".eb-outline-name").text_content() == f"{WITHOUT}: 12.4 GiB"
    assert page.locator(".eb-outline-key").inner_text() == (
        f"Areas: this setting. Line: the same step {WITHOUT}, phase by phase at the same width."
    )
    aria = page.locator(".eb-areas").get_attribute("aria-label")
    assert aria.endswith(f"The peak {WITHOUT}: 13,324,775,424 bytes (12.4 GiB) allocated.")


def test_an_instant_has_the_bytes_of_both(page, shown):
    draw(page, shown)
    page.get_by_label("instant of the step").focus()
    page.keyboard.press("Home")
    for _ in range(60):
        page.keyboard.press("ArrowRight")
    place = page.locator(".eb-place").inner_text()
    assert place.startswith("forward, after ")
    said = page.evaluate("(n) => explorers.short(n)", shown[2]["timeline"]["outline"]["bytes"][60])
    assert place.endswith(f"At the same point of this phase, {WITHOUT}: {said}.")


def test_without_regions_there_is_no_line(page, shown, plain):
    draw(page, shown)
    redraw(page, plain)
    settle(page)
    assert page.locator(".eb-outline").count() == 0
    assert not page.locator(".eb-outline-key").is_visible()
    assert WITHOUT not in page.locator(".eb-place").inner_text()


@pytest.mark.parametrize("width", [360, 900])
@pytest.mark.parametrize("fixture", ["shown", "near", "planned"])
def test_words_neither_meet_nor_leave_the_page(page, request, fixture, width):
    page.set_viewport_size({"width": width, "height": 900})
    draw(page, request.getfixturevalue(fixture))
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    name, peak = (page.locator(f".eb-areas {part}").bounding_box() for part in (".eb-outline-name", ".eb-peak"))
    assert name["x"] + name["width"] <= width - 8
    apart = [name["x"] - (peak["x"] + peak["width"]), peak["x"] - (name["x"] + name["width"])]
    apart += [name["y"] - (peak["y"] + peak["height"]), peak["y"] - (name["y"] + name["height"])]
    assert max(apart) >= -6  # a box has four pixels of paper, and air above and below the letters
    page.set_viewport_size({"width": 900, "height": 900})
