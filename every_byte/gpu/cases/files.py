"""The files that hold recordings, such as those of tests/reference: their names, and how they are read and written."""

import gzip
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from every_byte.whole_files import write_whole


def file_name(case: str, card: str) -> str:
    """Under which name a recording lies in its folder."""
    return f"{case}.{card}.json.gz"


def read(path: Path) -> dict[str, Any]:
    """What a file holds: see tests/reference/README.md."""
    content: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return content


def save(content: Mapping[str, Any], path: Path) -> None:
    """Write a file that `read` reads: the same content gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    zipped = io.BytesIO()
    with gzip.GzipFile("", "wb", 9, zipped, mtime=0) as file:
        file.write(json.dumps(content, separators=(",", ":")).encode())
    write_whole(path, zipped.getvalue())


def write(result: Mapping[str, Any], folder: Path) -> Path:
    """Write a recording under its name, and return where it is."""
    path = folder / file_name(result["case"], result["card"])
    save(result, path)
    return path
