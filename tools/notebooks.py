"""Runs chapters from top to bottom and writes them in one canonical form: `python tools/notebooks.py chapters/*.ipynb`.

Written is what a reader should find and what nbval compares: sources, outputs, counts 1..N, readable cell ids. Widget
state, timestamps and the interpreter's version are left out. Running it twice changes nothing, unless a cell tagged
`nbval-ignore-output` prints a timing. `--only-normalise` rewrites without running. `--compare` runs and writes nothing:
it lists the cells that print something else than what is stored, as under another version of PyTorch.
"""

import argparse
import copy
import re
import sys
from itertools import zip_longest
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from tools.whole_files import plainly, write_whole

WIDGET_MIMES = ("application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json")
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT_NOTEBOOK_METADATA = {"mystnb"}
KEPT_CELL_METADATA = {"jupyter", "mystnb", "tags"}
READABLE_ID = re.compile(r"[a-z]+[0-9]*(-([a-z]+[0-9]*|[0-9]+))*")
RANDOM_ID = re.compile(r"[0-9a-f]{8}(-.*)?")
ADDRESS = re.compile(r"(<[\w.]+(?: object)?) at 0x[0-9a-f]+>")


def is_readable(cell_id: str) -> bool:
    """Whether an id consists of words in kebab-case; what Jupyter draws at random does not."""
    return bool(READABLE_ID.fullmatch(cell_id)) and not RANDOM_ID.fullmatch(cell_id)


def name_cells(notebook: NotebookNode) -> None:
    """Give each cell without a readable id one made of the heading above it; the others keep theirs."""
    taken = {cell.id for cell in notebook.cells if is_readable(cell.get("id", ""))}
    topic = "start"
    for cell in notebook.cells:
        headings = re.findall(r"^#+ +(.+)$", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else []
        for heading in headings[:1]:
            words = re.findall(r"[a-z]+", heading.lower())
            topic = "-".join(words[:4]) or topic
        if is_readable(cell.get("id", "")):
            continue
        stem = f"{topic}-{'code' if cell.cell_type == 'code' else 'text'}"
        names = (f"{stem}-{number}" if number > 1 else stem for number in range(1, len(notebook.cells) + 2))
        cell.id = next(name for name in names if name not in taken)
        taken.add(cell.id)


def normalise_output(output: NotebookNode) -> NotebookNode | None:
    """The output as it is stored; None if nothing of it is."""
    if output.output_type == "error":  # frames hold paths and colours; nbval does not compare them
        output.traceback = [f"{output.ename}: {output.evalue}"]
    if output.output_type not in {"display_data", "execute_result"}:
        return output
    output.metadata = NotebookNode()
    was_widget = any(output.data.pop(mime, None) is not None for mime in WIDGET_MIMES)
    if was_widget and "text/plain" in output.data:  # a widget's repr may hold its model's address
        output.data["text/plain"] = ADDRESS.sub(r"\1>", output.data["text/plain"])
    return output if output.data else None


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Bring a notebook into canonical form, in place."""
    kept = {key: value for key, value in notebook.metadata.items() if key in KEPT_NOTEBOOK_METADATA}
    notebook.metadata = nbformat.from_dict(kept | NOTEBOOK_METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.cells = [cell for cell in notebook.cells if cell.source.strip()]
    name_cells(notebook)
    for cell in notebook.cells:
        cell.metadata = NotebookNode({key: cell.metadata[key] for key in KEPT_CELL_METADATA & set(cell.metadata)})
        cell.source = "\n".join(line.rstrip() for line in cell.source.strip("\n").splitlines())
        if cell.cell_type == "code":
            cell.outputs = [kept for kept in map(normalise_output, cell.outputs) if kept is not None]
    return notebook


def execute(notebook: NotebookNode, folder: Path, **options) -> NotebookNode:
    """Run every cell in a fresh kernel of this interpreter; an error not announced by `raises-exception` stops it.

    Raises: CellExecutionError for such an error; KeyboardInterrupt.
    """
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = None, []
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
        **options,
    )
    try:
        return client.execute()
    except Exception:
        if getattr(client, "_async_cleanup_kernel_future", None) is not None:  # what nbclient makes of Ctrl-C
            raise KeyboardInterrupt from None
        raise


def tell(words: str) -> None:
    """What is done now, on a terminal, in a line that the next one is written over."""
    if sys.stderr.isatty():
        print(f"\r{words[:78]:78}", end="\r", file=sys.stderr, flush=True)


class Told:
    """Tells of each cell that starts."""

    def __init__(self, path: Path, notebook: NotebookNode) -> None:
        self._words, self._n = str(path), len(notebook.cells)

    def __call__(self, cell: NotebookNode, cell_index: int) -> None:
        """Called by nbclient."""
        tell(f"{self._words}, cell {cell_index + 1} of {self._n}")


def lines_of(cell: NotebookNode) -> list[str]:
    """The text of a cell's outputs, line by line: what it printed, the plain form of what it showed, its error."""
    found = []
    for output in cell.outputs:
        if output.output_type == "error":
            found.append(f"{output.ename}: {output.evalue}")
        else:
            found.append(output.text if output.output_type == "stream" else output.data.get("text/plain", ""))
    return [line for text in found for line in text.splitlines()]


def compare(path: Path) -> list[str]:
    """What is to be said of each cell that prints something else than what is stored, if a kernel runs them here."""
    stored = normalise(nbformat.reads(path.read_text(encoding="utf-8"), as_version=4))
    return differences(stored, normalise(execute(copy.deepcopy(stored), path.parent, allow_errors=True)))


def differences(stored: NotebookNode, found: NotebookNode) -> list[str]:
    """The same of two notebooks that are the same but for their outputs, both in canonical form."""
    said = []
    for old, new in zip(stored.cells, found.cells, strict=True):
        if old.cell_type != "code" or "nbval-ignore-output" in old.metadata.get("tags", []):
            continue
        were, are = lines_of(old), lines_of(new)
        if were != are:
            was, now = next(pair for pair in zip_longest(were, are, fillvalue="") if pair[0] != pair[1])
            said.append(f"{old.id}: was {was.strip()!r}, is {now.strip()!r}")
    return said


def main(arguments: list[str]) -> int:
    """Run and rewrite the notebooks named; 1 if a cell of one failed, and that one is left as it was."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--only-normalise", action="store_true", help="rewrite without running")
    parser.add_argument("--compare", action="store_true", help="run, and list the cells that print something else")
    options = parser.parse_args(arguments)
    if options.compare:
        differing = {path: compare(path) for path in options.notebooks}
        for path, said in differing.items():
            print(f"{path}: {len(said)} cells differ", *said, sep="\n  ")
        return int(any(differing.values()))
    for number, path in enumerate(options.notebooks, start=1):
        tell(f"{path}, {number} of {len(options.notebooks)}")
        before = path.read_text(encoding="utf-8")
        notebook = normalise(nbformat.reads(before, as_version=4))
        try:
            if not options.only_normalise:
                notebook = normalise(execute(notebook, path.parent, on_cell_start=Told(path, notebook)))
        except CellExecutionError as error:
            print(f"{path}: left as it was; a cell failed.\n{error}", file=sys.stderr)
            return 1
        nbformat.validate(notebook)
        after = nbformat.writes(notebook).rstrip("\n") + "\n"
        if after != before:
            write_whole(path, after)
        tell("")
        print(f"{path}: {'unchanged' if after == before else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(plainly(lambda: main(sys.argv[1:]), "what was written stays, and the rest is as it was"))
