"""What is in a program's file: Python code as text, or a Jupyter notebook, whose code cells run in order."""

import ast
import asyncio
import inspect
import io
import json
import linecache
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BINARY = {
    b"\x7fELF": "a program of the machine",
    b"MZ": "a program of the machine",
    b"PK\x03\x04": "an archive",
    b"\x80": "a pickle",
    b"\x1f\x8b": "a compressed file",
}
_WRAPPERS = ("time", "timeit", "capture", "prun")
"""Magics of a whole cell which run it as Python; a cell with another one is left out."""
_MAGIC = re.compile(r"(?P<indent>\s*)(?P<words>[%!?].*|.*\?\s*|[\w.,\s\[\]]+=\s*[%!].*)")
_VARIABLE = re.compile(r"%(?:env|set_env)\s+(\w+)(?:\s*=\s*|\s+)(.+)")
_TIMED, _FOLDER = re.compile(r"%(?:time|timeit|prun)\s+(.+)"), re.compile(r"%cd\s+(.+)")
_AWAITS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


def is_notebook(path: Path) -> bool:
    """Whether a file is a Jupyter notebook, by its name."""
    return path.suffix == ".ipynb"


def check_source(path: Path) -> None:
    """See that a file can hold a program, before anything runs; whether its Python is right is the program's to find.

    Raises: ValueError for what is not text in Python's encoding, and for a notebook without Python code.
    """
    data = path.read_bytes()
    if is_notebook(path):
        _code_of(_read_notebook(path, data), path)
        return
    must = f"the program must be a file of Python code: got {str(path)!r}, "
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(f"{must}text in UTF-16; save it as UTF-8: iconv -f UTF-16 -t UTF-8 {path} > utf8.py.")
    kind = next((what for start, what in _BINARY.items() if data.startswith(start)), "")
    if kind or path.suffix == ".pyc":
        raise ValueError(f"{must}{kind or 'compiled code'}; name the script, as train.py.")
    if b"\0" in data:
        at = data[: data.index(b"\0")].count(b"\n") + 1
        raise ValueError(f"{must}with a NUL byte in line {at}; if it is text, save it anew, as UTF-8.")
    try:
        data.decode(tokenize.detect_encoding(io.BytesIO(data).readline)[0])
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise ValueError(
            f"{must}which is not the text that it should be: {error}; save it as UTF-8, or say in its first line which "
            "encoding it has: # -*- coding: latin-1 -*-."
        ) from None


# ------------------------------------------------------------------------------------------------------------ notebooks


def _read_notebook(path: Path, data: bytes) -> dict[str, Any]:
    try:
        notebook = json.loads(data) if data.strip() else {}
    except ValueError as error:
        raise ValueError(f"a notebook must be JSON: got {str(path)!r}, {error}; save it again in Jupyter.") from None
    if not isinstance(notebook, dict):
        raise ValueError(f"a notebook must have cells: got {str(path)!r}, which has none; save it again in Jupyter.")
    return notebook


def _code_of(notebook: dict[str, Any], path: Path) -> list[tuple[int, str]]:
    """The code cells that hold something, each with its number among all code cells, from 1."""
    metadata = notebook.get("metadata") or {}
    spec, info = metadata.get("kernelspec") or {}, metadata.get("language_info") or {}
    language = spec.get("language") or info.get("name") or "python"
    if language.lower() not in ("python", "python3", "ipython"):
        raise ValueError(f"a notebook must be of Python: got {str(path)!r}, whose language is {language}.")
    sheets = notebook.get("worksheets") or [notebook]  # nbformat 3 has sheets
    cells = [cell for sheet in sheets for cell in sheet.get("cells") or () if cell.get("cell_type") == "code"]
    texts = ["".join(cell.get("source") or cell.get("input") or "") for cell in cells]
    code = [(number, text) for number, text in enumerate(texts, start=1) if text.strip()]
    if not code:
        raise ValueError(f"a notebook must have code cells: got {str(path)!r}, which has none; try another one.")
    return code


def run_notebook(path: Path, namespace: dict[str, Any]) -> None:
    """Run a notebook's code cells in order, as Jupyter would; a traceback names them, as `train.ipynb, cell 3`.

    Counts: of IPython's magics `%env`, `%cd`, `%time` and `%%time` are followed, the others left out, with a word.
    """
    namespace.update(display=_display)
    for number, text in _code_of(_read_notebook(path, path.read_bytes()), path):
        name = f"{path.name}, cell {number}"
        lines = _python_of(text, name)
        source = "\n".join(lines) + "\n"
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        code = compile(source, name, "exec", flags=_AWAITS, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(_awaited(eval(code, namespace)))
        else:
            exec(code, namespace)


async def _awaited(cell: Any) -> None:
    await cell


def _display(*values: object, **_options: object) -> None:
    """In place of Jupyter's: prints."""
    print(*values)


def _python_of(text: str, name: str) -> list[str]:
    """A cell's lines; those that are no Python, but magics, are replaced where Python stumbles over them."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.strip())
    if lines[first].startswith("%%"):
        magic = lines[first][2:].split()[0] if lines[first][2:].split() else ""
        if magic not in _WRAPPERS:
            _say_left_out(name, lines[first], "the cell")
            return [""]
        lines[first] = ""
    for number in _stumbles(lines, name):
        if found := _MAGIC.fullmatch(lines[number]):
            lines[number] = found["indent"] + _translated(found["words"].strip(), name)
    return lines


def _stumbles(lines: list[str], name: str) -> Iterator[int]:
    """Which line Python cannot read, for as long as it is a magic; the caller has replaced it before the next one."""
    while True:
        try:
            compile("\n".join(lines) + "\n", name, "exec", flags=_AWAITS, dont_inherit=True)
            return
        except SyntaxError as error:
            number = (error.lineno or 0) - 1
        except ValueError:
            return
        if not 0 <= number < len(lines) or not _MAGIC.fullmatch(lines[number]):
            return  # an error of the program's own
        yield number


def _translated(words: str, name: str) -> str:
    if variable := _VARIABLE.fullmatch(words):
        return f"import os; os.environ[{variable[1]!r}] = {variable[2].strip()!r}"
    if folder := _FOLDER.fullmatch(words):
        return f"import os; os.chdir(os.path.expanduser({folder[1].strip()!r}))"
    if timed := _TIMED.fullmatch(words):
        return timed[1]
    _say_left_out(name, words, "the line")
    return "pass"


def _say_left_out(name: str, words: str, what: str) -> None:
    print(f"every-byte: {name}: {words.strip()} is Jupyter's, not Python's: {what} was left out.", file=sys.stderr)
