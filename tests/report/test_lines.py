"""Which line of a program made what is there: in the text, on the page and in JSON, or nowhere if not asked."""

import json
import pickle

from forked_runs import in_lines

PROGRAM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        h = self.up(x)
        return self.down(h.relu())

model = Net().to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for i in range(4):
    x = torch.randn(N, 256, device="cuda")
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
MANY, FEW = PROGRAM.replace("N,", "400_000,"), PROGRAM.replace("N,", "8_000_000,")


def text_of(number: int) -> str:
    return MANY.splitlines()[number - 1].strip()


def test_the_peak_by_line(run):
    found = run(MANY)
    shares = found.figures["lines"]
    assert sum(share["allocated_bytes"] for share in shares) == found.figures["peak"]["allocated_bytes"]
    lines = [share["line"] for share in shares if share["line"]]
    assert {line["file"] for line in lines} == {str(run.folder / "train.py")}
    assert all(line["text"] == text_of(line["line"]) for line in lines)
    by_text = {share["line"]["text"]: share for share in shares}
    state = by_text["optimizer.step()"]["by_category"]
    assert set(state) >= {"optimizer state"}
    assert set(by_text['model = Net().to("cuda")']["by_category"]) == {"parameters"}
    assert "by line of the program" in found.report
    assert "train.py:11  h = self.up(x)" in found.report


def test_the_owners_have_lines(run):
    found = run(MANY)
    up = next(owner for owner in found.figures["owners"] if owner["what"] == "relu")
    assert [line["text"] for line in up["lines"]] == ["return self.down(h.relu())"]
    weights = [owner for owner in found.figures["owners"] if owner["category"] == "parameters"]
    assert {line["text"] for owner in weights for line in owner["lines"]} == {'model = Net().to("cuda")'}


def test_the_peak_has_its_line(run):
    found = run(MANY)
    line = found.figures["peak"]["line"]
    assert line["text"] == text_of(line["line"])
    assert f", train.py:{line['line']}" in in_lines(found)


def test_a_request_that_was_refused_has_its_line(run):
    found = run(FEW, "--gpu", "t4-16gb")
    line = found.figures["out_of_memory"]["line"]
    assert line["text"] in ("h = self.up(x)", "return self.down(h.relu())")
    assert f"train.py:{line['line']}" in in_lines(found)


def test_a_librarys_line_is_not_the_programs(run):
    """What a folder site-packages has is a library: the program's own line is the one that calls it."""
    library = run.folder / "site-packages"
    library.mkdir(exist_ok=True)
    (library / "alibrary.py").write_text("import torch\ndef make(n):\n    return torch.zeros(n, device='cuda')\n")
    found = run(f"import sys; sys.path.insert(0, {str(library)!r})\nimport alibrary\nx = alibrary.make(1 << 20)\n")
    (share,) = found.figures["lines"]
    assert share["line"]["text"] == "x = alibrary.make(1 << 20)"


def test_without_lines_there_are_none_and_no_other_figure_differs(run):
    lined, plain = run(MANY).figures, run(MANY, "--no-lines").figures
    assert plain["lines"] == []
    assert plain["peak"]["line"] is None
    for figures in (lined, plain):
        for name in ("command", "seconds", "lines", "owners", "growth"):
            figures.pop(name)
        figures["peak"].pop("line")
    assert lined == plain
    assert "by line" not in run(MANY, "--no-lines").report


def test_the_page_has_the_lines_folded(run):
    path = run.folder / "report.html"
    run(MANY, "--html", str(path))
    page = path.read_text(encoding="utf-8")
    assert "<h3>By line</h3>" in page
    assert '<summary><code>train.py:11</code></summary><code class="eb-source">h = self.up(x)</code>' in page
    data = json.loads(page.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    assert any(", train.py:14" in text for text in data["texts"])


def test_a_hostile_line_is_text(run):
    path = run.folder / "report.html"
    run(
        "import torch\nx = torch.zeros(1 << 20, device='cuda')  # </code><script>alert(1)</script>\n",
        "--html",
        str(path),
    )
    shown = path.read_text(encoding="utf-8").split("<script")[0]
    assert "&lt;script&gt;alert(1)" in shown


def test_a_trace_and_a_snapshot_have_them(run):
    events, snapshot = run.folder / "events.json", run.folder / "snapshot.pickle"
    run(MANY, "--trace", str(events), "--viz", str(snapshot))
    trace = json.loads(events.read_text(encoding="utf-8"))
    rows = [dict(zip(trace["fields"], row, strict=True)) for row in trace["events"]]
    (up,) = {row["line"] for row in rows if row["action"] == "alloc" and row["module"] == "up" and not row["node"]}
    assert up == f"{run.folder / 'train.py'}:11"
    with snapshot.open("rb") as file:
        entries = pickle.load(file)["device_traces"][0]
    frames = [frame for entry in entries for frame in entry["frames"]]
    assert {"filename": str(run.folder / "train.py"), "line": 11, "name": "forward"} in frames


def test_a_notebooks_cell_is_named(run):
    cells = [
        {"cell_type": "code", "source": "import torch\n"},
        {"cell_type": "code", "source": "x = torch.zeros(1 << 20).cuda()"},
    ]
    notebook = json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
    found = run(notebook, name="train.ipynb")
    assert "train.ipynb, cell 2:1  x = torch.zeros(1 << 20).cuda()" in found.report
