"""A GPT's explorer in a bare page: its timeline, the ledger at any instant, the verdict, predictions by choice."""

import json
import random

import pytest
from bare_page import draw, redraw, settle, state

from every_byte.widget.settings import of_the_account
from utils.experiments.gpt_step import GPTStep, predicted
from utils.explorers.gpt import gpt_explorer

SMALL = {"model": "gpt2", "b": 1, "s": 64}


@pytest.fixture(scope="module")
def explorer():
    return gpt_explorer()


@pytest.fixture(scope="module")
def shown(explorer):
    """GPT-2 small in its usual setting: more tokens than the third stage's limit."""
    return state(explorer)


@pytest.fixture(scope="module")
def small(explorer):
    """With all verdicts, as a page stores it."""
    spec, value, answer = state(explorer, **SMALL)
    return [spec, value, answer | json.loads(json.dumps(explorer.answer_at(explorer.value)))]


@pytest.fixture(scope="module")
def short(explorer):
    """One that does not fit."""
    return state(explorer, model="gpt2-medium", b=12, attention="explicit", gpu="t4-16gb")


def timeline(shown):
    return shown[2]["timeline"]


def at(shown, column):
    return {name: numbers[column] for name, numbers in timeline(shown)["columns"].items() if numbers[column]}


def ledger(page):
    """The bytes of each category that the list shows, by name, from the text that a reader sees."""
    found = {}
    for item in page.locator(".eb-ledger li").all():
        name, line = item.locator("span:not(.eb-swatch)").inner_text().split("\n")
        found[name] = int(line.removesuffix(" bytes").replace(",", ""))
        assert item.get_attribute("data-bytes") == str(found[name])
    return found


# ---- prediction


def test_predictions_equal_pythons_for_200_random_settings(page, explorer):
    pick = random.Random(8)
    settings, expected = [], []
    for _ in range(200):
        setting = {
            c.symbol: c.values[pick.choice(c.enabled)] for c in explorer.controls.values() if hasattr(c, "values")
        }
        setting |= {"b": pick.randint(1, 128), "s": pick.randint(16, 16384)}
        step = GPTStep(**of_the_account(explorer.controls, setting))
        beyond = step.b * step.s > 3072
        rows = [
            [stage, name, None if beyond and stage == "backward of the embedding" else n]
            for stage, form in predicted(step.held).items()
            for name, n in form.by_term(**step.letters).items()
        ]
        settings.append({symbol: explorer.controls[symbol].to_page(item) for symbol, item in setting.items()})
        expected.append(rows)
    predict = (
        "(v) => explorers.predict(spec, v).map(({ stage, name, bytes }) => [stage, name, isNaN(bytes) ? null : bytes])"
    )
    assert page.evaluate(f"([spec, values]) => values.map({predict})", [explorer.spec, settings]) == expected


def test_a_stage_beyond_its_limit_has_dashes_and_a_reason_but_no_alarm(page, shown, small):
    view = draw(page, shown)
    *within, (_, predicted, simulated) = view.stages()
    assert [a == b for _, a, b in within] == [True, True]
    assert predicted is None
    assert simulated > 0
    row = page.locator('.eb-stage [data-stage="backward of the embedding"]')
    assert row.locator(".eb-difference").inner_text() == "–"
    assert "simulated agree in every term of every stage that has a prediction. Of these" in view.status
    assert view.status.endswith(
        "No prediction of backward of the embedding: for more than 3,072 tokens its kernel sorts them, in buffers of "
        "its own."
    )
    assert page.locator(".eb").get_attribute("data-alarm") == "false"
    redraw(page, small)
    assert [(a == b) for _, a, b in view.stages()] == [True] * 3
    assert "agree in every term of every stage. " in view.status
    assert "No prediction" not in view.status


# ---- verdict


@pytest.mark.parametrize("fixture", ["shown", pytest.param("short", marks=pytest.mark.nightly)])
def test_the_verdict_is_the_kernels(page, request, fixture):
    state_of = request.getfixturevalue(fixture)
    draw(page, state_of)
    verdict = page.locator(".eb-fit")
    fit = state_of[2]["fit"]
    assert verdict.get_attribute("data-fits") == str(fit["fits"]).lower()
    assert verdict.inner_text() == f"{fit['headline']}. {fit['reasons']}"
    assert verdict.get_attribute("aria-live") == "polite"
    mark = verdict.locator("strong").evaluate("node => getComputedStyle(node, '::before').content")
    assert mark == {True: '"✓ "', False: '"✗ "'}[fit["fits"]]  # not by colour alone


def test_while_another_setting_is_trained_its_verdict_is_not_shown_as_this_ones(page, shown):
    spec, value, answer = shown
    draw(page, [spec, value, answer])
    page.evaluate("([spec, value, answer]) => view.draw(value, answer)", [spec, value | {"b": 3}, answer])
    assert page.locator(".eb").get_attribute("aria-busy") == "true"
    assert page.locator(".eb-fit").inner_text() == "Does it fit? Training on the simulated GPU…"
    assert page.locator(".eb-fit").get_attribute("data-fits") == "waiting"
    opacity = "node => getComputedStyle(node).opacity"
    assert [page.locator(part).evaluate(opacity) for part in (".eb-areas", ".eb-place", ".eb-ledger")] == ["0.35"] * 3


def test_before_the_first_account_and_without_one_there_is_neither(page, shown):
    spec, value, answer = shown
    draw(page, [spec, value | {"b": 3}, answer], timeline=None, fit=None, fit_with=None)
    assert not page.locator(".eb-fit").is_visible()
    assert not page.locator(".eb-timeline").is_visible()
    draw(page, shown, error="No.", terms=None, timeline=None, fit=None, fit_with=None, badge="")
    assert not page.locator(".eb-fit").is_visible()
    assert not page.locator(".eb-timeline").is_visible()
    assert page.locator(".eb-status").inner_text().startswith("No.")


# ---- timeline


def test_it_opens_at_the_peak_with_the_exact_ledger(page, shown):
    draw(page, shown)
    peak = timeline(shown)["peak"]
    assert ledger(page) == at(shown, peak)
    n_bytes = sum(at(shown, peak).values())
    place = page.locator(".eb-place").inner_text()
    assert place.startswith("peak, backward of the loss, after ")
    assert f": {n_bytes:,d} bytes (" in place
    assert page.locator(".eb-areas").get_attribute("aria-label") == timeline(shown)["caption"]


def test_keys_move_the_instant_and_the_ledger_follows(page, shown):
    draw(page, shown)
    peak, last = timeline(shown)["peak"], len(timeline(shown)["places"]) - 1
    slider = page.get_by_label("instant of the step")
    slider.focus()
    for key, column in (("ArrowLeft", peak - 1), ("Home", 0), ("ArrowRight", 1), ("End", last)):
        page.keyboard.press(key)
        assert ledger(page) == at(shown, column)
        said = slider.get_attribute("aria-valuetext")
        phase = next(name for name, a, b in timeline(shown)["phases"] if a <= column <= b)
        done = timeline(shown)["places"][column]
        assert said == f"{phase}, after {done:,d} of {timeline(shown)['n_events']:,d} allocations and frees: " + (
            f"{sum(at(shown, column).values()):,d} bytes"
        )
    page.get_by_role("button", name="to the peak").click()
    assert ledger(page) == at(shown, peak)
    assert page.evaluate("document.activeElement.type") == "range"  # the focus does not fall out of the explorer
    assert page.get_by_role("button", name="to the peak").is_disabled()
    cursor, top = (page.locator(part).bounding_box() for part in (".eb-cursor", ".eb-top"))
    assert cursor["x"] == pytest.approx(top["x"] + top["width"] / 2, abs=1)


def test_a_new_setting_starts_at_its_own_peak(page, shown, small):
    draw(page, shown)
    page.get_by_label("instant of the step").focus()
    page.keyboard.press("Home")
    page.set_viewport_size({"width": 800, "height": 900})  # drawn anew, of the same account
    settle(page)
    assert ledger(page) == at(shown, 0)
    page.set_viewport_size({"width": 900, "height": 900})
    redraw(page, small)
    assert ledger(page) == at(small, timeline(small)["peak"])


def test_areas_lie_on_one_another_up_to_the_peak(page, shown):
    draw(page, shown)
    settle(page)
    boxes = page.locator(".eb-areas .eb-segment").evaluate_all(
        "nodes => nodes.map((node) => [node.dataset.category, node.querySelector('path').getBBox()])"
        ".map(([name, { x, y, width, height }]) => [name, x, y, width, height])"
    )
    assert [name for name, *_ in boxes] == list(timeline(shown)["columns"])
    assert len({(round(x), round(width)) for _, x, _, width, _ in boxes}) == 1  # all over the whole step
    ground = max(y + height for _, _, y, _, height in boxes)
    top = min(y for _, _, y, _, _ in boxes)
    spot = page.locator(".eb-areas .eb-top").evaluate("node => node.cy.baseVal.value")
    assert spot == pytest.approx(top, abs=0.1)
    ticks = page.locator(".eb-areas .eb-tick").evaluate_all("nodes => nodes.map((node) => node.y1.baseVal.value)")
    texts = page.locator(".eb-areas .eb-tick + text").all_text_contents()
    assert texts == ["0", "4 GiB", "8 GiB", "12 GiB"]
    assert ticks[0] == pytest.approx(ground, abs=0.1)
    n_bytes = sum(at(shown, timeline(shown)["peak"]).values())
    assert (ground - top) / (ticks[0] - ticks[1]) == pytest.approx(n_bytes / 2**32, abs=0.01)


def test_phases_are_named_and_the_capacity_is_drawn_where_it_is_near(page, shown, short):
    draw(page, shown)
    settle(page)
    assert {"forward", "backward", "reserved"} <= set(page.locator(".eb-areas .eb-caption").all_text_contents())
    assert page.locator(".eb-phase").count() == len(timeline(shown)["phases"])
    assert page.locator(".eb-capacity").count() == 0  # 78 GiB, far above
    draw(page, short)
    settle(page)
    assert page.locator(".eb-room").text_content() == "room for 14 GiB"
    line = page.locator(".eb-capacity").evaluate("node => node.y1.baseVal.value")
    assert line > page.locator(".eb-areas .eb-top").evaluate("node => node.cy.baseVal.value")  # the peak is above it


def test_a_category_has_its_number_and_colour_everywhere(page, shown):
    draw(page, shown)
    settle(page)
    page.get_by_label("instant of the step").focus()
    for _ in range(40):  # to where there are gradients, temporaries and slack
        page.keyboard.press("ArrowRight")
    keys = page.locator(".eb-legend li").evaluate_all(
        "nodes => nodes.map((n) => [n.querySelector('text').textContent, n.lastChild.textContent, "
        "getComputedStyle(n.querySelector('.eb-fill')).fill])"
    )
    items = page.locator(".eb-ledger li").evaluate_all(
        "nodes => nodes.map((n) => [n.querySelector('.eb-swatch').textContent, n.dataset.category, "
        "getComputedStyle(n.querySelector('.eb-swatch')).backgroundColor])"
    )
    known = {name: (number, colour) for number, name, colour in keys}
    assert len({number for number, _, _ in items}) == len(items)
    assert [number for number, _, _ in items] == sorted((number for number, _, _ in items), key=int)
    common = [(name, (number, colour)) for number, name, colour in items if name in known]
    assert {"activations", "gradients", "temporaries"} <= {name for name, _ in common}
    assert all(known[name] == found for name, found in common)
    drawn = page.locator(".eb-areas .eb-segment:has(text)").evaluate_all(
        "nodes => nodes.map((n) => [n.dataset.category, n.querySelector('text').textContent])"
    )
    assert drawn
    assert all(known[name][0] == number for name, number in drawn)


# ---- page


@pytest.mark.parametrize("width", [360, 420, 1280])
def test_nothing_is_wider_than_the_page(page, short, width):
    page.set_viewport_size({"width": width, "height": 900})
    view = draw(page, short)
    for stage in short[0]["stages"]:
        view.open(stage)
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    right = page.locator(".eb-areas text").evaluate_all(
        "nodes => Math.max(...nodes.map((n) => n.getBoundingClientRect().right))"
    )
    assert right <= width - 8
    page.set_viewport_size({"width": 900, "height": 900})


def test_an_answer_is_small(shown, short):
    assert all(len(json.dumps(found[2])) < 50_000 for found in (shown, short))
    assert len(json.dumps(shown[0])) < 100_000


def test_a_setting_is_shown_as_busy_within_a_few_milliseconds(page, shown):
    """The fastest counts: the others tell how busy the machine is."""
    spec, value, answer = shown
    draw(page, shown)
    times = page.evaluate(
        """([, value, answer]) => Array.from({ length: 40 }, (_, i) => {
          const start = performance.now();
          view.draw({ ...value, b: 13 + i }, answer);
          return performance.now() - start;
        })""",
        shown,
    )
    assert min(times) < 20
    assert page.locator(".eb").get_attribute("data-state") == "waiting"


def test_a_verdict_that_is_still_to_come_is_announced(page, small):
    """Of the chosen option, while another one's is there; then the account is ready all the same."""
    spec, value, answer = small
    draw(page, [spec, value, answer | {"fit": None, "fit_with": {}}])
    fit = page.locator(".eb-fit")
    assert (fit.get_attribute("data-fits"), fit.inner_text().strip()) == (
        "waiting", "Does it fit? Training on the simulated GPU…"
    )  # fmt: skip
    assert page.locator(".eb").get_attribute("data-state") == "ready"
    option, *_ = answer["fit_with"]
    page.evaluate(
        "([value, answer]) => view.draw(value, answer)", [value | {"allocator": option}, answer | {"fit_with": {}}]
    )
    assert fit.get_attribute("data-fits") == "waiting"
    page.evaluate("([value, answer]) => view.draw(value, answer)", [value | {"allocator": option}, answer])
    assert fit.get_attribute("data-fits") == "true"


def test_the_allocator_changes_the_verdict_at_once_and_nothing_else(page, small):
    """No account is asked for: the one that is there has the verdicts of all options."""
    spec, value, answer = small
    draw(page, [spec, value, answer])
    assert page.locator("[data-of]").is_hidden()
    before = page.locator(".eb-areas").inner_html()
    for option, fit in answer["fit_with"].items():
        page.evaluate("([value, answer]) => view.draw(value, answer)", [value | {"allocator": option}, answer])
        assert page.locator(".eb").get_attribute("data-state") == "ready"
        assert page.locator(".eb-fit strong").inner_text() == f"{fit['headline']}."
        assert option in fit["headline"]
        said = "The figure has the blocks and segments of allocator default."
        assert page.locator("[data-of]").inner_text() == said
        assert page.locator(".eb-areas").inner_html() == before
