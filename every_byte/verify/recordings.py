"""Finds the recorded cases of a clone, and what the CUDA build of a version of PyTorch did in each."""

import json
import lzma
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from every_byte.gpu.cases.files import file_name, read
from every_byte.whole_files import write_whole

Recording: TypeAlias = dict[str, Any]  # of one case, as JSON: see tests/reference/README.md
_IN_A_CLONE = Path("tests") / "reference"
_BESIDE = Path(__file__).resolve().parents[2] / _IN_A_CLONE
REFERENCE = _BESIDE if _BESIDE.is_dir() or not _IN_A_CLONE.is_dir() else _IN_A_CLONE.resolve()
"""Those of the clone that this package lies in; of an installed one, those of the clone in which it is called."""
BOOK = "2.13.0"
"""The version of which each recording has a file of its own; others are packed, and hold what differs from it."""
PACKED = "recordings.json.xz"
CARDS = "cards"
"""In a version's folder, a packed file a card: what it did in cases that do not name it, one of each architecture."""


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
    folders = {path: _folder(path.stem) for path in sorted(reference.glob("*cases.py"))}
    if not folders:
        raise ValueError(
            f"recordings must be those of a clone, in tests/reference: {reference} has no *cases.py; go into a clone."
        )
    clone = str(reference.resolve().parents[1])
    if clone not in sys.path:
        sys.path.append(clone)  # whose `utils` the cases use
    return folders


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
    """What one version's CUDA build did, by case and card; what is as with the book's version is taken from there.

    A case on a card that it does not name is in that card's packed file: a recording, or the card whose it equals.
    """

    def __init__(self, version: str, reference: Path = REFERENCE) -> None:
        self.version, self._reference = version, reference
        packed = reference / version / PACKED
        self._own: dict[str, Recording | None] | None = unpacked(packed) if packed.is_file() else None
        self._of_cards: dict[str, dict[str, Recording | str]] = {}

    @property
    def cards(self) -> list[str]:
        """The cards that have a packed file."""
        return sorted(path.name.split(".")[0] for path in (self._reference / self.version / CARDS).glob("*.json.xz"))

    def __getitem__(self, recorded: Recorded) -> Recording:
        if self._own is not None:
            own = self._own[recorded.key]
            return read(self._file(recorded, BOOK)) if own is None else own
        file = self._file(recorded, self.version)
        if file.is_file():
            return read(file)
        held = self._of_card(recorded.card)[recorded.key]
        return held if isinstance(held, dict) else self[replace(recorded, card=held)] | {"card": recorded.card}

    def __contains__(self, recorded: Recorded) -> bool:
        if self._own is not None:
            return recorded.key in self._own
        return self._file(recorded, self.version).is_file() or recorded.key in self._of_card(recorded.card)

    def _of_card(self, card: str) -> dict[str, Recording | str]:
        if card not in self._of_cards:
            path = self._reference / self.version / CARDS / f"{card}.json.xz"
            self._of_cards[card] = unpacked(path) if path.is_file() else {}
        return self._of_cards[card]

    def differs(self, recorded: Recorded) -> bool:
        """Whether it is another than the book's version's."""
        return self._own is not None and self._own[recorded.key] is not None

    def _file(self, recorded: Recorded, version: str) -> Path:
        return self._reference / version / recorded.folder / file_name(recorded.name, recorded.card)


def unpacked(path: Path) -> dict[str, Any]:
    """What a packed file holds: recordings by their keys; None for one that is as the book's version's, a card's name
    for one that is as that card's."""
    content: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    return content


def pack(own: Mapping[str, object], path: Path) -> None:
    """Write a packed file: the same content gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(dict(sorted(own.items())), separators=(",", ":")).encode()
    write_whole(path, lzma.compress(content, preset=9))
