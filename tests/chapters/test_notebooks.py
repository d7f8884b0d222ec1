"""Every stored chapter keeps the rules, and each rule catches what it is there for."""

import copy
import re

import nbformat
import notebook_rules as rules
import pytest
from nbformat import v4
from places import ROOT

CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
PAGES = [ROOT / "README.md", *(ROOT / "book").glob("*.md")]


def test_there_are_chapters():
    assert CHAPTERS


@pytest.mark.sampled(4)
@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_chapter(chapter, rule):
    broken = list(rule(nbformat.reads(chapter.read_text(encoding="utf-8"), as_version=nbformat.NO_CONVERT)))
    assert not broken, "\n".join(broken)


def still_to_come(text):
    """Chapters of which a sentence says that they are being written."""
    sentences = [one for one in re.split(r"(?<=[.!?])\s", text) if "being written" in one]
    return {int(number) for one in sentences for number in re.findall(r"[Cc]hapter (\d+)", one)}


def test_no_chapter_that_is_here_is_said_to_be_still_to_come():
    texts = {path.name: path.read_text(encoding="utf-8") for path in [*CHAPTERS, *PAGES]}
    here = {int(path.name[:2]) for path in CHAPTERS}
    assert {name: still_to_come(text) & here for name, text in texts.items() if still_to_come(text) & here} == {}
    assert still_to_come("See chapter 5. Chapter 7, which is being written, says more.") == {7}


def numbers_of_equations(text):
    """Those that a cell's text has, by a tag or as a row's first column; and those that it names."""
    has = re.findall(r"\\tag\{(\d+\.\d+)\}", text) + re.findall(r"^\|\s*\((\d+\.\d+)\)\s*\|", text, re.MULTILINE)
    return set(has), set(re.findall(r"(?<![\w.(])\((\d+\.\d+)\)(?![\w(])", text))


def test_an_equation_that_is_named_is_in_a_chapter():
    """The site, which takes minutes, is refused where one is not."""
    cells = [cell.source for path in CHAPTERS for cell in nbformat.read(path, 4).cells if cell.cell_type == "markdown"]
    has, names = (set().union(*each) for each in zip(*map(numbers_of_equations, cells), strict=True))
    assert names <= has
    assert numbers_of_equations("| (2.1) | a |\n\n$$b \\tag{2.2}$$\n\nBy (2.3).") == ({"2.1", "2.2"}, {"2.1", "2.3"})


# ----------------------------------------------------------------------------------------------- the rules themselves


def text(name, source, **metadata):
    return v4.new_markdown_cell(source, id=name, metadata=metadata)


def code(name, source, *outputs, **metadata):
    return v4.new_code_cell(source, id=name, outputs=list(outputs), metadata=metadata)


def printed(line):
    return v4.new_output("stream", name="stdout", text=line)


OPENING = """# 9. A chapter

**The question.** What?

**Why it matters.** It does.

<details>
<summary>The answer in one sentence</summary>

So.

</details>

**Time:** 25 minutes, and 35 for the exercises. **Needs a GPU:** no.

**Short path:** section 1.

*The results are stored below the cells.*"""


@pytest.fixture
def good():
    """A chapter that keeps every rule."""
    folded = {"tags": ["hide-cell", "solution"], "jupyter": {"source_hidden": True, "outputs_hidden": True}}
    picture = v4.new_output("display_data", {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"})
    cells = [
        text("opening", OPENING),
        code("imports", "from utils import open_gpu"),
        text("story", "word " * 3_000 + "**Predict** it. <!-- predict: it takes -->"),
        code("account", "print(83_886_080)", printed("it takes 83,886,080 bytes")),
        code("account-check", "assert True", tags=["check", "hide-cell"], jupyter={"source_hidden": True}),
        text("drawing", "See:"),
        code("figure", "draw()", picture, mystnb={"image": {"alt": "Two bars of the same height"}}),
        text("here", "And on this machine:"),
        code("live", 'open_gpu("live")', printed("no GPU here"), tags=["nbval-ignore-output"]),
        text("takeaways", "## Takeaways\n\nOne."),
        text("exercises", "## Exercises"),
    ]
    for number in range(1, 5):
        cells += [
            text(f"exercise-{number}", f"### Exercise {number}"),
            code(f"solution-{number}", "# Solution\n1 + 1", **folded),
        ]
    cells += [text("sources", "## Sources")]
    notebook = v4.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for count, cell in enumerate(rules.code_cells(notebook), start=1):
        cell.execution_count = count
    return notebook


def cell_of(notebook, name):
    return next(cell for cell in notebook.cells if cell.id == name)


def shows(line):
    return lambda notebook: cell_of(notebook, "account").outputs.append(printed(line))


def shows_first(line):
    return lambda notebook: cell_of(notebook, "account").update(outputs=[printed(line)])


def shows_mime(mime, data):
    output = v4.new_output("display_data", {mime: data})
    return lambda notebook: cell_of(notebook, "account").outputs.append(output)


def sets(name, **fields):
    return lambda notebook: cell_of(notebook, name).update(copy.deepcopy(fields))


def adds_prose(source):
    return lambda notebook: notebook.cells.insert(3, text("added", source))


def adds_code_cells(number):
    def change(notebook):
        notebook.cells[5:5] = [code(f"more-{count}", "1") for count in range(number)]

    return change


def fails(notebook):
    error = v4.new_output("error", ename="ValueError", evalue="no", traceback=[])
    cell_of(notebook, "account").outputs.append(error)


def warns(notebook):
    cell_of(notebook, "account").outputs.append(v4.new_output("stream", name="stderr", text="UserWarning"))


SHOWN = {"output_type": "stream", "name": "stdout", "text": "Right"}
BREAKS = [
    ("the_file", lambda nb: nb.update(nbformat_minor=4), "nbformat must be 4.5: got 4.4"),
    ("the_file", lambda nb: nb.metadata.kernelspec.update(name="my-env"), "must be python3: got my-env"),
    ("the_file", lambda nb: nb.metadata.update(widgets={}), "got ['widgets']"),
    (
        "the_file",
        lambda nb: nb.metadata.update(language_info={"name": "python", "version": "3.11.7"}),
        "the name alone",
    ),
    ("the_file", sets("account", metadata={"execution": {"iopub.status.busy": "x"}}), "got ['execution']"),
    ("the_file", sets("account", cell_type="sketch"), "not a valid notebook"),
    ("the_ids", sets("account", id="1f3a9c0e"), "got '1f3a9c0e'"),
    ("the_ids", sets("account", id="deadbeef"), "got 'deadbeef'"),
    ("the_ids", sets("account", id="abcdef01-2345-4678-9abc-def012345678"), "words in kebab-case"),
    ("the_ids", sets("account", id="Account_1"), "got 'Account_1'"),
    ("the_ids", sets("account", id="imports"), "must be unique: 'imports'"),
    ("the_execution", sets("account", execution_count=None), "must have execution_count 2: got None"),
    ("the_execution", sets("account", execution_count=7), "must have execution_count 2: got 7"),
    ("the_execution", sets("account", source=" \n"), "cell account is empty"),
    ("the_execution", fails, "failed without the tag raises-exception"),
    ("the_execution", sets("account", metadata={"tags": ["raises-exception"]}), "did not fail, and has the tag"),
    ("the_execution", warns, "wrote to stderr"),
    ("the_outputs", shows("loaded /" + "home/ada/model.pt"), "an absolute path: /" + "home/ada/model.pt"),
    ("the_outputs", shows("C:\\" + "Users"), "an absolute path"),
    ("the_outputs", shows("<Linear at 0x7f31aa>"), "a memory address: 0x7f31aa"),
    ("the_outputs", shows_mime("text/html", "<p>2026-01-31</p>"), "a date: 2026-01-31"),
    ("the_outputs", shows_mime("image/svg+xml", "<dc:date>2026-01-31</dc:date>"), "a date: 2026-01-31"),
    ("the_outputs", shows("done at 12:03:59"), "a time of day: 12:03:59"),
    ("the_outputs", shows(" 40%|████"), "a progress bar"),
    ("the_outputs", shows_mime("application/vnd.jupyter.widget-view+json", {"model_id": "1"}), "stores a widget"),
    (
        "the_outputs",
        shows_mime("text/plain", "Dropdown(options=(1, 2))"),
        "shows Dropdown(..), which a page does not know",
    ),
    ("the_live_cells", sets("live", metadata={}), 'cell live is live (open_gpu("live): tag it'),
    ("the_live_cells", sets("account", source="Explorer(mlp)"), "cell account is live (Explorer(): tag it"),
    ("the_live_cells", sets("account", source="%timeit f()"), "cell account is live (%timeit): tag it"),
    ("the_live_cells", sets("account", metadata={"tags": ["nbval-skip"]}), "never executed"),
    ("the_live_cells", lambda nb: [c.metadata.update(tags=[rules.LIVE]) for c in nb.cells], "nothing is checked"),
    ("the_code_cells", sets("account", source="1\n" * 26), "must have at most 25 lines: got 26"),
    ("the_code_cells", lambda nb: [c.update(source="1\n" * 6) for c in nb.cells], "the median is 6"),
    ("the_code_cells", adds_code_cells(3), "without prose: got account, more-0, more-1, more-2"),
    ("the_pictures", sets("figure", metadata={"mystnb": {"image": {"alt": " "}}}), "cell figure shows a picture"),
    ("the_pictures", shows_mime("text/html", "<svg width='3'></svg>"), "neither alt nor aria-label: <svg width"),
    ("the_pictures", adds_prose("<img src='x.png'>"), "neither alt nor aria-label: <img src"),
    ("the_pictures", adds_prose("![](x.png)"), "no alt text"),
    ("the_length", sets("story", source="word " * 2_000), "words of its own: got 2,0"),
    ("the_length", sets("story", source="word " * 5_000), "words of its own: got 5,0"),
    ("the_length", sets("story", source="$x$ `a`\n```\n" + "word " * 3_000 + "\n```"), "words of its own: got"),
    (
        "the_length",
        sets("opening", source=OPENING.replace("25 min", "30 min")),
        "must say **Time:** 25 minutes, and 35",
    ),
    ("the_order", sets("opening", source="Hello: 5 minutes, no GPU"), "begin with the title"),
    ("the_order", sets("opening", source=OPENING.replace("9. ", "")), "the opening must have: # N. Title"),
    ("the_order", sets("opening", source=OPENING.replace(".** What", "** What")), "must have: **The question.**"),
    ("the_order", sets("opening", source=OPENING.replace("25 min", "thirty min")), "must have: **Time:** N minutes"),
    ("the_order", sets("opening", source=OPENING.replace("GPU", "card")), "must have: **Needs a GPU:**"),
    ("the_order", sets("opening", source=OPENING.replace("**Why it", "**It")), "must have: **Why it matters.**"),
    ("the_order", sets("opening", source=OPENING.replace("details", "div")), "must have: its answer, folded"),
    ("the_order", sets("opening", source=OPENING.replace("Short", "Long")), "must have: **Short path:**"),
    ("the_order", sets("opening", source=OPENING.replace("stored", "kept")), "begins: The results are stored below"),
    ("the_order", sets("exercises", source="## 2.12 Exercises"), "got ['Takeaways', 'Sources']"),
    ("the_order", sets("imports", source="import math"), "must be the import cell"),
    ("the_order", sets("sources", source="The end"), "got ['Takeaways', 'Exercises']"),
    ("the_predictions", adds_prose("**Predict:** it."), "asks for 1 predictions: 0 have a comment"),
    ("the_predictions", adds_prose("<!-- predict: slack -->"), "asks for 'slack', which stands before no number in"),
    ("the_predictions", adds_prose("<!-- predict: it takes @2 -->"), "which stands before no number"),
    ("the_predictions", adds_prose("<!-- predict: it takes @2 [GiB] -->"), "which stands before no number"),
    ("the_predictions", shows_first("it takes 60% of all"), "'it takes', which is 60 %: say so behind it, [%]"),
    ("the_predictions", shows_first("it takes 2.5 GiB"), "'it takes', which is 2.5 GiB: say so behind it, [GiB]"),
    ("the_predictions", shows_first("MiB held\nit takes 2.5"), "'it takes', 2.5 in a table of MiB: say the unit"),
    ("the_predictions", adds_prose("<!-- predict: in GiB = it takes -->"), "asks for 'in GiB': say the unit behind"),
    ("the_predictions", adds_prose("<!-- predict: percent = it takes -->"), "behind the label, [%]"),
    ("the_predictions", sets("sources", source="## Sources\n<!-- predict: x -->"), "no result stands behind it"),
    ("the_predictions", sets("account", outputs=[]), "no result stands behind it"),
    ("the_predictions", sets("account", source="x = 1\nassert x"), "cell account answers a prediction and asserts"),
    ("the_folds", sets("account-check", metadata={"tags": ["check", "hide-cell"]}), "account-check must be folded"),
    ("the_folds", sets("account-check", outputs=[SHOWN]), "the check account-check must show nothing"),
    ("the_folds", sets("account", cell_type="markdown"), "must stand right behind the cell that it is about"),
    ("the_exercises", sets("exercise-4", source="More"), "4 to 8 headings `### Exercise`: got 3"),
    ("the_exercises", sets("solution-4", metadata={}), "each of 4 exercises must have one code cell tagged solution"),
    ("the_exercises", sets("solution-4", metadata={"tags": ["solution", "hide-cell"]}), "must be folded"),
    (
        "the_exercises",
        sets("solution-4", outputs=[{"output_type": "stream", "name": "stdout", "text": "2"}]),
        "show nothing",
    ),
    ("the_exercises", sets("solution-4", source="1 + 1"), "must begin with the line # Solution"),
    ("the_exercises", sets("solution-4", source="# Solution: 2\n1 + 1"), "must begin with the line # Solution"),
]


def test_a_good_chapter_breaks_no_rule(good):
    assert [sentence for rule in rules.RULES for sentence in rule(good)] == []


@pytest.mark.parametrize(("rule", "change", "complaint"), BREAKS)
def test_a_broken_chapter_breaks_its_rule(good, rule, change, complaint):
    change(good)
    sentences = list(getattr(rules, rule)(good))
    assert any(complaint in sentence for sentence in sentences), sentences


def test_every_rule_has_been_seen_to_fail():
    assert {rule for rule, _, _ in BREAKS} == {rule.__name__ for rule in rules.RULES}
