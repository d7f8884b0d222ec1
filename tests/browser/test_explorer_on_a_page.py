"""Explorers on a page without a kernel and without a network, opened from a file: they say what Python says."""

import contextlib
import io
import json
import math
import random
import re
import urllib.parse

import pytest
from explorer_files import write
from explorer_page import ExplorerPage
from page_answers import is_said

from every_byte.gpu.memory.specs import find_spec
from every_byte.units import short
from every_byte.widget.explorer import to_page
from every_byte.widget.gpus import NO_KERNEL
from every_byte.widget.pages import key_of
from every_byte.widget.settings import is_meant
from every_byte.widget.stages import terms_by_stage
from tools.chromium import chromium
from tools.sequences.stored import stored_sequences
from utils.explorers.gallery import GALLERY

STORED = {
    "phases": 6,
    "gpt": 5,
    "checkpoint": 4,
    "ranks": 4,
    "fragmentation": 10,
    "fit": 4,
}  # the accounts of the others are quick
KEYS: dict[str, set[str]] = {}
"""Of each explorer that was opened, by its title, the keys of what its page has stored."""
WITHOUT_UNIT = {"k"}  # a number of blocks or of segments, as another control says
ROWS = """() => Object.fromEntries([...document.querySelectorAll('tr[data-term]')].map(
  ({ dataset: { stage, term, predicted, accounted } }) =>
    [`${stage ?? ""}/${term}`, [predicted ?? null, accounted ?? null]],
).filter(([place]) => place !== "/total"))"""


@pytest.fixture(scope="module")
def browser():
    with chromium(viewport={"width": 900, "height": 900}) as page:
        page.asked, page.said = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.context.set_offline(True)
        yield page


BY_NIGHT = ("gpt", "ranks", "checkpoint", "fit")  # whose models are large


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[pytest.mark.nightly] if name in BY_NIGHT else []) for name in GALLERY],
)
def opened(request, browser, tmp_path_factory):
    """The page of each explorer, and what it was made of."""
    name = request.param
    address, explorer, stored = write(tmp_path_factory.mktemp(name), name, n_stored=STORED.get(name, 30))
    KEYS[explorer.spec["title"]] = {key_of(explorer, settings) for settings in stored}
    browser.goto(address)
    browser.wait_for_selector(".eb")
    return browser, name, explorer, stored


def at(page, name, explorer, settings) -> ExplorerPage:
    """The explorer at a setting that stands in the address."""
    value = to_page(settings, explorer)
    page.evaluate(
        """(hash) => {
          if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange")); // of a moment ago: no event
          else location.hash = hash;
        }""",
        f"#{name}?{urllib.parse.urlencode(value)}",
    )
    shown = json.dumps(value, separators=(",", ":"))
    page.wait_for_function("(json) => document.querySelector('.eb').dataset.value === json", arg=shown)
    return ExplorerPage(page)


def random_settings(explorer, pick: random.Random) -> dict:
    def one(control):
        if control.spec()["kind"] != "range":
            return control.values[pick.choice(control.enabled)]
        return control.minimum + control.step * pick.randrange((control.maximum - control.minimum) // control.step + 1)

    return {symbol: one(control) for symbol, control in explorer.controls.items()}


def by_place(terms) -> dict[str, int]:
    """The bytes of each term by stage and name, "end of forward/parameters"."""
    return {f"{stage}/{term}": n for stage, found in terms_by_stage(terms).items() for term, n in found.items()}


def predicted(explorer, settings) -> dict[str, int] | None:
    """None where the letters give no size; nothing where the formula comes with an account that is not stored."""
    if explorer.spec.get("asked") and key_of(explorer, settings) not in KEYS[explorer.spec["title"]]:
        return {}
    try:
        return by_place(explorer.predict(settings))
    except ValueError:
        return None


def test_javascript_predicts_what_python_predicts(opened):
    page, name, explorer, stored = opened
    pick, n_compared = random.Random(5), 0
    keys = [key_of(explorer, settings) for settings in stored]
    while n_compared < 200 // len(GALLERY) + 1:
        settings = random_settings(explorer, pick)
        expected = predicted(explorer, settings)
        if expected is None:
            continue
        shown = at(page, name, explorer, settings)
        rows = page.evaluate(ROWS)
        assert {place: int(found) for place, (found, _) in rows.items() if found is not None} == expected
        if key_of(explorer, settings) not in keys and not takes_accounts(name):
            assert shown.state == "absent"
            assert "Not recorded here: " in shown.status
            assert shown.root.locator(".eb-badge").inner_text() == (
                "" if explorer.spec.get("asked") else "prediction alone"
            )
            assert "accounted" not in shown.root.inner_text()  # the word of this page is "simulated"
            assert said(shown, ".eb-fit") == (foretold(explorer, settings) if expected else "")
            assert all(accounted is None for _, accounted in rows.values())
        n_compared += 1


def takes_accounts(name: str) -> bool:
    """Whether the page takes the account of each setting itself."""
    return stored_sequences(name) is not None


def said(shown: ExplorerPage, part: str) -> str:
    element = shown.root.locator(part)
    return element.inner_text() if element.is_visible() else ""


def foretold(explorer, settings) -> str:
    """What a page says of whether a prediction fits on the GPU of the setting; "" where it lacks a moment, and fits."""
    if not explorer.spec["capacity"]:
        return ""
    capacity = explorer.spec["capacity"]
    room = find_spec(settings["gpu"]).allocator_bytes if capacity["symbol"] else capacity["bytes"]
    totals = {stage: sum(terms.values()) for stage, terms in terms_by_stage(explorer.predict(settings)).items()}
    if not totals:
        return ""
    where, most = max(totals.items(), key=lambda item: item[1])
    said = f"{most:,} bytes are predicted{where and f' at {where}'}; there are {room:,}."
    if most > room:
        return f"It does not fit. {said}"
    if len(totals) < len(explorer.spec["stages"]):
        return ""
    between = "What is held between these moments, and what" if where else "What"
    return f"It may fit. {said} {between} the allocator keeps unused, an account alone tells."


def test_stored_accounts_are_shown_as_they_were_taken(opened):
    page, name, explorer, stored = opened
    for settings in stored:
        answer = explorer.answer_at(settings)
        shown = at(page, name, explorer, settings)
        if answer["terms"] is None:
            assert shown.state == "failed"
            assert is_said(shown.status, answer["error"])
            continue
        assert shown.state == "ready", key_of(explorer, settings)
        rows = page.evaluate(ROWS)
        found = {place: int(n) for place, (_, n) in rows.items() if n and int(n)}
        assert found == {place: n for place, n in by_place(answer["terms"]).items() if n}
        where = "in this page" if takes_accounts(name) else "stored with this page"
        assert shown.root.locator(".eb-badge").inner_text() == f"{answer['badge']}; {where}"
        assert_beside_the_table(shown, answer)


def assert_beside_the_table(shown: ExplorerPage, answer: dict) -> None:
    """The remark, the verdict, the timeline's ledger at its peak, start and end, and the map's words at both ends."""
    assert said(shown, ".eb-remark") == answer["remark"]
    assert said(shown, ".eb-fit") == (
        f"{answer['fit']['headline']}. {answer['fit']['reasons']}" if answer["fit"] else ""
    )
    timeline = answer["timeline"]
    assert shown.root.locator(".eb-timeline").is_visible() == bool(timeline)
    for column in (timeline["peak"], 0, len(timeline["places"]) - 1) if timeline else ():
        slider = shown.root.locator("[data-instant]")
        slider.evaluate("(slider, n) => { slider.value = n; slider.dispatchEvent(new Event('input')); }", column)
        items = shown.root.locator(".eb-ledger li").evaluate_all(
            "all => all.map(({ dataset: { category, bytes } }) => [category, Number(bytes)])"
        )
        columns = timeline["columns"].items()
        assert dict(items) == {name: numbers[column] for name, numbers in columns if numbers[column]}
        place = said(shown, ".eb-place")
        assert f", after {timeline['places'][column]:,} of {timeline['n_events']:,} allocations" in place
        assert f"allocated, {short(timeline['reserved'][column])} reserved." in place
    steps = answer["map"]["steps"] if answer["map"] else []
    assert shown.root.locator(".eb-moving").is_visible() == bool(steps)
    for key, step in (("Home", steps[0]), ("End", steps[-1])) if steps else ():
        shown.root.locator("[data-request]").press(key)
        assert said(shown, ".eb-said") == step["said"]


def counted(explorer, settings: dict) -> dict:
    """What an account depends on: all but the choices by which the verdict alone is judged."""
    return {symbol: settings[symbol] for symbol, control in explorer.controls.items() if not control.judges}


def apart(explorer, a: dict, b: dict) -> float:
    """How far two settings are apart: 1 for each choice that differs; for a number an eighth a doubling, 1 at most."""

    def of_numbers(x: int, y: int) -> float:
        return 1.0 if 0 in (x, y) else min(1.0, abs(math.log2(x) - math.log2(y)) / 8)

    names = to_page(a, explorer)  # of the two the one that is looked for: what has no effect there does not count
    meant = [symbol for symbol in counted(explorer, a) if is_meant(explorer.controls[symbol].when, names)]
    differ = [(symbol, a[symbol], b[symbol]) for symbol in meant if a[symbol] != b[symbol]]
    is_number = {symbol: control.spec()["kind"] == "range" for symbol, control in explorer.controls.items()}
    return sum(of_numbers(x, y) if is_number[symbol] else 1.0 for symbol, x, y in differ)


def test_from_a_setting_without_an_account_to_the_nearest_that_has_one(opened):
    page, name, explorer, stored = opened
    pick, met, accounts = random.Random(6), set(), [counted(explorer, settings) for settings in stored]
    if takes_accounts(name):
        for settings in (random_settings(explorer, pick) for _ in range(20)):
            shown = at(page, name, explorer, settings)
            assert shown.state in ("ready", "failed")
            assert not shown.root.locator(".eb-jump").is_visible()
        return
    while len(met) < 3:  # others than one and the same
        settings = random_settings(explorer, pick)
        if counted(explorer, settings) in accounts:
            continue
        shown = at(page, name, explorer, settings)
        assert shown.state == "absent"
        shown.root.locator(".eb-jump").click()
        assert shown.state in ("ready", "failed")
        assert not shown.root.locator(".eb-jump").is_visible()
        assert page.evaluate("document.activeElement.closest('.eb') !== null")
        now = {symbol: control.from_page(shown.value[symbol]) for symbol, control in explorer.controls.items()}
        assert counted(explorer, now) in accounts
        assert apart(explorer, settings, now) == pytest.approx(min(apart(explorer, settings, one) for one in stored))
        met.add(json.dumps(shown.value))


def test_what_is_copied_is_the_program_that_is_shown(opened):
    page, name, explorer, stored = opened
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for settings in stored[:2]:
        shown = at(page, name, explorer, settings)
        shown.root.locator(".eb-program summary").click()
        shown.root.get_by_role("button", name="copy").click()
        said = shown.root.locator(".eb-program [role=status]")
        page.wait_for_function("(said) => said.textContent === 'Copied.'", arg=said.element_handle())
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == shown.root.locator(".eb-program pre").text_content()
        assert copied.startswith(f'from utils.explorers.gallery import explorer\n\nview = explorer("{name}", ')
        shown.root.locator(".eb-program summary").click()
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new DOMException('not allowed')); }")
    shown.root.locator(".eb-program summary").click()
    shown.root.get_by_role("button", name="copy").click()
    page.wait_for_function(
        "(said) => said.textContent.startsWith('The browser does not let')", arg=said.element_handle()
    )
    shown.root.locator(".eb-program summary").click()
    page.evaluate("delete navigator.clipboard.writeText")


def test_the_program_prints_the_account_of_the_view(opened):
    page, name, explorer, stored = opened
    shown = at(page, name, explorer, stored[-1])
    shown.root.locator(".eb-program summary").click()
    program = shown.root.locator(".eb-program pre").inner_text()
    shown.root.locator(".eb-program summary").click()
    names, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, names)
    assert names["view"].value == stored[-1]
    numbers = {f"{int(n):,}" for row in page.evaluate(ROWS).values() for n in row if n is not None}
    assert numbers
    assert numbers <= set(re.findall(r"-?[\d,]+", printed.getvalue()))


def wait_for_address(page, part: str) -> None:
    page.wait_for_function("(part) => location.hash.includes(part)", arg=part)


def test_a_browser_that_lets_nobody_write_the_address_is_no_harm(opened):
    """Some do so after a hundred changes in half a minute: one slider drawn from end to end."""
    page, name, explorer, stored = opened
    shown = at(page, name, explorer, stored[0])
    page.evaluate("() => { history.replaceState = () => { throw new DOMException('too often', 'SecurityError'); }; }")
    symbol = next(s for s, control in explorer.controls.items() if control.spec()["kind"] == "range")
    for key in ("Home", "ArrowRight", "End"):
        shown.control(symbol).press(key)
        page.wait_for_timeout(200)
        settings = stored[0] | {symbol: shown.value[symbol]}
        found = {place: int(n) for place, (n, _) in page.evaluate(ROWS).items() if n is not None}
        assert found == (predicted(explorer, settings) or {})
    assert shown.value[symbol] > explorer.controls[symbol].minimum
    page.evaluate("delete history.replaceState")


def test_the_address_is_written_once_for_a_slider_that_moves_on(opened):
    page, name, explorer, stored = opened
    shown = at(page, name, explorer, stored[0])
    page.evaluate(
        """() => { window.n = 0; history.replaceState = (...a) => {
             window.n += 1; History.prototype.replaceState.apply(history, a); } }"""
    )
    symbol = next(s for s, control in explorer.controls.items() if control.spec()["kind"] == "range")
    slider = shown.control(symbol).element_handle()
    slider.evaluate(
        """(slider) => { for (const stop of [slider.max, slider.min, slider.max, slider.min]) {
             slider.value = stop; slider.dispatchEvent(new Event("input", { bubbles: true })); } }"""
    )
    end = "" if symbol == list(explorer.controls)[-1] else "&"
    wait_for_address(page, f"{symbol}={explorer.controls[symbol].minimum}{end}")
    assert page.evaluate("window.n") == 1
    page.evaluate("delete history.replaceState")


def test_each_slider_moves_by_keys_says_its_unit_and_writes_the_address(opened):
    page, name, explorer, stored = opened
    shown = at(page, name, explorer, stored[0])
    for symbol, control in explorer.controls.items():
        if control.spec()["kind"] != "range" or not shown.control(symbol).is_enabled():
            continue
        slider, seen = shown.control(symbol), []
        assert control.unit or symbol in WITHOUT_UNIT
        for key in ("Home", "ArrowRight", "PageUp", "End", "ArrowLeft", "PageDown", "ArrowUp", "ArrowDown"):
            slider.press(key)
            seen.append(shown.value[symbol])
            predicted_now = {place: int(n) for place, (n, _) in page.evaluate(ROWS).items() if n is not None}
            settings = {s: each.from_page(shown.value[s]) for s, each in explorer.controls.items()}
            assert predicted_now == (predicted(explorer, settings) or {})
            unit = control.unit.removesuffix("s") if seen[-1] == 1 else control.unit
            assert slider.get_attribute("aria-valuetext") == f"{seen[-1]:,} {unit}".strip()
        wait_for_address(page, f"{symbol}={seen[-1]}")
        assert seen[0] == control.minimum < seen[1] <= seen[2] <= seen[3] > seen[4] > seen[5] < seen[6] > seen[7]


def test_the_mouse_moves_a_slider(opened):
    page, name, explorer, stored = opened
    shown = at(page, name, explorer, stored[0])
    slider = shown.root.locator('.eb-controls [type="range"]').first
    slider.scroll_into_view_if_needed()
    box, symbol = slider.bounding_box(), slider.get_attribute("data-symbol")
    middle, seen = box["y"] + box["height"] / 2, []
    page.mouse.move(box["x"] + box["width"] * 0.1, middle)
    page.mouse.down()
    for part in (0.1, 0.4, 0.7):
        page.mouse.move(box["x"] + box["width"] * part, middle)
        seen.append(shown.value[symbol])
        settings = stored[0] | {symbol: seen[-1]}
        found = {place: int(n) for place, (n, _) in page.evaluate(ROWS).items() if n is not None}
        assert found == (predicted(explorer, settings) or {})
    page.mouse.up()
    assert seen[0] < seen[1] < seen[2]


def test_other_controls_move_by_keys_too(opened):
    page, name, explorer, stored = opened
    shown = at(page, name, explorer, stored[0])
    for symbol, control in explorer.controls.items():
        kind, before = control.spec()["kind"], shown.value[symbol]
        if kind == "range" or not shown.control(symbol).first.is_enabled():
            continue
        input_ = shown.control(symbol).and_(page.locator(f'[value="{before}"], select, [type="checkbox"]')).first
        input_.press("Space" if kind == "toggle" else "ArrowDown")
        assert shown.value[symbol] != before
        wait_for_address(page, f"{symbol}=")


def test_a_control_without_effect_is_disabled_and_makes_no_other_setting(opened):
    page, name, explorer, stored = opened
    for settings in stored:
        names = to_page(settings, explorer)
        idle = {symbol for symbol, control in explorer.controls.items() if not is_meant(control.when, names)}
        changed = settings | {symbol: other_than_default(explorer.controls[symbol]) for symbol in idle}
        shown = at(page, name, explorer, changed)
        assert shown.state in ("ready", "failed")
        assert {symbol for symbol in explorer.controls if shown.control(symbol).first.is_disabled()} == idle
        assert shown.root.locator(".eb-hint:visible").count() == len(idle)


def other_than_default(control):
    values = list(control.values.values()) if hasattr(control, "values") else [control.minimum, control.maximum]
    return next(value for value in values if value != control.default)


def test_this_machine_s_gpu_is_there_and_says_that_a_page_has_no_kernel(opened):
    page, name, explorer, stored = opened
    shown = at(page, name, explorer, stored[0])
    select = shown.control("gpu")
    if "gpu" not in explorer.controls:  # its card is no real one
        assert select.count() == 0
        return
    options = select.locator("option").evaluate_all("all => all.map((option) => [option.text, option.disabled])")
    assert [option for option, is_disabled in options if is_disabled] == ["this machine's GPU"]
    reason = page.locator(f"[id='{select.get_attribute('aria-describedby')}']")
    assert reason.is_visible()
    assert reason.inner_text() == NO_KERNEL
    before = shown.value["gpu"]
    select.press("End")
    assert shown.value["gpu"] == options[-2][0]
    select.select_option(before)
    page.evaluate("(hash) => (location.hash = hash)", f"#{name}?gpu={urllib.parse.quote(options[-1][0])}")
    page.wait_for_selector(".eb-complaint:visible")
    assert (
        "The address asks for gpu = this machine's GPU, which cannot"
        in page.locator(".eb-complaint").first.inner_text()
    )
    assert shown.value["gpu"] == before
    assert shown.root.locator(".eb-again").is_hidden()


def test_an_address_that_is_no_setting_is_no_harm(opened):
    page, name, explorer, _ = opened
    start = {symbol: control.default for symbol, control in explorer.controls.items()}
    for nonsense in ("100%", f"{name}?b=%", f"{name}?b=-3&nonsense=1&d=x"):
        page.goto(f"{page.url.split('#')[0]}#{nonsense}")
        page.reload()
        page.wait_for_selector(".eb")
        assert ExplorerPage(page).value == to_page(start, explorer)
    in_vain = page.locator(".eb-complaint").first.inner_text()
    assert in_vain.startswith("The address asks for b = -3, nonsense = 1, d = x, which cannot be set here")
    page.locator('.eb-controls [type="range"]').first.press("Home")
    assert not page.locator(".eb-complaint").first.is_visible()  # the reader has moved on
    page.reload()
    page.wait_for_selector(".eb")
    assert page.evaluate("window.scrollY") > 500  # the address names the explorer: it is in view


def test_an_address_that_was_just_asked_for_is_not_written_over(opened):
    """As on a busy machine, where the event comes after the setting before it is to be written."""
    page, name, explorer, stored = opened
    at(page, name, explorer, stored[0])
    page.locator('.eb-controls [type="range"]').first.press("Home")
    page.evaluate("history.replaceState(null, '', '#asked-for')")  # of which no event tells
    page.wait_for_timeout(400)
    assert page.evaluate("location.hash") == "#asked-for"
    page.evaluate("location.hash = '#another'")
    page.wait_for_timeout(100)
    page.locator('.eb-controls [type="range"]').first.press("End")
    page.wait_for_function("(name) => location.hash.startsWith(`#${name}?`)", arg=name)


def test_nothing_was_asked_of_a_network_and_nothing_complained(opened):
    page, *_ = opened
    assert all(url.startswith("file:") for url in page.asked)
    assert page.said == []
