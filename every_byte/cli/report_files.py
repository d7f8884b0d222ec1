"""The files that a command's options name for its reports: that each can be written is seen before anything runs."""

import argparse
from pathlib import Path

REPORTS = ("html", "json", "trace", "viz", "flamegraph", "table")


def settle_files(options: argparse.Namespace) -> None:
    """Make the files of the reports absolute: where they go is meant from here, and the program may go elsewhere.

    Raises: OSError for a file that cannot be written; ValueError for the program itself, or another report's.
    """
    taken = {Path(options.script).resolve(): "is the program"} if options.script else {}
    for name in REPORTS:
        if (path := getattr(options, name, None)) is None:
            continue
        whole = path.resolve()
        if not whole.parent.is_dir():
            raise FileNotFoundError(
                f"--{name} must be a file in a folder that is there: got {str(path)!r}; make the folder first."
            )
        if whole.is_dir():
            raise IsADirectoryError(f"--{name} must be a file: got {str(path)!r}, a folder; try {path / _usual(name)}.")
        if whole in taken:
            raise ValueError(f"--{name} must be a file of its own: got {str(path)!r}, which {taken[whole]}.")
        taken[whole] = f"--{name} has taken"
        _try_to_write(name, path)
        setattr(options, name, whole)


def _try_to_write(name: str, path: Path) -> None:
    """Open the file as the report will, and leave all as it was: only this tells of a disk that cannot be written."""
    is_new = not path.exists()
    if not is_new and not path.is_file():
        return  # a device or a pipe, which waits for a reader
    try:
        path.open("ab").close()
    except OSError as error:
        raise OSError(
            f"--{name} must be a file that can be written: got {str(path)!r}, {error.strerror}; try another folder, as "
            f"--{name} ~/{_usual(name)}."
        ) from None
    if is_new:
        path.unlink()


def _usual(name: str) -> str:
    return {
        "html": "report.html",
        "json": "figures.json",
        "trace": "events.json",
        "viz": "snapshot.pickle",
        "flamegraph": "flames.html",
        "table": "peak.csv",
    }[name]
