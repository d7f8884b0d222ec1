"""Runs a program under an audit hook, and writes down what it touched: `python watched.py FOUND.json PROGRAM …`.

PROGRAM is a notebook, whose code cells run one after the other, or a module's name with its arguments. Counts what
Python's own audit events tell: which addresses it asked for, which programs it started, which files it opened to write,
made, moved or removed. What a library does below Python, as torch.save, is not seen.
"""

import contextlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REACHES = (
    "socket.connect",
    "socket.bind",
    "socket.sendto",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "urllib.Request",
)
STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn")
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def watched(folder: Path, *program: str | Path) -> dict[str, list[str]]:
    """What a program touches that runs in an empty folder, which is its home and has its temporary files as well.

    Gives {"reaches": addresses, "starts": programs, "writes": files}; its exit code is to be 0.
    """
    for name in ("home", "temporary"):
        (folder / name).mkdir(parents=True)
    found, root = folder.parent / f"{folder.name}.json", Path(__file__).resolve().parent.parent.parent
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "LANG") if name in os.environ}
    own = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary"), "PYTHONPATH": str(root)}
    own["IPYTHONDIR"] = str(folder / "temporary" / "ipython")
    command = [sys.executable, "-W", "ignore", __file__, str(found), *map(str, program)]
    run = subprocess.run(
        command, cwd=folder, env=kept | own | {"PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "agg"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(found.read_text(encoding="utf-8"))


def _changed(event: str, args: tuple) -> Iterator[str | bytes]:
    """The places that an event changes, but within a folder that is removed whole, whose own event says so."""
    if event == "open" and isinstance(args[2], int) and args[2] & _TO_WRITE and not isinstance(args[0], int):
        yield args[0]
    elif event in ("os.remove", "os.rmdir") and args[1] == -1:
        yield args[0]
    elif event in ("os.rename", "os.link", "os.symlink"):
        yield from args[:2]
    elif event in ("os.mkdir", "os.truncate", "shutil.rmtree"):
        yield args[0]


def _cells(path: str) -> None:
    """Runs a notebook's cells as a kernel does, by IPython, which keeps no history."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    for cell in json.loads(Path(path).read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            result = shell.run_cell("".join(cell["source"]), store_history=True)
            if "raises-exception" not in cell["metadata"].get("tags", ()):
                result.raise_error()


def main() -> None:
    """Watches the program that the arguments name."""
    file, program, *arguments = sys.argv[1:]
    found: dict[str, list[str]] = {"reaches": [], "starts": [], "writes": []}
    is_on = True

    def hook(event: str, args: tuple) -> None:
        if not is_on:
            return
        if event in REACHES:
            found["reaches"].append(f"{event} {args[1:] if event.startswith('socket.') else args[0]}")
        elif event in STARTS:
            found["starts"].append(f"{event} {args[0]} {args[1] if len(args) > 1 else ''}")
        else:
            found["writes"] += [os.path.abspath(os.fsdecode(place)) for place in _changed(event, args)]

    sys.addaudithook(hook)
    try:
        if program.endswith(".ipynb"):
            _cells(program)
        else:
            sys.argv = [program, *arguments]
            with contextlib.suppress(SystemExit):
                runpy.run_module(program, run_name="__main__", alter_sys=True)
    finally:
        is_on = False
        Path(file).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
