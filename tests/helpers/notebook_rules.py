"""The rules that a stored chapter keeps: each takes a notebook and yields a sentence for whatever breaks it."""

import re
from collections.abc import Iterator
from itertools import groupby
from statistics import median

import ipywidgets
import nbformat
from nbformat import NotebookNode
from prediction_rules import is_folded, the_folds, the_predictions

from book.extensions.chapters import MINUTES, QUESTION
from book.extensions.explorers import OTHER_WIDGETS
from book.extensions.page_notes import STORED_RESULTS
from tools.first_cell import CELL_ID
from tools.notebooks import is_readable
from tools.reading_time import count_words, reading

LIVE = "nbval-ignore-output"
EXPECTED_ERROR = "raises-exception"
SOLUTION = "solution"

WORDS = range(2_500, 5_001)
EXERCISES = range(4, 9)
MOST_LINES, MEDIAN_LINES, MOST_CODE_CELLS_IN_A_ROW = 25, 5, 3
NOTEBOOK_METADATA = {"kernelspec", "language_info", "mystnb"}
CELL_METADATA = {"jupyter", "mystnb", "tags"}

UNSTABLE = {
    "an absolute path": re.compile(
        r"(?<![\w.~/<])/(home|root|work|tmp|usr|opt|var|mnt|srv|media|builds|Users)/\S+|\b[A-Z]:\\\w+"
    ),
    "a memory address": re.compile(r"\b0x[0-9a-fA-F]{4,}\b"),
    "a date": re.compile(r"\b20\d\d-[01]\d-[0-3]\d\b"),
    "a time of day": re.compile(r"\b[0-2]\d:[0-5]\d:[0-5]\d\b"),
    "a progress bar": re.compile(r"\d%\|"),
}
LIVE_SOURCE = re.compile(
    r"""open_gpu\(\s*["']live|\bLiveGPU\(|\bExplorer\(|\binteract(ive(_output)?)?\(|\b(widgets|ipywidgets)\.[A-Z]"""
    r"""|%%?time(it)?\b|\bperf_counter|\btime\.(time|monotonic)\b"""
)
WIDGET_MIME = "application/vnd.jupyter.widget"
WIDGETS = {
    name for name, made in vars(ipywidgets).items() if isinstance(made, type) and issubclass(made, ipywidgets.Widget)
}
# What the site's extensions look for in a chapter's first cell.
OPENING = {
    "# N. Title": re.compile(r"^# \d+[a-z]?\. \S"),
    "**The question.** and an empty line behind it": QUESTION,
    "**Why it matters.**": re.compile(r"\*\*Why it matters\.\*\*\s"),
    "its answer, folded: <details><summary>The answer in one sentence</summary>": re.compile(
        r"<details>\s*<summary>The answer in one sentence</summary>"
    ),
    "**Time:** N minutes": MINUTES,
    "**Short path:**": re.compile(r"\*\*Short path:\*\*\s"),
    "**Needs a GPU:**": re.compile(r"\*\*Needs a GPU:\*\*"),
    f"a paragraph that begins: {STORED_RESULTS}": re.compile(rf"\n\n[*_]?{re.escape(STORED_RESULTS)}"),
}


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook: NotebookNode) -> str:
    return "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def tags(cell: NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def texts(cell: NotebookNode) -> Iterator[str]:
    """Every text that a cell's outputs hold: streams, errors and each textual representation."""
    for output in cell.outputs:
        if output.output_type == "stream":
            yield output.text
        elif output.output_type == "error":
            yield "\n".join([output.evalue, *output.traceback])
        else:
            yield from (
                str(data) for mime, data in output.data.items() if not mime.startswith("image/") or "svg" in mime
            )


def the_file(notebook: NotebookNode) -> Iterator[str]:
    """nbformat 4.5, the kernel `python3`, readable cell ids, and no metadata but what speaks of the content."""
    if (notebook.nbformat, notebook.nbformat_minor) != (4, 5):
        yield f"nbformat must be 4.5: got {notebook.nbformat}.{notebook.nbformat_minor}"
    try:
        nbformat.validate(notebook)
    except nbformat.ValidationError as error:
        yield f"not a valid notebook: {error.message}"
    kernel = notebook.metadata.get("kernelspec", {}).get("name")
    if kernel != "python3":
        yield f"the kernelspec must be python3: got {kernel}"
    if set(notebook.metadata.get("language_info", {})) - {"name"}:
        yield "language_info must hold the name alone: the rest changes from machine to machine"
    if extra := set(notebook.metadata) - NOTEBOOK_METADATA:
        yield f"metadata of the notebook must be of {sorted(NOTEBOOK_METADATA)}: got {sorted(extra)}"
    for cell in notebook.cells:
        if extra := set(cell.metadata) - CELL_METADATA:
            yield f"metadata of cell {cell.id} must be of {sorted(CELL_METADATA)}: got {sorted(extra)}"


def the_ids(notebook: NotebookNode) -> Iterator[str]:
    """Cell ids are unique words in kebab-case, not what Jupyter draws at random."""
    ids = [cell.get("id", "") for cell in notebook.cells]
    for name in ids:
        if not is_readable(name):
            yield f"a cell id must be words in kebab-case: got {name!r}"
        if ids.count(name) > 1:
            yield f"a cell id must be unique: {name!r} is not"


def the_execution(notebook: NotebookNode) -> Iterator[str]:
    """Executed from top to bottom: counts 1..N, nothing empty, nothing failed, no warning."""
    for number, cell in enumerate(code_cells(notebook), start=1):
        if not cell.source.strip():
            yield f"cell {cell.id} is empty"
        if cell.execution_count != number:
            yield f"cell {cell.id} must have execution_count {number}: got {cell.execution_count}"
        failed = any(output.output_type == "error" for output in cell.outputs)
        if failed != (EXPECTED_ERROR in tags(cell)):
            yield f"cell {cell.id} {'failed without' if failed else 'did not fail, and has'} the tag {EXPECTED_ERROR}"
        if any(output.output_type == "stream" and output.name == "stderr" for output in cell.outputs):
            yield f"cell {cell.id} wrote to stderr: a warning or a progress bar"


def the_outputs(notebook: NotebookNode) -> Iterator[str]:
    """Outputs are the same on every machine and every day, and hold no widget, which nobody could show again."""
    for cell in code_cells(notebook):
        for text in texts(cell):
            found = {what: pattern.search(text) for what, pattern in UNSTABLE.items()}
            yield from (f"cell {cell.id} shows {what}: {match[0]}" for what, match in found.items() if match)
        mimes = {mime for output in cell.outputs for mime in output.get("data", {})}
        if any(mime.startswith(WIDGET_MIME) for mime in mimes):
            yield f"cell {cell.id} stores a widget: store its text alone (make chapters does)"
        for shown in (output.get("data", {}).get("text/plain", "") for output in cell.outputs):
            name = shown.partition("(")[0]
            if name in WIDGETS and not shown.startswith(OTHER_WIDGETS):
                yield f"cell {cell.id} shows {name}(..), which a page does not know: see book.extensions.explorers"


def the_live_cells(notebook: NotebookNode) -> Iterator[str]:
    """What depends on the machine or the moment is tagged, so that nbval runs it and compares nothing."""
    for cell in code_cells(notebook):
        if (match := LIVE_SOURCE.search(cell.source)) and LIVE not in tags(cell):
            yield f"cell {cell.id} is live ({match[0]}): tag it {LIVE}"
        if {"nbval-skip", "skip-execution"} & set(tags(cell)):
            yield f"cell {cell.id} is never executed by the tests: remove the tag"
    if code_cells(notebook) and all(LIVE in tags(cell) for cell in code_cells(notebook)):
        yield "nothing is checked: every code cell is live"


def the_code_cells(notebook: NotebookNode) -> Iterator[str]:
    """Short code cells, and prose between them."""
    lengths = {cell.id: len(cell.source.splitlines()) for cell in code_cells(notebook)}
    for name, length in lengths.items():
        if length > MOST_LINES:
            yield f"cell {name} must have at most {MOST_LINES} lines: got {length}; move what is longer to utils/"
    if lengths and median(lengths.values()) > MEDIAN_LINES:
        yield f"half of the code cells must have at most {MEDIAN_LINES} lines: the median is {median(lengths.values())}"
    in_sight = [cell for cell in notebook.cells if not is_folded(cell)]
    for kind, run in groupby(in_sight, key=lambda cell: cell.cell_type):
        names = [cell.id for cell in run]
        if kind == "code" and len(names) > MOST_CODE_CELLS_IN_A_ROW:
            yield f"at most {MOST_CODE_CELLS_IN_A_ROW} code cells without prose: got {', '.join(names)}"


def the_pictures(notebook: NotebookNode) -> Iterator[str]:
    """Every picture has a text in its place, for those who do not see it; a diagram brings its own."""
    for cell in code_cells(notebook):
        data = [(mime, text) for output in cell.outputs for mime, text in output.get("data", {}).items()]
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "").strip()
        own = [text for mime, text in data if mime == "image/svg+xml"]
        if any(mime.startswith("image/") for mime, _ in data) and not (alt or own):
            yield f"cell {cell.id} shows a picture: say what it shows in its metadata, mystnb.image.alt"
        for page in (text for mime, text in data if mime in ("text/html", "image/svg+xml")):
            yield from (f"cell {cell.id}: {reason}" for reason in pictures_without_text(page))
    yield from pictures_without_text(prose(notebook))
    if re.search(r"!\[\s*\]\(", prose(notebook)):
        yield "a picture in the prose has no alt text: ![what it shows](file)"


def pictures_without_text(page: str) -> Iterator[str]:
    for tag in re.findall(r"<(?:img|svg)\b[^>]*>", page):
        if not re.search(r"""\b(alt|aria-label|aria-labelledby)=["']?[^"'\s>]|aria-hidden=["']?true""", tag):
            yield f"a picture has neither alt nor aria-label: {tag[:60]}"


def the_length(notebook: NotebookNode) -> Iterator[str]:
    """A chapter has so many words, and says how long it takes by the rule of tools/reading_time.py."""
    words = count_words(prose(notebook))
    said, found = MINUTES.search(notebook.cells[0].source), reading(notebook)
    if said and (int(said[1]), int(said[2])) != (found.minutes, found.exercise_minutes):
        minutes = f"{found.minutes} minutes, and {found.exercise_minutes} for the exercises"
        yield f"the opening must say **Time:** {minutes}: got {said[0]}"
    if words not in WORDS:
        yield f"a chapter must have {WORDS.start:,} to {WORDS.stop - 1:,} words of its own: got {words:,}"


def the_order(notebook: NotebookNode) -> Iterator[str]:
    """The opening says what it takes, one import cell follows; takeaways, exercises and sources close the chapter.

    Before the imports stands what fetches the book where it is not: see tools/first_cell.py.
    """
    opening = notebook.cells[0]
    if opening.cell_type != "markdown" or not opening.source.startswith("# "):
        yield "the first cell must be prose and begin with the title: # Title"
    yield from (f"the opening must have: {words}" for words in OPENING if not OPENING[words].search(opening.source))
    first = next((cell for cell in code_cells(notebook) if cell.id != CELL_ID), None)
    if first is None or not re.search(r"^(from|import) utils\b", first.source, re.MULTILINE):
        yield "the first code cell must be the import cell, and import from utils"
    headings = re.findall(
        r"^##+ +(.+)$", prose(notebook), re.MULTILINE
    )  # without numbers, as book/extensions look for them
    closing = [heading for heading in headings if heading in {"Takeaways", "Exercises", "Sources"}]
    if closing != ["Takeaways", "Exercises", "Sources"]:
        yield f"the closing sections must be Takeaways, Exercises, Sources: got {closing}"


def the_exercises(notebook: NotebookNode) -> Iterator[str]:
    """Each exercise has a solution: a code cell that the tests execute, folded until the reader opens it."""
    exercises = re.findall(r"^##+ +Exercise\b.*$", prose(notebook), re.MULTILINE)
    solutions = [cell for cell in code_cells(notebook) if SOLUTION in tags(cell)]
    if len(exercises) not in EXERCISES:
        fewest, most = EXERCISES.start, EXERCISES.stop - 1
        yield f"a chapter must have {fewest} to {most} headings `### Exercise`: got {len(exercises)}"
    if len(solutions) != len(exercises):
        yield f"each of {len(exercises)} exercises must have one code cell tagged {SOLUTION}: got {len(solutions)}"
    for cell in solutions:
        hidden = cell.metadata.get("jupyter", {})
        if not (hidden.get("source_hidden") and hidden.get("outputs_hidden") and "hide-cell" in tags(cell)):
            yield (
                f"the solution {cell.id} must be folded, its output too: metadata jupyter.source_hidden and "
                "jupyter.outputs_hidden true, and the tag hide-cell"
            )
        if cell.outputs:
            yield f"the solution {cell.id} must show nothing, or running all cells gives it away: assert its verdict"
        if cell.source.splitlines()[:1] != ["# Solution"]:
            yield f"the solution {cell.id} must begin with the line # Solution: folded, it shows that line and no more"


RULES = [
    the_file,
    the_ids,
    the_execution,
    the_outputs,
    the_live_cells,
    the_code_cells,
    the_pictures,
    the_length,
    the_order,
    the_predictions,
    the_folds,
    the_exercises,
]
