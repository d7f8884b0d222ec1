"""Finds the recorded cases of a clone, and what the CUDA build of a version of PyTorch did in each."""

import json
import lzma
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from every_byte.gpu.cases.files import file_name, read
from every_byte.whole_files import write_whole

_IN_A_CLONE = Path("tests") / "reference"
_BESIDE = Path(__file__).resolve().parents[2] / _IN_A_CLONE
REFERENCE = _BESIDE if _BESIDE.is_dir() or not _IN_A_CLONE.is_dir() else _IN_A_CLONE.resolve()
"""Those of the clone that this package lies in; of an installed one, those of the clone in which it is called."""
BOOK = "2.13.0"
"""The version of which each recording has a file of its own; others are packed, and hold what differs from it."""
PACKED = "recordings.json.xz"


@dataclass(frozen=True)
class Recorded:
    """A case on a card, in a file of cases: `folder` is where its recording lies in a version's folder, "" for that."""

    file: Path
    folder: str
    name: str
    card: str

    @property
    def key(self) -> str:
        """Its name among a version's recordings."""
        return f"{self.folder}/{self.name}.{self.card}".lstrip("/")


def files_of_cases(reference: Path = REFERENCE) -> dict[Path, str]:
    """The files of cases, and in which folder of a version's recordings those of each lie.

    Raises: ValueError where there are none, as beside an installed package.
    """
    found = {path: _folder(path.stem) for path in sorted(reference.glob("*cases.py"))}
    if not found:
        raise ValueError(
            f"recordings must be those of a clone, in tests/reference: {reference} has no *cases.py; go into a clone."
        )
    clone = str(reference.resolve().parents[1])
    if clone not in sys.path:
        sys.path.append(clone)  # whose `utils` the cases use
    return found


def _folder(stem: str) -> str:
    if stem in ("cases", "gpt2_cases"):
        return ""
    if stem == "settings_cases":
        return "settings"
    return "zoo" if stem.startswith("zoo_") else "operations"


def versions(reference: Path = REFERENCE) -> dict[str, str]:
    """The recorded versions of PyTorch, "2.13.0", by the first two of their numbers, "2.13"."""
    folders = (path.name for path in reference.iterdir() if path.name == BOOK or (path / PACKED).is_file())
    return {name.rsplit(".", 1)[0]: name for name in sorted(folders, key=lambda name: [*map(int, name.split("."))])}


class Recordings:
    """What one version's CUDA build did, by case and card; what is as with the book's version is taken from there."""

    def __init__(self, version: str, reference: Path = REFERENCE) -> None:
        self.version, self._reference = version, reference
        packed = reference / version / PACKED
        self._own: dict[str, dict | None] | None = unpacked(packed) if packed.is_file() else None

    def __getitem__(self, recorded: Recorded) -> dict:
        if self._own is None:
            return read(self._file(recorded, self.version))
        own = self._own[recorded.key]
        return read(self._file(recorded, BOOK)) if own is None else own

    def __contains__(self, recorded: Recorded) -> bool:
        if self._own is not None:
            return recorded.key in self._own
        return self._file(recorded, self.version).is_file()

    def differs(self, recorded: Recorded) -> bool:
        """Whether it is another than the book's version's."""
        return self._own is not None and self._own[recorded.key] is not None

    def _file(self, recorded: Recorded, version: str) -> Path:
        return self._reference / version / recorded.folder / file_name(recorded.name, recorded.card)


def unpacked(path: Path) -> dict[str, dict | None]:
    """What a packed file holds: recordings by their keys, None for one that is as the book's version's."""
    return json.loads(lzma.decompress(path.read_bytes()))


def pack(own: Mapping[str, dict | None], path: Path) -> None:
    """Write a packed file: the same content gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(dict(sorted(own.items())), separators=(",", ":")).encode()
    write_whole(path, lzma.compress(content, preset=9))
