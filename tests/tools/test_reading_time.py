"""A chapter's minutes, by the printed rule: what stands before the exercises, and these apart."""

from nbformat import v4

from tools.reading_time import main, reading


def chapter(words=0, predictions=0, results=0, equations=0, exercises=0):
    prose = "word " * words + "**Predict** it. <!-- predict: it --> " * predictions + r"$$x \tag{1}$$ " * equations
    shown = [v4.new_output("stream", text="1")]
    cells = [v4.new_markdown_cell(prose)]
    cells += [v4.new_code_cell("f()", outputs=shown) for _ in range(results)]
    cells += [v4.new_code_cell("f()", outputs=shown, metadata={"tags": ["body"]}), v4.new_code_cell("x = 1")]
    cells += [v4.new_markdown_cell("## Exercises " + "word " * 900)]
    cells += [v4.new_markdown_cell(f"### Exercise {n}") for n in range(exercises)]
    return v4.new_notebook(cells=cells)


def test_each_part_takes_its_time():
    assert reading(chapter(words=1300)).minutes == 10
    assert reading(chapter(words=1301)).minutes == 15  # rounded up to five
    assert reading(chapter(predictions=10)).minutes == 20  # fifteen, and twenty words
    assert reading(chapter(results=20)).minutes == 10
    assert reading(chapter(equations=30)).minutes == 15
    found = reading(chapter(exercises=5))
    assert (found.minutes, found.exercise_minutes, found.words) == (0, 40, 0)


def test_the_rule_is_printed_with_every_chapter(capsys):
    assert main() == 0
    rule, *chapters = capsys.readouterr().out.splitlines()
    assert rule.startswith("130 words a minute, 1.5 min for each prediction")
    assert [line[:2] for line in chapters] == sorted(line[:2] for line in chapters)
    assert "04_every_byte_of_nanogpt" in chapters[4]
