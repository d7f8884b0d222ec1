"""A report's page: complete, small, without an address, and nothing in it runs but its own script."""

import base64
import hashlib
import json
import re
from collections import Counter

import pytest
import torch
from reported import Steps, of_a_gpt, of_an_mlp, of_nothing, out_of_memory, reported

from every_byte.ledger.ledger import Ledger
from every_byte.report.render.drawn import data_of
from every_byte.report.render.moments import MOST_COLUMNS, Moments
from every_byte.report.render.page import modules, script

REPORTS = [of_an_mlp, of_a_gpt, out_of_memory, of_nothing]
HOSTILE = '</script><img src=x onerror="document[`title`]=1">&amp;<!--'


def between(page: str, start: str, end: str) -> str:
    found = re.search(f"{start}(.*?){end}", page, re.DOTALL)
    return found.group(1)


def data_in(page: str) -> dict:
    return json.loads(between(page, '<script type="application/json" id="data">', "</script>"))


# ---- nothing from elsewhere


@pytest.mark.parametrize("report", REPORTS)
def test_its_own_script_and_style_are_all_that_is_allowed(report):
    page = report().html()
    policy = between(page, 'http-equiv="Content-Security-Policy" content="', '"')
    for kind, text in (
        ("script", between(page, "<script>", "</script>")),
        ("style", between(page, "<style>", "</style>")),
    ):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert not re.search(r"<[^>]* style=|<[^>]* on\w+=", page.split("<body>")[1].split("<script")[0])


@pytest.mark.parametrize("report", REPORTS)
def test_it_names_no_address(report):
    page = report().html().replace("http://www.w3.org/2000/svg", "")  # a namespace, which nothing fetches
    assert not re.search(
        r"https?:|//\w+\.\w|@import|url\((?!#)|<link|<img|<iframe|\bfetch\(|new Function|eval\(",
        page.replace("url(#${", "url(#"),
    )


def test_the_script_has_each_name_once_and_no_import():
    """All modules are in one scope."""
    assert "import {" not in script()
    assert not re.search(r"^export ", script(), re.MULTILINE)
    declared = re.compile(r"^(?:export )?(?:async )?(?:const|let|function) (?:\[([^\]]*)\]|(\w+))", re.MULTILINE)
    names = Counter()
    for path in modules():
        for several, one in declared.findall(path.read_text(encoding="utf-8")):
            names.update(several.split(", ") if several else [one])
    assert len(names) > 50
    assert [name for name, n in names.items() if n > 1] == []


def test_each_module_imports_what_an_earlier_one_exports():
    exported = {}
    for path in modules():
        text = path.read_text(encoding="utf-8")
        for names, file in re.findall(r'^import \{ ([\w, ]+) \} from "([./\w]+)";$', text, re.MULTILINE):
            assert set(names.split(", ")) <= exported[(path.parent / file).resolve()]
            assert all(len(re.findall(rf"\b{name}\b", text)) > 1 for name in names.split(", "))
        found = re.findall(r"^export (?:const|function) (\w+)", text, re.MULTILINE)
        exported[path.resolve()] = set(found)


# ---- what is in it


@pytest.mark.parametrize("report", REPORTS)
def test_it_is_a_whole_page(report):
    page = report().html()
    assert page.startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">')
    assert re.search(r"<title>train\.py on [\w-]+: where its memory goes</title>", page)
    levels = [int(level) for level in re.findall(r"<h(\d)", page.split("<script")[0])]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels[:-1], levels[1:], strict=True))
    assert len(set(re.findall(r' id="([^"]+)"', page))) == len(re.findall(r' id="([^"]+)"', page))
    assert "every-byte run --steps 3 train.py" in page


@pytest.mark.parametrize("report", [of_an_mlp, of_a_gpt, out_of_memory])
def test_rows_of_the_tree_add_up_to_the_ledger(report):
    report = report()
    data = data_in(report.html())
    ledger, texts = report.account, data["texts"]
    by_module, by_category, n = Counter(), Counter(), 0
    for module, category, _, _, number, each, slack in data["rows"]:
        by_module[texts[module]] += number * each + slack
        by_category[texts[category]] += number * each
        n += number
    expected = {group.key[0]: group.n_bytes + group.slack_bytes for group in ledger.by("module")}
    assert by_module == expected
    assert by_category == {name: n_bytes for name, n_bytes in ledger.parts.items() if name != "slack"}
    assert n == len(ledger)


def test_of_very_many_rows_those_of_a_module_and_category_are_one(monkeypatch):
    report = of_a_gpt()
    monkeypatch.setattr("every_byte.report.render.drawn.MOST_ROWS", 10)
    data = data_of(report, Moments.of(report))
    groups = report.peak.by("module", "category")
    assert len(data["rows"]) == len(groups)
    found = {
        (data["texts"][module], data["texts"][category]): (n * each, slack)
        for module, category, _, _, n, each, slack in data["rows"]
    }
    assert found == {group.key: (group.n_bytes, group.slack_bytes) for group in groups}


@pytest.mark.parametrize("report", [of_an_mlp, of_a_gpt, out_of_memory])
def test_each_column_of_the_run_is_an_instant_of_the_ledger(report):
    report = report()
    moments = Moments.of(report, most=60)
    timeline, spec = moments.timeline, moments.spec("there")
    last = report.shortage.position if report.ran_out else len(report.trace)
    assert timeline.n_events == sum(event.action in ("alloc", "free") for event in report.trace.events[:last])
    assert timeline.at(timeline.peak) == report.peak.parts
    assert moments.positions[timeline.peak] == report.peak_position
    for column in {0, 20, len(moments.positions) - 1, timeline.peak}:
        ledger = Ledger.at(report.trace, moments.positions[column])
        assert timeline.at(column) == {name: n for name, n in ledger.parts.items() if n}
        shown = spec["largest"][column]
        assert spec["live"][column] == len(ledger)
        assert sum(shown[1::2]) <= len(ledger)
    assert max(timeline.reserved) <= report.peak_reserved_bytes
    assert [name for name, *_ in moments.steps if name.startswith("step")] == [f"step {s.number}" for s in report.steps]


def test_what_is_reserved_is_what_the_gpu_answered():
    answered = {}

    def program(gpu):
        kept = []
        for size in (700, 2**20, 30 * 2**20, 5 * 2**20, 90 * 2**20):
            kept.append(torch.empty(size, dtype=torch.uint8, device=gpu.device))
            answered[len(gpu.trace)] = gpu.memory_reserved()
        return []

    moments = Moments.of(reported(program), most=10_000)
    found = dict(zip(moments.positions, moments.timeline.reserved, strict=True))
    assert {position: found[position] for position in answered} == answered


def test_the_refusal_is_the_last_that_is_drawn():
    moments = Moments.of(out_of_memory())
    assert moments.refused == len(moments.positions) - 1
    assert Moments.of(of_a_gpt()).refused is None


# ---- size


@pytest.mark.nightly
def test_a_model_of_a_thousand_modules_makes_a_small_page():
    def wide(gpu):
        steps = Steps(gpu)
        model = torch.nn.Sequential(*[torch.nn.Linear(16 + i % 7, 16 + (i + 1) % 7) for i in range(1000)]).to(
            gpu.device
        )
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            model(torch.randn(9, 16, device=gpu.device)).sum().backward()
            optimizer.step()
            steps.end()
            optimizer.zero_grad()
        return steps.found

    report = reported(wide)
    page = report.html()
    assert len(report.peak) > 5000
    assert len(page.encode()) < 2_000_000
    assert len(data_in(page)["timeline"]["places"]) == MOST_COLUMNS


# ---- hostile text


def test_text_of_the_program_stays_text():
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module(HOSTILE, torch.nn.Linear(64, 64))

        def forward(self, x):
            return next(iter(self.children()))(x)

    def program(gpu):
        model = Named().to(gpu.device)
        model(torch.randn(8, 64, device=gpu.device)).sum().backward()
        return []

    report = reported(program, ended=HOSTILE)
    page = report.html()
    assert HOSTILE not in page
    assert "<img" not in page
    assert page.count("</script>") == 2
    assert any("onerror" in text for text in data_in(page)["texts"])
    assert "&lt;/script&gt;&lt;img" in page  # how it ended
    in_a_notebook = (report, report.peak.by("module"), report.peak.by("module", "category"))
    for html in (one._repr_html_() for one in in_a_notebook):
        assert "<img" not in html
        assert "</script" not in html
        assert "&lt;img" in html


def test_a_page_is_saved(tmp_path):
    path = of_an_mlp().save(tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == of_an_mlp().html()
