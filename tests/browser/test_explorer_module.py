"""The explorers' ES module in a bare page, no kernel behind it: JavaScript computes and writes what Python does."""

import random

import pytest
import torch
from bare_page import draw, state

from every_byte.palette import PALETTE
from every_byte.units import short
from every_byte.widget import Account, Control, Explorer
from utils.formulas.mlp import mlp_saved


@pytest.fixture(scope="module")
def explorer():
    def formula(settings):
        return mlp_saved(activation=settings["activation"], dropout=settings["dropout"])

    def measure(settings):
        sizes = {letter: settings[letter] for letter in "bsd"}
        terms = formula(settings).by_term(**sizes, e=settings["e"].itemsize)
        return Account(terms, device="a100-80gb")

    dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float8": torch.float8_e4m3fn}
    controls = [
        Control.range("b", "batch", 1, 64, value=2, log=True, unit="sequences"),
        Control.range("s", "sequence", 128, 8192, value=4096, log=True),
        Control.range("d", "width", 64, 8192, value=1024, step=64),
        Control.choice("activation", "activation", ["ReLU", "GELU", "Tanh", "SiLU", "Softsign"]),
        Control.toggle("dropout", "dropout"),
        Control.choice(
            "e", "element type", dtypes, letter="e", letters={name: dtype.itemsize for name, dtype in dtypes.items()}
        ),
    ]
    return Explorer(title="An MLP", controls=controls, formula=formula, measure=measure)


@pytest.fixture
def shown(explorer):
    return state(explorer)


def test_short_and_exact_write_bytes_as_python_does(page):
    pick = random.Random(0)
    numbers = [pick.randrange(2 ** pick.randrange(1, 53)) for _ in range(2000)]
    numbers += [n * 2**k // 8 for n in range(1, 2000, 7) for k in (10, 20, 30)]  # halves and quarters: rounding
    numbers += [0, 1, 1023, 1024, 2**53 - 1, -512, -5 * 2**20]
    found = page.evaluate("(numbers) => numbers.map((n) => [explorers.short(n), explorers.exact(n)])", numbers)
    assert found == [[short(n), f"{n:,d}"] for n in numbers]


def test_one_of_a_unit_is_singular(page):
    units = ["sequences", "entries", "classes", "boxes", "batches", "MiB", ""]
    found = page.evaluate("(units) => units.map((unit) => [0, 1, 1000].map((n) => explorers.counted(n, unit)))", units)
    ones = ["1 sequence", "1 entry", "1 class", "1 box", "1 batch", "1 MiB", "1"]
    assert found == [[f"0 {unit}".strip(), one, f"1,000 {unit}".strip()] for unit, one in zip(units, ones, strict=True)]


def test_each_hatch_of_the_palette_is_drawn_and_no_two_look_alike(page):
    hatches = [colour.hatch for colour in PALETTE]
    draw = "(hatch) => explorers.pattern('x', hatch).querySelector('path').getAttribute('d')"
    drawn = page.evaluate(f"(hatches) => hatches.map({draw})", hatches)
    assert [hatch for hatch, strokes in zip(hatches, drawn, strict=True) if not strokes] == [""]
    assert len(set(drawn)) == len(PALETTE)


def test_predictions_equal_pythons_for_200_random_settings(page, explorer):
    pick = random.Random(1)
    settings = []
    for _ in range(200):
        ranges = {"b": pick.randint(1, 64), "s": pick.randint(128, 8192), "d": 64 * pick.randint(1, 128)}
        choices = {s: pick.choice(list(explorer.controls[s].values.values())) for s in ("activation", "dropout", "e")}
        settings.append(ranges | choices)
    values = [{s: explorer.controls[s].to_page(item) for s, item in setting.items()} for setting in settings]
    found = page.evaluate(
        "([spec, values]) => values.map((v) => explorers.predict(spec, v).map(({name, bytes}) => [name, bytes]))",
        [explorer.spec, values],
    )
    assert found == [[list(term) for term in explorer.predict(setting).items()] for setting in settings]


def test_an_account_of_another_setting_is_never_shown_as_this_ones(page, shown):
    spec, value, answer = shown
    draw(page, [spec, value | {"b": 4}, answer])
    assert page.locator(".eb").get_attribute("data-state") == "waiting"
    assert page.locator(".eb").get_attribute("aria-busy") == "true"
    assert page.locator("[data-accounted]").count() == 0
    assert set(page.locator("td.eb-difference").all_inner_texts()) == {"…"}
    opacity = "node => getComputedStyle(node).opacity"
    assert float(page.locator("td.eb-accounted").first.evaluate(opacity)) < 1


def test_a_difference_is_shown_and_named(page, shown):
    terms = shown[2]["terms"]
    draw(page, shown, terms=terms | {"input": terms["input"] + 512, "surprise": 7})
    cells = page.locator("td.eb-difference").all_inner_texts()
    assert cells[0] == "+512"
    assert cells[-2:] == ["+7", "+519"]
    assert page.get_by_role("status").inner_text() == "Predicted and simulated differ by 519 bytes, in input, surprise."


def test_an_error_is_text_not_markup_and_the_prediction_stays(page, shown):
    draw(page, shown, terms=None, error="no <img src=x onerror=alert(1)> memory", badge="")
    assert page.get_by_role("status").inner_text().endswith("no <img src=x onerror=alert(1)> memory")
    assert page.locator("img").count() == 0
    assert page.locator("tfoot tr").get_attribute("data-predicted") == str(sum(shown[2]["terms"].values()))
    assert page.locator("[data-accounted]").count() == 0


def test_a_half_typed_number_survives_an_answer(page, shown):
    draw(page, shown)
    page.locator('[data-exact="b"]').fill("6")
    page.evaluate("([value, answer]) => view.draw(value, answer)", shown[1:])
    assert page.locator('[data-exact="b"]').input_value() == "6"


def test_controls_have_names_and_say_their_values(page, shown):
    draw(page, shown)
    slider = page.get_by_role("slider", name="b batch")
    assert slider.get_attribute("aria-valuetext") == "2 sequences"
    assert page.get_by_role("spinbutton", name="width, exact value").input_value() == "1024"
    assert page.get_by_role("combobox", name="activation").input_value() == "ReLU"
    assert page.get_by_role("radiogroup", name="element type").get_by_role("radio").count() == 3
    page.get_by_role("checkbox", name="dropout").check()
    assert page.evaluate("changes.at(-1).dropout") == "on"
    assert page.get_by_role("img").get_attribute("aria-label").startswith("Predicted ")


def test_a_number_that_is_refused_is_explained_beside_its_field(page, shown):
    draw(page, shown)
    field = page.locator('[data-exact="b"]')
    complaint = page.locator(".eb-control", has=field).locator(".eb-complaint")
    assert not complaint.is_visible()
    for typed, is_refused in (("65", True), ("64", False), ("", True), ("2", False)):
        field.fill(typed)
        field.press("Enter")
        assert field.get_attribute("aria-invalid") == str(is_refused).lower()
        assert complaint.is_visible() == is_refused
        if is_refused:
            assert complaint.inner_text().endswith("batch must be a whole number from 1 to 64; still at 2.")
    assert field.get_attribute("aria-describedby") == complaint.get_attribute("id")
    field.fill("65")
    field.press("Tab")
    assert field.input_value() == "2"
    assert complaint.is_visible()  # for whoever looks up only now
    assert list(dict.fromkeys(page.evaluate("changes.map(({ b }) => b)"))) == [64, 2]
    page.get_by_role("slider", name="s sequence").press("End")
    assert not complaint.is_visible()  # the reader has moved on
    field.fill("65")
    field.press("Enter")
    page.get_by_role("slider", name="b batch").press("End")
    page.evaluate("([value, answer]) => view.draw({ ...value, b: 64 }, answer)", shown[1:])
    assert not complaint.is_visible()
    page.locator('[data-exact="d"]').fill("65")
    page.locator('[data-exact="d"]').press("Enter")
    said = page.locator(".eb-complaint:visible").inner_text()
    assert said.endswith("width must be a whole number from 64 to 8,192 in steps of 64; still at 1,024.")


def test_a_control_that_is_disabled_says_where_it_counts_and_forgets_what_it_refused(page, shown):
    spec, value, answer = shown
    few, many = {"activation": ["ReLU", "GELU"]}, {"activation": ["ReLU", "GELU", "Tanh", "SiLU"]}
    controls = [
        control | {"when": {"b": few, "s": many | {"dropout": ["on"]}}.get(control["symbol"], {})}
        for control in spec["controls"]
    ]
    draw(page, [spec | {"controls": controls}, value, answer])
    assert page.locator(".eb-hint:visible").all_inner_texts() == [
        "Not used where “activation” is “Softsign”; used only where “dropout” is “on”."
    ]
    page.locator('[data-exact="b"]').fill("65")
    page.locator('[data-exact="b"]').press("Enter")
    assert page.locator(".eb-complaint:visible").count() == 1
    page.evaluate("([value, answer]) => view.draw({ ...value, activation: 'Tanh' }, answer)", [value, answer])
    assert page.locator(".eb-complaint:visible").count() == 0
    assert page.locator('[data-symbol="b"]').is_disabled()
    assert page.locator(".eb-hint:visible").first.inner_text() == "Used only where “activation” is “ReLU” or “GELU”."


def test_a_prediction_alone_says_what_cannot_fit_and_of_the_rest_that_it_does_not_know(page, shown):
    spec, value, answer = shown
    total = sum(answer["terms"].values())
    verdict = page.locator(".eb-fit")
    for capacity, is_over in ((total - 1, True), (total, False)):
        limited = spec | {"capacity": {"symbol": "e", "bytes": {value["e"]: capacity}}}
        draw(page, [limited, value, answer], terms=None, absence="Not recorded here.")
        assert verdict.get_attribute("data-fits") == ("false" if is_over else "unknown")
        assert verdict.locator("strong").inner_text() == ("It does not fit." if is_over else "It may fit.")
        draw(page, [limited, value, answer])
        assert not verdict.is_visible()  # an account says it itself
    draw(page, [limited | {"capacity": {"symbol": None, "bytes": 5}}, value, answer], terms=None, absence="Not here.")
    assert verdict.inner_text() == f"It does not fit. {total:,} bytes are predicted; there are 5."
    draw(
        page, [limited | {"capacity": {"symbol": None, "bytes": total}}, value, answer], terms=None, absence="Not here."
    )
    assert verdict.inner_text() == (
        f"It may fit. {total:,} bytes are predicted; there are {total:,}. What the allocator keeps unused, an account "
        "alone tells."
    )


def test_the_bars_use_at_least_a_quarter_of_their_axis(page, shown):
    spec, value, _ = shown
    ends = page.evaluate(
        """([spec, values]) => values.map((value) => {
          const compared = explorers.compare(spec, value, null);
          return [explorers.scale(spec, value, compared), compared.stages[0].predicted];
        })""",
        [spec, [value | {"activation": a, "dropout": d} for a in ("ReLU", "GELU", "Tanh") for d in ("off", "on")]],
    )
    assert all(end / 4 <= bytes_ <= end for end, bytes_ in ends)
    assert len({end for end, _ in ends}) == 1  # a choice that keeps less is seen to


@pytest.mark.parametrize("width", [360, 500, 900])
def test_nothing_is_wider_than_the_page(page, shown, width):
    page.set_viewport_size({"width": width, "height": 900})
    spec, value, answer = shown
    terms = dict.fromkeys(answer["terms"], 2**45 + 1)
    largest = value | {"b": 64, "s": 8192, "d": 8192}
    draw(page, [spec, largest, answer], settings=largest, terms=terms)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_choice_that_is_a_letter_of_the_formula_shows_it(page, shown):
    draw(page, shown)
    assert page.get_by_role("radiogroup", name="e element type").count() == 1
    assert page.locator("label", has_text="activation").inner_text() == "activation"
