"""Changes each number in the book's formulas, one at a time, and shows that the stored results of a chapter object.

    python -m tools.mutate_formulas                  all numbers of FILES, all chapters; an hour on two cores
    python -m tools.mutate_formulas block            those of one file
    python -m tools.mutate_formulas --list           the numbers alone

A number is changed by adding 1, in a copy of the book. A chapter that evaluates or shows a formula with this number in
it (a first run of each chapter notes which) must then fail under nbval. Prints a line for each number, and the
survivors at the end; returns 1 if there are any.
"""

import argparse
import ast
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORMULAS = Path("utils", "formulas")
FILES = tuple("mlp block phases estimates settings gpt regions tensor_parallel data_parallel mesh moments".split())
_SIZE = re.compile(r"[\sA-Za-z0-9_*+\-/(),]*")  # what a string that is a size, or a piece of one, is made of
_WORDS = re.compile(r"[A-Za-z]\w* +[A-Za-z]")  # two words side by side: prose
_NO_SIZES = ("Selector", "range", "get", "Integer", "ValueError")
_NUMBER = re.compile(r"(?<![A-Za-z0-9_.])\d+(?![A-Za-z0-9_.])")
_NOTES = """
import os, sys
from every_byte.formula import expressions
_noted = set()
def _note(text):
    new = ({text} | {name for name in sys.modules if name.startswith("utils.")}) - _noted
    if new:  # at once: a kernel is stopped without an end of its own
        _noted.update(new)
        with open(os.environ["EVERY_BYTE_NOTES"], "a") as file:
            file.writelines(line + "\\n" for line in new)
def _noting(original):
    def noted(self, *args):
        _note(self.text)
        return original(self, *args)
    return noted
for _name in ("value", "sympy", "javascript", "__str__"):
    setattr(expressions.Expression, _name, _noting(getattr(expressions.Expression, _name)))
"""


@dataclass(frozen=True)
class Constant:
    """One number in a file of formulas: where it stands, and the line that it stands in."""

    file: str
    start: int
    end: int
    number: int
    line: int
    text: str

    def changed(self, source: bytes) -> bytes:
        """The file with this number one larger."""
        return source[: self.start] + str(self.number + 1).encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.file}.py:{self.line}: {self.number} in `{self.text}`"


def module(file: str) -> str:
    """The name under which a file of formulas is imported."""
    return ".".join((*FORMULAS.parts, file))


def constants(file: str) -> list[Constant]:
    """Every number of a file that is part of a size: in a string that is one, or by itself."""
    source = (ROOT / FORMULAS / f"{file}.py").read_bytes()
    tree = ast.parse(source)
    lines = source.split(b"\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    skipped = _docstrings(tree) | _positions(tree)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or node in skipped or isinstance(node.value, bool):
            continue
        begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        if isinstance(node.value, int):
            spans = [(begin, end)]
        elif isinstance(node.value, str) and _SIZE.fullmatch(node.value) and not _WORDS.search(node.value):
            text = source[begin:end].decode()
            spans = [(begin + m.start(), begin + m.end()) for m in _NUMBER.finditer(text)]
        else:
            continue
        for start, stop in spans:
            line = source.count(b"\n", 0, start) + 1
            shown = lines[line - 1].decode().strip()
            found.append(Constant(file, start, stop, int(source[start:stop].replace(b"_", b"")), line, shown))
    return sorted(set(found), key=lambda constant: constant.start)


def _docstrings(tree: ast.AST) -> set[ast.AST]:
    return {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _positions(tree: ast.AST) -> set[ast.AST]:
    """Numbers that are no part of a size: in messages, and those that count nodes, items or layers."""
    found = set()
    for node in ast.walk(tree):
        called = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Raise | ast.Subscript | ast.Compare | ast.DictComp) or called in _NO_SIZES:
            found |= {leaf for leaf in ast.walk(node) if isinstance(leaf, ast.Constant)}
    return found


class Book:
    """A copy of what nbval needs of the book, which notes the sizes that a chapter evaluates or shows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("every_byte", "utils", "chapters", "tests/reference"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        with open(folder / "utils" / "__init__.py", "a") as file:
            file.write(_NOTES)

    def run(self, chapter: str, constant: Constant | None = None) -> tuple[bool, set[str]]:
        """Whether a chapter's stored results are met, with one number changed, and what it noted."""
        path = self.folder / FORMULAS / f"{constant.file}.py" if constant else None
        source = path.read_bytes() if path else b""
        notes = self.folder / "notes"
        notes.write_text("")
        command = [sys.executable, *"-m pytest -x -q -p no:cacheprovider --nbval --nbval-current-env".split()]
        command.append(f"chapters/{chapter}")
        here = {"PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1", "EVERY_BYTE_NOTES": str(notes)}
        try:
            if path:
                path.write_bytes(constant.changed(source))
            done = subprocess.run(command, cwd=self.folder, env=os.environ | here, capture_output=True)
        finally:
            if path:
                path.write_bytes(source)
        return done.returncode == 0, set(notes.read_text().splitlines())


def outcome(book: Book, constant: Constant, chapters: dict[str, set[str]]) -> dict[str, str]:
    """For each chapter that has loaded the constant's file: "fails", "passes", or "unused" if no size has changed."""
    found = {}
    for chapter, noted in chapters.items():
        if module(constant.file) in noted:
            passes, now = book.run(chapter, constant)
            found[chapter.partition("_")[0]] = "fails" if not passes else "unused" if now == noted else "passes"
    return found


def main(argv: list[str] | None = None) -> int:
    """The command line: see the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", choices=[*FILES, []], help="files of formulas; default: all")
    parser.add_argument("--list", action="store_true", help="show the numbers and change none")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args(argv)
    todo = [constant for file in arguments.files or FILES for constant in constants(file)]
    if arguments.list:
        print(*todo, f"{len(todo)} numbers", sep="\n")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        books = [Book(Path(folder) / str(number)) for number in range(arguments.jobs)]
        names = sorted(path.name for path in (ROOT / "chapters").glob("*.ipynb"))
        first = {name: books[0].run(name) for name in names}
        if failed := [name for name, (passes, _) in first.items() if not passes]:
            raise SystemExit(f"chapters must pass before their formulas are changed: {failed[0]} does not.")
        survivors = _change_each(todo, books, {name: noted for name, (_, noted) in first.items()})
    print(f"{len(todo)} numbers changed, {len(survivors)} survive", *survivors, sep="\n")
    return 1 if survivors else 0


def _change_each(todo: list[Constant], books: list[Book], chapters: dict[str, set[str]]) -> list[Constant]:
    free = queue.SimpleQueue()
    for book in books:
        free.put(book)

    def change(constant: Constant) -> bool:
        book = free.get()
        try:
            found = outcome(book, constant, chapters)
        finally:
            free.put(book)
        survives = "passes" in found.values() or "fails" not in found.values()
        said = ", ".join(f"{chapter} {what}" for chapter, what in found.items()) or "in no chapter"
        print(f"{'SURVIVES' if survives else 'caught'} {constant}  [{said}]", flush=True)
        return survives

    with ThreadPoolExecutor(len(books)) as pool:
        return [constant for constant, survives in zip(todo, pool.map(change, todo), strict=True) if survives]


if __name__ == "__main__":
    sys.exit(main())
