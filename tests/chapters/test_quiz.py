"""The quiz: two questions a chapter, each with a folded cell that computes the answer.

`make notebooks` runs it, and holds what it shows to what is stored.
"""

import re

import nbformat
import notebook_rules as rules
import pytest
from places import ROOT

from tools.teachers import section_minutes

QUIZ = ROOT / "book" / "quiz.ipynb"
NOTEBOOK = nbformat.reads(QUIZ.read_text(encoding="utf-8"), as_version=nbformat.NO_CONVERT)
CELLS = NOTEBOOK.cells
QUESTIONS = [(cell, behind) for cell, behind in zip(CELLS, CELLS[1:], strict=False) if "### Question" in cell.source]
N_CHAPTERS = len({path.name[:2] for path in (ROOT / "chapters").glob("*.ipynb")})  # 0 and 0b are one here


@pytest.mark.parametrize(
    "rule",
    [rules.the_file, rules.the_ids, rules.the_execution, rules.the_outputs, rules.the_live_cells],
    ids=lambda rule: rule.__name__,
)
def test_it_keeps_a_chapters_rules(rule):
    assert list(rule(NOTEBOOK)) == []


def test_there_are_two_questions_for_each_chapter_in_their_order():
    text = "\n\n".join(cell.source for cell in CELLS if cell.cell_type == "markdown")
    found = re.findall(r"^## Chapter (\d+)|^### Question (\d+)", text, re.MULTILINE)
    wanted = [pair for n in range(N_CHAPTERS) for pair in ((str(n), ""), ("", str(2 * n + 1)), ("", str(2 * n + 2)))]
    assert found == wanted


@pytest.mark.parametrize(("question", "answer"), QUESTIONS, ids=[answer.id for _, answer in QUESTIONS])
def test_an_answer_is_folded_says_why_and_is_computed(question, answer):
    assert answer.cell_type == "code"
    assert {"solution", "hide-cell"} <= set(answer.metadata["tags"])
    assert answer.metadata["jupyter"] == {"source_hidden": True, "outputs_hidden": True}
    first, *lines = answer.source.splitlines()
    why = " ".join(line.removeprefix("# ") for line in lines if line.startswith("#"))
    assert first == "# Solution"
    sections = re.findall(r"\d+\.\d+", re.search(r"Sections? (\d.*)\.$", why)[1])
    assert sections
    assert set(sections) <= set(section_minutes())
    chapter = str((int(re.search(r"Question (\d+)", question.source)[1]) - 1) // 2)
    assert chapter in {number.split(".")[0] for number in sections}
    (shown,) = {output.text for output in answer.outputs}
    assert any(letter.isdigit() for letter in shown)
    assert question.source.rstrip().endswith("?")


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("thousand", -(-4 * 1000 // 512) * 512),
        ("row", 64 * 2**20),
        ("exponential", 4 * 10**6),
        ("frozen", 64 * 100 * 4),
        ("mlp", 9 * 1024 * 512 * 2),
        ("mask", 1024 * 512),
        ("relu", 4 * 1024 * 512 * 2),
        ("logits", 2 * 12 * 1024 * 50_304),
        ("checkpoint", 4 * 128 * 256 * 2),
        ("eighth", 12 * 1000**2 // 8),
        ("llama", 8 * 8_030_261_248),
    ],
)
def test_answers_by_hand(name, answer):
    (cell,) = (cell for cell in CELLS if cell.id == f"answer-{name}")
    assert f"{answer:,} bytes" in cell.outputs[0].text


def test_choices_by_hand():
    shown = {cell.id.removeprefix("answer-"): cell.outputs[0].text for cell in CELLS if cell.id.startswith("answer-")}
    assert "ExpBackward0.result" in shown["exponential"]
    assert re.findall(r"(\S+) +tells", shown["tell"]) == ["sigmoid"]
    assert float(shown["between"]) == 12
    assert min(re.findall(r"(\d+) segments: peak +(\d+)", shown["segments"]), key=lambda found: int(found[1]))[0] == "4"
    assert re.findall(r"(\S.*?) +(\S+) of it", shown["whole"])[-1] == ("mlp: input", "1")
    assert re.findall(r"^(\S+) +fit$", shown["llama"], re.MULTILINE) == ["h100-80gb"]
    assert round(float(re.search(r"all logits +([\d.]+) GiB", shown["loss"])[1])) == 12
    assert float(re.search(r"([\d.]+) times", shown["batch"])[1]) < 1.01
    assert "0 bytes allocated" in shown["reserved"]
