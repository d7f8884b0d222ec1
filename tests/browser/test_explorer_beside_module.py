"""Three accounts of a setting in a bare page: predicted, simulated, measured, in bars, table and verdict."""

import shutil
from dataclasses import replace

import pytest
from bare_page import captions, draw, redraw, settle, state
from stand_in import BADGE, NAME, OPTION, SPEC, install

from tools.site import install_parts
from utils.explorers.gallery import GALLERY

pytestmark = pytest.mark.sampled(2)

SMALL = {
    "mlp": {},
    "block": {"b": 1, "s": 64, "d": 64},
    "phases": {"L": 3, "b": 2, "d": 10},
    "checkpoint": {"b": 1, "s": 64},
}
FIGURES = """() => [...document.querySelectorAll("tr[data-predicted]")].map(
  ({ dataset: { predicted, beside, accounted } }) => [predicted, beside, accounted],
)"""
AS_AMPERE = replace(SPEC, capability=(8, 0))
OFF = 2 * (8_519_680 - 33_554_432)
WIDER = """() => [...document.querySelectorAll(".eb *")]
  .filter((node) => node.getBoundingClientRect().right > innerWidth + 1).map((node) => node.outerHTML.slice(0, 100))"""


def shown_of(name, measures_as=None, **chosen):
    _, undo = install(measures_as=measures_as)
    try:
        return state(GALLERY[name].make(), **SMALL[name] | {"gpu": "live", "beside": True} | chosen)
    finally:
        undo()


@pytest.mark.parametrize("name", SMALL)
def test_three_agree(page, name):
    view = draw(page, shown_of(name))
    settle(page)
    found = page.evaluate(FIGURES)
    assert len(found) >= 4
    assert all(predicted == simulated == measured for predicted, simulated, measured in found)
    assert view.status.startswith("Predicted, simulated and measured agree in every term")
    assert view.root.locator(".eb-badge").inner_text() == BADGE
    heads = page.locator("thead th").all_text_contents()
    assert heads[2:] == ["predicted bytes", "simulated bytes", "measured bytes", "difference"]
    n_stages = max(1, page.locator(".eb-stage").count())
    bars = page.locator(".eb-bar").evaluate_all("all => all.map((bar) => bar.classList[1])")
    assert bars == ["eb-predicted", "eb-beside", "eb-accounted"] * n_stages
    label = page.locator(".eb-bars").get_attribute("aria-label")
    assert (label.count("simulated "), label.count("measured ")) >= (n_stages, n_stages)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("width", [360, 500, 900])
def test_three_have_room_on_any_page(page, name, width):
    page.set_viewport_size({"width": width, "height": 900})
    draw(page, shown_of(name, AS_AMPERE))
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(WIDER) == []
    said = " ".join(captions(page))
    assert said.index("predicted") < said.index("simulated") < said.index("measured")


def test_where_the_card_measures_otherwise_both_differences_are_shown(page):
    view = draw(page, shown_of("phases", AS_AMPERE))
    view.open("forward")
    row = page.locator('tr[data-stage="forward"][data-term="cuBLAS workspace"]')
    assert row.get_attribute("data-difference") == str(OFF)
    assert row.locator(".eb-difference").inner_text() == f"{OFF:,}"
    assert row.locator(".eb-beside .eb-off").inner_text() == f"measured: {OFF:,}"
    assert f"in forward: cuBLAS workspace by {OFF:,};" in view.status
    assert view.status.startswith("Predicted and measured differ, in bytes, in iteration 1: cuBLAS workspace by ")
    assert view.status.endswith("Simulated is as predicted.")
    assert page.locator(".eb").get_attribute("data-alarm") == "false"


def test_where_the_simulation_alone_is_off_the_verdict_says_where(page):
    spec, value, answer = shown_of("mlp")
    terms = answer["terms"]
    beside = answer["beside"] | {"terms": terms | {"input": terms["input"] - 512, "surprise": 7}}
    view = draw(page, [spec, value, answer], beside=beside)
    assert view.status.startswith("Predicted and measured agree in every term: ")
    assert view.status.endswith("Simulated and measured differ, in bytes, input by +512, surprise by -7.")
    assert page.locator('tr[data-term="surprise"]').get_attribute("data-beside") == "7"


def test_while_it_measures_the_earlier_figures_stay_and_are_nobody_s(page):
    spec, value, answer = shown_of("mlp")
    shown = [spec, value | {"b": 4}, answer]
    view = draw(page, shown)
    assert view.status == f"Measuring on {NAME}…"
    assert view.root.get_attribute("aria-busy") == "true"
    assert page.locator("[data-beside], [data-accounted]").count() == 0
    assert page.locator(".eb-bar").count() == 3  # so that nothing jumps
    said = [caption for caption in captions(page) if caption[0].isalpha()]
    assert said == ["predicted 288 MiB", "simulated …", "measured …"]
    redraw(page, [spec, value | {"b": 4, "gpu": "a100-80gb"}, answer])
    assert view.status == "Taking the account of this setting…"
    assert page.locator(".eb-bar").count() == 2
    assert "measured" not in " ".join(captions(page))
    assert page.locator(".eb-again").is_hidden()
    assert page.get_by_label("simulate this card, too").is_hidden()


def test_the_button_asks_again_and_the_reasons_are_described(page):
    spec, value, answer = shown_of("mlp")
    draw(page, [spec, value, answer])
    page.evaluate(
        """([spec, value, answer]) => {
          window.asked = 0;
          window.view.close();
          window.view = explorers.createView(spec, () => {}, () => (asked += 1));
          document.body.replaceChildren(view.element);
          view.draw(value, answer);
        }""",
        [spec, value, answer],
    )
    page.get_by_role("button", name="measure again").press("Enter")
    assert page.evaluate("asked") == 1
    assert page.get_by_role("combobox", name="GPU").locator("option").last.text_content() == OPTION


@pytest.mark.parametrize("n_options", [2, 6])
def test_a_disabled_option_cannot_be_set_and_its_reason_is_read(page, n_options):
    control = {
        "kind": "choice", "symbol": "gpu", "label": "GPU", "options": [f"gpu {i}" for i in range(n_options)],
        "numbers": None, "selects": False, "when": {}, "hides": False, "live": {}, "disabled": {"gpu 1": "It is out."},
    }  # fmt: skip
    spec, value, answer = shown_of("mlp")
    others = [one for one in spec["controls"] if one["symbol"] not in ("gpu", "beside")]
    value = {symbol: item for symbol, item in value.items() if symbol != "beside"} | {"gpu": "gpu 0"}
    view = draw(page, [spec | {"controls": [*others, control]}, value, answer | {"settings": value}])
    of_it = view.control("gpu").first.locator("xpath=ancestor::div[contains(@class, 'eb-control')]")
    assert of_it.locator(".eb-reasons").inner_text() == "It is out."
    named = page.locator("[aria-describedby$=gpu-reasons]")
    assert named.count() == 1
    assert page.locator(f"#{named.get_attribute('aria-describedby')}").inner_text() == "It is out."
    disabled = of_it.locator("option:disabled, input:disabled")
    assert disabled.count() == 1
    view.control("gpu").first.press("ArrowDown")
    expected = "gpu 2" if n_options > 2 else None
    assert page.evaluate("changes.at(-1)?.gpu ?? null") == expected


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm, for axe")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["mlp", "phases"])
def test_axe_finds_no_barrier(page, name, theme):
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    spec, value, answer = shown_of(name, AS_AMPERE)
    draw(page, [spec, value, answer])
    page.add_script_tag(path=install_parts() / "axe-core" / "axe.min.js")
    simulated = value | {"gpu": "a100-80gb"}
    for now, found in ((value, answer), (simulated, answer | {"settings": simulated, "beside": None})):
        redraw(page, [spec, now, found])
        result = page.evaluate("axe.run('.eb', { resultTypes: ['violations'] })")
        assert result["passes"]
        assert {rule["id"]: [node["html"] for node in rule["nodes"]] for rule in result["violations"]} == {}
    page.emulate_media(color_scheme="light")
