"""A chapter's minutes, by the printed rule: what stands before the exercises, and these apart."""

import re

import nbformat
import pytest
from nbformat import v4
from places import ROOT

from tools.reading_time import main, minutes_by_section, reading


def chapter(words=0, lines=0, predictions=0, results=0, equations=0, exercises=0, detour=0):
    prose = "word " * words + "**Predict** it. <!-- predict: it --> " * predictions + r"$$x \tag{1}$$ " * equations
    shown = [v4.new_output("stream", text="1")]
    imports = "import math\n\nfrom utils import MLP\n"
    cells = [v4.new_code_cell(imports), v4.new_markdown_cell(prose), v4.new_code_cell("x = 1\n" * lines)]
    cells += [v4.new_code_cell("# see", outputs=shown, metadata={"tags": ["body"]}) for _ in range(9)]
    cells += [v4.new_code_cell("", outputs=shown) for _ in range(results)]
    if detour:
        cells += [v4.new_markdown_cell("## Detour: more\n\n" + "word " * detour), v4.new_code_cell("x = 1\n" * 99)]
        cells += [v4.new_markdown_cell("## Takeaways")]
    cells += [v4.new_markdown_cell("## Exercises " + "word " * 900)]
    cells += [v4.new_markdown_cell(f"### Exercise {n}") for n in range(exercises)]
    return v4.new_notebook(cells=cells)


def test_each_part_takes_its_time():
    assert reading(chapter(words=1500)).minutes == 10
    assert reading(chapter(words=1501)).minutes == 15  # rounded up to five
    assert reading(chapter(lines=200)).minutes == 10  # neither imports nor what is folded
    assert reading(chapter(predictions=10)).minutes == 20  # fifteen, and twenty words
    assert reading(chapter(results=20)).minutes == 10
    assert reading(chapter(equations=30)).minutes == 15
    found = reading(chapter(exercises=5))
    assert (found.minutes, found.exercise_minutes, found.words) == (0, 40, 0)


def test_a_detour_is_not_on_the_way():
    with_detour = chapter(words=1500, detour=600)
    assert reading(with_detour).words == 1501  # and "Takeaways"
    minutes = minutes_by_section(with_detour)
    assert [*minutes] == ["", "Detour: more", "Takeaways"]
    assert minutes["Detour: more"] == pytest.approx(602 / 150 + 99 * 0.05)


def test_the_rule_is_printed_with_every_chapter(capsys):
    assert main() == 0
    rule, *chapters = capsys.readouterr().out.splitlines()
    assert rule.startswith("150 words a minute, 0.05 min for each line of code, 1.5 min")
    assert [line[:3] for line in chapters] == sorted(line[:3] for line in chapters)
    assert any(line.startswith("04_every_byte_of_nanogpt ") for line in chapters)


def test_the_path_of_two_hours_takes_two_hours():
    page = (ROOT / "book" / "index.md").read_text(encoding="utf-8")
    (path,) = re.findall(r"\*\*In two hours\*\* .*?\n\n", page, re.DOTALL)
    chapters = [nbformat.read(file, as_version=4) for file in sorted((ROOT / "chapters").glob("*.ipynb"))]
    minutes = {name.partition(" ")[0]: n for chapter in chapters for name, n in minutes_by_section(chapter).items()}
    sections = re.findall(r"\d+\.\d+", path)
    assert {section.partition(".")[0] for section in sections} == set("012345678")
    assert 105 < sum(minutes[section] for section in sections) <= 120


def test_no_chapter_takes_more_than_an_hour():
    for file in sorted((ROOT / "chapters").glob("*.ipynb")):
        assert reading(nbformat.read(file, as_version=4)).minutes <= 60, file.name
