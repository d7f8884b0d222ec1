"""A report's page in Chromium, from a file and without a network: what it shows is what the report says."""

import pytest
import torch
from reported import Steps, of_a_gpt, of_an_mlp, of_nothing, out_of_memory, reported

from every_byte.ledger.ledger import Ledger
from every_byte.report.owners import kind_of
from every_byte.report.render.moments import Moments
from tools.chromium import chromium
from tools.site import install_parts

pytestmark = pytest.mark.sampled(2)

REPORTS = {"gpt": of_a_gpt, "mlp": of_an_mlp, "out of memory": out_of_memory, "nothing": of_nothing}
LABEL = "instant of the run"
HOSTILE = '</script><img src=x onerror="document[`title`]=1">'


class Opened:
    """A report's page as it is opened; `said` has what the console said, `asked` what was asked for."""

    def __init__(self, page, report, path) -> None:
        self.page, self.report, self.said, self.asked = page, report, [], []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.context.set_offline(True)
        self.address = report.save(path).as_uri()
        page.goto(self.address)
        self.settle()

    def settle(self) -> None:
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def open_all(self) -> None:
        """Open every branch of the tree by keyboard; what is within comes a moment later."""
        while closed := self.page.locator(".eb-tree details:not([open]) > summary").all():
            closed[0].press("Enter")
            self.page.locator(".eb-tree details[open]:not(:has(> ul))").first.wait_for(state="detached")

    def ledger(self) -> dict[str, int]:
        """The bytes of each category at the instant that is chosen."""
        items = self.page.locator(".eb-ledger li").all()
        return {item.get_attribute("data-category"): int(item.get_attribute("data-bytes")) for item in items}

    def owners(self) -> list[tuple[str, int]]:
        """Module and bytes of each owner that is listed."""
        items = self.page.locator(".eb-owners li").all()
        return [(item.locator("code").inner_text(), int(item.get_attribute("data-bytes"))) for item in items]


@pytest.fixture
def opened(tmp_path):
    with chromium(viewport={"width": 1000, "height": 900}) as page:
        yield lambda report: Opened(page, report, tmp_path / "report.html")


def expected_owners(ledger: Ledger) -> list[int]:
    kinds: dict = {}
    for row in ledger.rows:
        key = row.category, kind_of(row.module), row.name or row.operation, row.shape, row.dtype, row.n_bytes
        kinds[key] = kinds.get(key, 0) + row.n_bytes
    return sorted(kinds.values(), reverse=True)[:10]


@pytest.mark.parametrize("name", REPORTS)
def test_it_opens_without_a_word_and_asks_for_nothing(opened, name):
    shown = opened(REPORTS[name]())
    assert shown.said == []
    assert shown.asked == [shown.address]
    assert shown.page.locator("h1").count() == 1
    headline = {
        "out of memory": "Out of memory on t4-16gb: needs at least 14.4 GiB",
        "nothing": "Nothing was allocated on",
    }
    said = shown.page.locator(".eb-fit strong").inner_text()
    assert said.startswith(headline.get(name, "Fits on a100-80gb: "))


@pytest.mark.parametrize("name", ["gpt", "mlp"])
def test_it_opens_at_the_peak_and_keys_move_the_instant(opened, name):
    shown = opened(REPORTS[name]())
    report, moments = shown.report, Moments.of(shown.report)
    last = len(moments.positions) - 1
    slider = shown.page.get_by_label(LABEL)
    assert int(slider.input_value()) == moments.timeline.peak
    slider.focus()
    step = max(1, round(last / 10))  # as browsers have it
    for key, column in (
        (None, moments.timeline.peak), ("Home", 0), ("ArrowRight", 1), ("PageUp", 1 + step), ("ArrowLeft", step),
        ("PageDown", 0), ("End", last),
    ):  # fmt: skip
        if key:
            shown.page.keyboard.press(key)
        column = column if key not in ("PageUp", "ArrowLeft", "PageDown") else int(slider.input_value())
        ledger = Ledger.at(report.trace, moments.positions[column])
        assert int(slider.input_value()) == column
        assert shown.ledger() == {category: n for category, n in ledger.parts.items() if n}
        owners = shown.owners()
        assert [n_bytes for _, n_bytes in owners] == expected_owners(ledger)
        where = report.place(moments.positions[column])
        said = slider.get_attribute("aria-valuetext")
        assert where.when in said
        assert f": {ledger.allocated_bytes:,d} bytes" in said
    assert int(slider.input_value()) == last


def test_the_pointer_over_the_plot_chooses_an_instant(opened):
    shown = opened(of_a_gpt())
    moments = Moments.of(shown.report)
    n = len(moments.positions)
    box = shown.page.locator(".eb-areas").bounding_box()
    for share in (0.25, 0.8):
        left = box["x"] + 62
        x = left + share * (box["x"] + box["width"] - left)
        shown.page.mouse.move(x, box["y"] + 100)
        column = int(shown.page.get_by_label(LABEL).input_value())
        assert abs(column - share * n) <= 2
        ledger = Ledger.at(shown.report.trace, moments.positions[column])
        assert shown.ledger() == {category: n for category, n in ledger.parts.items() if n}
    shown.page.get_by_role("button", name="to the peak").click()
    assert sum(shown.ledger().values()) == shown.report.peak.allocated_bytes


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("name", ["gpt", "out of memory"])
def test_the_tree_of_modules_adds_up_at_every_branch(opened, name, together):
    shown = opened(REPORTS[name]())
    box = shown.page.get_by_label("alike modules together")
    box.set_checked(together)
    shown.open_all()
    branches = shown.page.evaluate("""() => [...document.querySelectorAll(".eb-tree details")].map((details) => [
        Number(details.dataset.bytes),
        [...details.querySelectorAll(":scope > ul > li")].map((li) => li.dataset.bytes ?? li.firstChild.dataset.bytes),
    ]).map(([whole, parts]) => [whole, parts.map(Number)])""")
    assert len(branches) > 1
    assert all(whole == sum(parts) for whole, parts in branches)
    top = shown.page.evaluate(
        """() => [...document.querySelectorAll(".eb-tree > ul > li > details")]
        .map(({ dataset }) => [dataset.module, Number(dataset.bytes)])"""
    )
    assert sum(n_bytes for _, n_bytes in top) == shown.report.account.allocated_bytes
    modules = {module for module, _ in top}
    if name == "gpt":
        assert ("blocks.*" in modules) == together
    numbers = {"0", "1", "2"} if name == "gpt" else {"0 Linear", "7 Linear"}
    found = set(shown.page.locator(".eb-tree details").evaluate_all("all => all.map((one) => one.dataset.module)"))
    assert numbers.issubset(found) == (not together or name == "out of memory")  # a few layers are each its own


@pytest.mark.parametrize(("n_layers", "named"), [(3, {"0 Linear", "1 Linear", "2 Linear"}), (14, {"* Linear"})])
def test_a_few_layers_of_a_stack_are_shown_each_and_many_by_class(opened, n_layers, named):
    def program(gpu):
        model = torch.nn.Sequential(*[torch.nn.Linear(64, 64, device=gpu.device) for _ in range(n_layers)])
        model(torch.randn(8, 64, device=gpu.device)).sum().backward()
        return []

    shown = opened(reported(program))
    found = shown.page.locator(".eb-tree details").evaluate_all("all => all.map((one) => one.dataset.module)")
    assert {name for name in found if "Linear" in name} == named
    shown.page.get_by_label("alike modules together").set_checked(False)
    found = shown.page.locator(".eb-tree details").evaluate_all("all => all.map((one) => one.dataset.module)")
    assert {name for name in found if "Linear" in name} == {f"{i} Linear" for i in range(n_layers)}


def test_out_of_memory_shows_the_map_and_where_it_was(opened):
    shown = opened(out_of_memory())
    shortage = shown.report.shortage
    table = shown.page.locator("#memory-ran-out ~ table").inner_text()
    for n_bytes in (shortage.asked_bytes, shortage.driver_bytes, shortage.cached_bytes, shortage.allocated_bytes):
        assert f"{n_bytes:,d}" in table
    drawn = shown.page.locator(".eb-segments .eb-segment").evaluate_all("all => all.map((one) => one.dataset.category)")
    assert set(drawn) == set(shortage.names) - {"cuBLAS workspace"} | set(drawn)
    assert {"parameters", "activations"} <= set(drawn)
    assert shown.page.locator(".eb-segments .eb-card-asked").count() >= 1
    words = shown.page.locator(".eb-refusal-name")
    assert words.text_content() == "out of memory"
    plate, name = shown.page.locator(".eb-refusal-plate").bounding_box(), words.bounding_box()
    assert plate["x"] <= name["x"] < name["x"] + name["width"] <= plate["x"] + plate["width"]
    assert plate["y"] <= name["y"] < name["y"] + name["height"] <= plate["y"] + plate["height"]
    assert shown.page.locator(".eb-card .eb-card-asked").count() == 1


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["gpt", "out of memory"])
def test_nothing_is_wider_than_the_page(opened, name, width):
    shown = opened(REPORTS[name]())
    shown.page.set_viewport_size({"width": width, "height": 900})
    shown.settle()
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    svgs = "all => Math.max(...all.map((one) => one.getBoundingClientRect().right))"
    assert shown.page.locator("svg text").evaluate_all(svgs) <= width


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["gpt", "out of memory", "nothing"])
def test_axe_finds_no_barrier(tmp_path, name, theme):
    axe = (install_parts() / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    with chromium(viewport={"width": 1000, "height": 900}, color_scheme=theme) as page:
        Opened(page, REPORTS[name](), tmp_path / "report.html").open_all()
        page.evaluate(axe)
        found = page.evaluate("axe.run({ resultTypes: ['violations'] })")
    assert found["passes"]
    assert {rule["id"]: [node["html"][:200] for node in rule["nodes"][:3]] for rule in found["violations"]} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_light_or_dark_as_the_system_is_and_light_in_print(tmp_path, theme):
    with chromium(color_scheme=theme) as page:
        Opened(page, of_an_mlp(), tmp_path / "report.html")
        colour = "getComputedStyle(document.querySelector('main')).backgroundColor"
        assert page.evaluate(colour) == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 20, 24)"}[theme]
        page.emulate_media(media="print")
        assert page.evaluate(colour) == "rgb(255, 255, 255)"
        assert not page.get_by_label(LABEL).is_visible()
        assert page.locator(".eb-areas").is_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_names_of_the_program_do_nothing(tmp_path, theme):
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module(HOSTILE, torch.nn.Linear(64, 64))

        def forward(self, x):
            return next(iter(self.children()))(x)

    def program(gpu):
        steps = Steps(gpu)
        Named().to(gpu.device)(torch.randn(8, 64, device=gpu.device)).sum().backward()
        steps.end()
        return steps.found

    report = reported(program, ended=HOSTILE, exit_code=1, command=["every-byte", "run", "train.py", HOSTILE])
    with chromium(viewport={"width": 1000, "height": 900}, color_scheme=theme) as page:
        shown = Opened(page, report, tmp_path / "report.html")
        title = page.title()
        shown.open_all()
        assert page.get_by_text("onerror").count() > 1  # it is there, as text
        assert page.locator("img").count() == 0
        assert page.title() == title == "train.py on a100-80gb: where its memory goes"
        slider = page.get_by_label(LABEL)  # and the page works
        slider.press("Home")
        assert slider.input_value() == "0"
        assert shown.said == []


def test_what_is_injected_all_the_same_may_not_run(opened):
    """The page's policy is of use: a script that has found a way in does not run."""
    shown = opened(of_an_mlp())
    shown.page.evaluate("""() => {
      const script = document.createElement("script");
      script.textContent = "document.title = 'run'";
      document.body.append(script);
    }""")
    assert shown.page.title() != "run"
    assert any("Content Security Policy" in said for said in shown.said)


def test_without_scripts_the_tables_are_there(tmp_path):
    path = of_a_gpt().save(tmp_path / "report.html")
    with chromium(java_script_enabled=False) as page:
        page.goto(path.as_uri())
        assert f"{of_a_gpt().peak.allocated_bytes:,d}" in page.locator("#owners ~ table").inner_text()
        assert page.get_by_text("which is switched off").first.is_visible()
        assert page.locator("table").count() == 3
