"""Runs `every-byte` as a reader types it, and returns what it prints."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def said_by(*words: str | Path) -> str:
    """What `every-byte` prints on both streams when it is run with these words in the book's folder.

    Raises: ValueError with its message if it does not understand the words, or if the program raises.
    """
    known = [str(word.relative_to(ROOT)) if isinstance(word, Path) and word.is_relative_to(ROOT) else str(word)
             for word in words]  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-m", "every_byte", *known],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if ran.returncode not in (0, 1):
        raise ValueError(f"every-byte {' '.join(known)} ended with {ran.returncode}: {ran.stdout.strip()}")
    return ran.stdout.strip("\n")
