"""An explorer of five stages in a bare page: what it draws and says for each stage and term, and how it is opened."""

import random
import re

import pytest
from bare_page import captions, draw, redraw, settle, state
from five_stages import STAGES, STATES, bytes_by_hand, make

TERMS = ("weights", "kept inputs", "gradients", "optimizer state")


@pytest.fixture(scope="module")
def explorer():
    return make()


@pytest.fixture
def shown(explorer):
    return state(explorer)


def in_stage(terms, stage, **changed):
    return terms | {stage: terms[stage] | changed}


# ---- numbers


def test_predictions_equal_plain_integers_for_200_random_settings(page, explorer):
    pick = random.Random(5)
    settings, expected = [], []
    for _ in range(200):
        layers = pick.randint(1, 64)
        setting = dict(L=layers, f=pick.randint(0, min(12, layers)), b=pick.randint(1, 8192), d=pick.randint(1, 8192))
        setting |= dict(optimizer=pick.choice(list(STATES)), e=pick.choice([2, 4]))
        settings.append(setting | {"e": {2: "bfloat16", 4: "float32"}[setting["e"]]})
        by_stage = bytes_by_hand(setting)
        expected.append([[stage, name, n] for stage, terms in by_stage.items() for name, n in terms.items()])
    predict = "(v) => explorers.predict(spec, v).map(({ stage, name, bytes }) => [stage, name, bytes])"
    assert page.evaluate(f"([spec, values]) => values.map({predict})", [explorer.spec, settings]) == expected


def test_each_stage_and_each_term_has_its_row(page, explorer, shown):
    view = draw(page, shown)
    by_hand = bytes_by_hand(explorer.value)
    assert view.stages() == [(stage, sum(terms.values()), sum(terms.values())) for stage, terms in by_hand.items()]
    for stage in STAGES:
        view.open(stage)
    expected = [(name, n, n) for terms in by_hand.values() for name, n in terms.items()]
    assert view.rows() == expected
    stages = [row.get_attribute("data-stage") for row in page.locator("tr[data-term]").all()]
    assert stages == [stage for stage, terms in by_hand.items() for _ in terms]
    assert page.locator("tfoot").count() == 0  # stages follow one another: their sum is no amount of memory
    assert (
        view.status
        == "Predicted and simulated agree in every term of every stage. Of these moments, forward has the most: "
        "184,549,376 bytes."
    )


def test_a_difference_is_named_with_its_stage_and_its_size(page, shown):
    terms = shown[2]["terms"]
    changed = in_stage(terms, "backward", gradients=terms["backward"]["gradients"] - 512, surprise=7)
    changed = in_stage(changed, "zero_grad", weights=terms["zero_grad"]["weights"] + 1024)
    view = draw(page, shown, terms=changed)
    assert view.status == (
        "Predicted and simulated differ, in bytes, in backward: gradients by -512, surprise by +7; "
        "in zero_grad: weights by +1,024."
    )
    cells = page.locator(".eb-stage .eb-difference").all_inner_texts()
    assert cells == ["0", "0", "-505", "0", "+1,024"]
    view.open("backward")
    assert page.locator('[data-stage="backward"][data-term="surprise"]').get_attribute("data-difference") == "7"
    assert page.locator('[data-term="surprise"]').count() == 1
    assert page.locator('[data-term="surprise"] .eb-swatch').inner_text() == "5"  # the others keep their numbers
    assert [re.sub(r"\W+", " ", text).strip() for text in page.locator(".eb-legend li").all_inner_texts()][
        -1
    ] == "5 surprise"


def test_differences_that_cancel_in_a_stage_do_not_hide(page, shown):
    terms = shown[2]["terms"]["forward"]
    moved = in_stage(
        shown[2]["terms"], "forward", weights=terms["weights"] + 4, **{"kept inputs": terms["kept inputs"] - 4}
    )
    view = draw(page, shown, terms=moved)
    assert view.status.endswith("in forward: weights by +4, kept inputs by -4.")
    assert page.locator('.eb-stage [data-stage="forward"] .eb-difference').inner_text().split("\n") == [
        "0",
        "terms differ",
    ]


def test_an_account_of_another_setting_is_never_shown_as_this_ones(page, shown):
    spec, value, answer = shown
    draw(page, [spec, value | {"L": 8, "optimizer": "SGD"}, answer])
    assert page.locator(".eb").get_attribute("data-state") == "waiting"
    assert page.locator("[data-accounted]").count() == 0
    assert page.locator(".eb-stage .eb-difference").all_inner_texts() == ["…"] * 5
    assert page.locator('[data-term="optimizer state"]').count() == 0  # SGD's formula has none: no surprise yet


def test_letters_that_do_not_fit_give_a_sentence_and_no_nan(page, explorer):
    view = draw(page, state(explorer, L=2, f=4))
    assert view.state == "failed"
    assert view.status == (
        "frozen must be at most the number of layers: got f=4, L=2. No prediction of this setting: "
        "(L − f)·⌈e·b·d⌉₅₁₂ must be a whole number, 0 or more; it is not for b = 4,096, d = 1,024, L = 2, e = 4, f = 4."
    )
    assert "NaN" not in page.locator(".eb").evaluate("node => node.outerHTML")
    row = page.locator('[data-stage="forward"][data-term="kept inputs"]')
    assert row.get_attribute("data-predicted") is None
    assert row.locator(".eb-predicted").text_content() == "–"
    weights = page.locator('[data-stage="forward"][data-term="weights"]')
    assert weights.get_attribute("data-predicted") == str(2 * 4 * 1024**2)
    redraw(page, state(explorer, L=4, f=4))
    assert (view.state, view.status.split(".")[0]) == (
        "ready",
        "Predicted and simulated agree in every term of every stage",
    )


# ---- bars


def geometry(page):
    """For each stage's two bars: top, bottom, and (left, width, colour) of each segment."""
    return page.locator(".eb-bars .eb-bar").evaluate_all(
        """(bars) => bars.map((bar) => {
          const rects = [...bar.querySelectorAll(".eb-fill")];
          const boxes = rects.map((rect) => rect.getBBox());
          const place = bar.getBoundingClientRect();
          const fills = rects.map((rect) => getComputedStyle(rect).fill);
          return { top: place.top, bottom: place.bottom, parts: boxes.map(({ x, width }, i) => [x, width, fills[i]]) };
        })"""
    )


def test_bars_lie_on_one_scale_predicted_right_above_accounted(page, explorer, shown):
    draw(page, shown, terms=in_stage(shown[2]["terms"], "forward", weights=2**20))
    settle(page)
    bars = geometry(page)
    stages = bytes_by_hand(explorer.value)
    end = 2**28  # the power of two with room for 176 MiB
    pixels = (page.locator(".eb-bars").bounding_box()["width"] - 1) / end
    assert len(bars) == 10
    for i, (stage, terms) in enumerate(stages.items()):
        predicted, accounted = bars[2 * i : 2 * i + 2]
        assert 0 <= accounted["top"] - predicted["bottom"] <= 2
        assert [width for _, width, _ in predicted["parts"]] == pytest.approx(
            [n * pixels for n in terms.values()], abs=0.1
        )
        if stage == "forward":
            assert accounted["parts"][0][1] == pytest.approx(2**20 * pixels, abs=0.1)
        if i:
            assert predicted["top"] - bars[2 * i - 1]["bottom"] > 20  # room for the caption


def test_a_stage_without_a_total_has_no_predicted_bar(page, explorer):
    draw(page, state(explorer, L=2, f=4))
    settle(page)
    predicted = dict(zip(STAGES, geometry(page)[::2], strict=True))
    unsized = page.locator("tr[data-term]:not([data-predicted])")
    stages = set(unsized.evaluate_all("(rows) => rows.map((row) => row.dataset.stage)"))
    assert {stage for stage, bar in predicted.items() if not bar["parts"]} == stages
    width = page.locator(".eb-bars").bounding_box()["width"]
    assert all(x + drawn <= width for bar in predicted.values() for x, drawn, _ in bar["parts"])


def test_a_term_has_one_colour_and_one_number_in_all_stages_and_in_the_legend(page, shown):
    view = draw(page, shown)
    fills = {}
    for bar in page.locator(".eb-bar").all():
        for segment in bar.locator(".eb-segment").all():
            name = segment.locator("title").text_content().split(":")[0]
            fill = segment.locator(".eb-fill").evaluate("node => getComputedStyle(node).fill")
            fills.setdefault(name, set()).add((fill, segment.locator("text").text_content()[:1]))
    assert {name: len(found) for name, found in fills.items()} == dict.fromkeys(TERMS, 1)
    legend = page.locator(".eb-legend li")
    texts = [re.sub(r"\s+", " ", text).strip() for text in legend.all_inner_texts()]
    assert texts == [f"{i} {name}" for i, name in enumerate(TERMS, 1)]
    for i, name in enumerate(TERMS):
        fill = legend.nth(i).locator(".eb-fill").evaluate("node => getComputedStyle(node).fill")
        assert {(fill, str(i + 1))} == fills[name]
    view.open("optimizer step")
    swatches = page.locator('[data-stage="optimizer step"] .eb-swatch').all_inner_texts()
    assert swatches == ["1", "3", "4"]


def test_hatches_tell_terms_apart_without_colour(page, shown):
    draw(page, shown)
    used = page.locator('.eb-bar rect[fill^="url"]').evaluate_all(
        "nodes => nodes.map((node) => node.getAttribute('fill').slice(5, -1))"
    )
    assert len(set(used)) == 3  # of four terms; the first is plain
    assert all(page.locator(f'pattern[id="{name}"] path').get_attribute("d") for name in set(used))


def test_captions_give_both_totals_and_the_change_since_the_stage_before(page, shown):
    draw(page, shown)
    settle(page)
    found = captions(page)
    assert found[found.index("forward") + 1] == "predicted 176 MiB · simulated 176 MiB▲ 128 MiB"
    assert found[found.index("backward") + 1] == "predicted 80 MiB · simulated 80 MiB▼ 96 MiB"
    assert found[found.index("model to device") + 1] == "predicted 48 MiB · simulated 48 MiB"
    label = page.get_by_role("img").get_attribute("aria-label")
    assert label.startswith(
        "model to device: predicted 48 MiB: weights 48 MiB. simulated 48 MiB. forward: predicted 176 MiB"
    )


# ---- opening


def test_stages_are_closed_at_first_and_obey_keys(page, shown):
    draw(page, shown)
    buttons = page.locator(".eb").get_by_role("button")
    assert buttons.all_inner_texts() == list(STAGES)
    assert [button.get_attribute("aria-expanded") for button in buttons.all()] == ["false"] * 5
    assert not page.locator("tr[data-term]").first.is_visible()
    buttons.nth(1).focus()
    page.keyboard.press("Enter")
    assert buttons.nth(1).get_attribute("aria-expanded") == "true"
    rows = page.locator(f"#{buttons.nth(1).get_attribute('aria-controls')} tr")
    assert [row.get_attribute("data-term") for row in rows.all()] == ["weights", "kept inputs"]
    assert all(row.is_visible() for row in rows.all())
    page.keyboard.press("Space")
    assert buttons.nth(1).get_attribute("aria-expanded") == "false"
    assert not rows.first.is_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert buttons.nth(2).get_attribute("aria-expanded") == "true"


def test_keys_on_a_stage_stay_in_it(page, shown):
    draw(page, shown)
    page.evaluate("() => { window.heard = []; document.body.addEventListener('keydown', (e) => heard.push(e.key)); }")
    page.locator(".eb-open").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("heard") == []


def test_what_is_open_stays_open_and_keeps_the_focus_while_sliders_move(page, explorer, shown):
    view = draw(page, shown)
    view.open("backward")
    page.locator('[data-stage="backward"] button').focus()
    page.evaluate("() => { window.losses = 0; document.addEventListener('focusout', () => losses++); }")
    redraw(page, state(explorer, L=24, optimizer="SGD"))
    assert page.locator('[data-stage="backward"] button').get_attribute("aria-expanded") == "true"
    assert page.evaluate("document.activeElement.textContent") == "backward"
    assert page.evaluate("losses") == 0
    assert page.locator('[data-stage="backward"][data-term="gradients"]').is_visible()
    assert page.locator('[data-stage="backward"][data-term="gradients"]').get_attribute("data-predicted") == str(
        20 * 4 * 2**20
    )
    assert page.locator(".eb-open[aria-expanded=true]").count() == 1


def test_two_explorers_of_a_page_open_their_own_stages(page, shown):
    draw(page, shown)
    second = "const second = explorers.createView(spec, () => {}); document.body.append(second.element);"
    page.evaluate(f"([spec, value, answer]) => {{ {second} second.draw(value, answer); }}", shown)
    ids = page.locator(".eb-open").evaluate_all("nodes => nodes.map((node) => node.getAttribute('aria-controls'))")
    assert len(set(ids)) == 10


# ---- page


@pytest.mark.parametrize("width", [360, 500, 900])
def test_nothing_is_wider_than_the_page(page, explorer, width):
    page.set_viewport_size({"width": width, "height": 900})
    spec, value, answer = state(explorer, L=64, f=0, b=8191, d=8191)
    terms = {stage: {name: n + 2**45 + 1 for name, n in terms.items()} for stage, terms in answer["terms"].items()}
    view = draw(page, [spec, value, answer], terms=terms)
    assert not any(row.is_visible() for row in page.locator("tr[data-term]").all())
    for stage in STAGES:
        view.open(stage)
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    right = page.locator(".eb-caption").evaluate_all(
        "nodes => Math.max(...nodes.map((n) => n.getBoundingClientRect().right))"
    )
    assert right <= width - 8
    page.set_viewport_size({"width": 900, "height": 900})


def test_a_slider_is_answered_within_a_few_milliseconds(page, shown):
    """A draw takes about 2 ms, a frame 16. The fastest counts: the others tell how busy the machine is."""
    draw(page, shown)
    times = page.evaluate(
        """([, value, answer]) => Array.from({ length: 60 }, (_, i) => {
          const start = performance.now();
          view.draw({ ...value, L: 4 + (i % 60) }, answer);
          return performance.now() - start;
        })""",
        shown,
    )
    assert min(times) < 8
