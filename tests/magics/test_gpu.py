"""`%%gpu` in a real kernel: a cell runs on the simulated GPU, and its report is shown, also in nbconvert's HTML."""

import re
from html import unescape

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from places import ROOT

TRAIN = """%%gpu t4-16gb --steps 2 --save report
import torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for i in range(9):
    loss = model(torch.randn(4096, 256, device="cuda")).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()"""
CELLS = {
    "load": "%load_ext every_byte",
    "train": TRAIN,
    "names": "print(len(report.steps), report.gpu, i, report.was_stopped)",
    "after": "print(torch.cuda.is_available())",
    "too much": "%%gpu t4-16gb\nx = torch.zeros(2**32, device='cuda')",
    "wrong": "%%gpu t4-16gb --tests 3\n1",
    "account": "from every_byte.account import account, numbers\n"
    "account(nn.Sequential(nn.Linear(64, 64)), numbers('b', 64), gpu='t4-16gb', b=8,\n"
    "        loss=lambda output, batch: output.square().mean())",
}


@pytest.fixture(scope="module")
def ran():
    """The notebook after a real kernel has run it."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS.values()])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", allow_errors=True, store_widget_state=False)
    client.execute(cwd=str(ROOT))
    return notebook


def outputs(ran, name):
    return ran.cells[list(CELLS).index(name)].outputs


def html_of(ran, name):
    shown = [one for one in outputs(ran, name) if one.output_type in ("execute_result", "display_data")]
    assert len(shown) == 1, outputs(ran, name)
    return shown[0].data["text/html"]


def words(html):
    return " ".join(unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", html, flags=re.DOTALL)).split())


@pytest.mark.long
def test_the_cell_runs_and_its_report_is_shown(ran):
    html = html_of(ran, "train")
    assert words(html).startswith("Fits on t4-16gb: needs 0.1 of 14.0 GiB.")
    assert 'data-fits="true"' in html
    assert "activations" in html
    assert re.search(r"Cell .*:9|a cell|:6", words(html))
    (printed,) = outputs(ran, "names")
    assert printed.text == "2 t4-16gb 2 True\n"
    assert not [one for one in outputs(ran, "train") if one.output_type == "error"]
    assert outputs(ran, "after")[0].text == "False\n"


@pytest.mark.long
def test_the_picture_has_each_category_and_needs_no_script(ran):
    html = html_of(ran, "train")
    assert "<script" not in html
    shown = re.findall(r"<rect[^>]*><title>([\w ]+): ([\d.,]+ \w+)</title>", html)
    listed = dict(re.findall(r"<i [^>]*></i>([\w ]+?) ([\d.,]+ [KMG]?i?B)</li>", html))
    assert shown
    assert all(listed[name] == n_bytes for name, n_bytes in shown)
    for scheme in ("light", "dark"):
        assert f'[data-jp-theme-light="{"true" if scheme == "light" else "false"}"] .eb-nb' in html
        assert f".vscode-{scheme} .eb-nb" in html


@pytest.mark.long
def test_a_cell_that_runs_out_of_memory_is_reported(ran):
    assert any(one.output_type == "error" or "OutOfMemoryError" in str(one) for one in outputs(ran, "too much"))
    assert words(html_of(ran, "too much")).startswith("Out of memory on t4-16gb: needs at least 16.0 GiB, has")


@pytest.mark.long
def test_what_is_not_understood_says_what_to_write(ran):
    (error,) = outputs(ran, "wrong")
    assert "%%gpu takes the name of a GPU and options: unrecognized arguments: --tests 3" in error.evalue


@pytest.mark.long
def test_an_account_has_a_verdict_gib_and_a_picture(ran):
    html = html_of(ran, "account")
    assert words(html).startswith("Fits on t4-16gb: needs less than 0.1 of 14.0 GiB.")
    assert "<svg" in html


@pytest.mark.long
def test_nbconverts_page_has_the_same(ran):
    page, _ = HTMLExporter().from_notebook_node(ran)
    assert "Fits on t4-16gb: needs 0.1 of 14.0 GiB." in words(page)
    assert page.count('class="eb-nb"') == 3
    pictures = re.findall(r'<svg [^>]*aria-label="([^"]*)', page)
    assert [label for label in pictures if "activations" in label and "reserved of 14 GiB" in label]
    assert ".eb-nb .eb-fit" in page
