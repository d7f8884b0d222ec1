"""What each test needed when a baseline was stored, and what of it grew since: which owner, and by which line."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from every_byte.units import exact, short
from every_byte.whole_files import write_whole

SCHEMA = 1
_MOST = 3


class Baselines:
    """The stored figures of tests, by their ids; none where no file was named."""

    def __init__(self, path: Path | None, tests: Mapping[str, Any]) -> None:
        self._path, self._tests = path, tests

    @classmethod
    def of(cls, path: Path | None) -> "Baselines":
        """Those in a file.

        Raises: pytest.UsageError for a file that is not there, or is none of these.
        """
        if path is None:
            return cls(None, {})
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            if stored["schema"] != SCHEMA:
                raise ValueError(f"its schema is {stored['schema']!r}, and this is for {SCHEMA}")
            return cls(path, stored["tests"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise pytest.UsageError(
                f"--every-byte-against must be a file that --every-byte-store wrote: got {str(path)!r}, {error}."
            ) from None

    @staticmethod
    def store(path: Path, tests: Mapping[str, dict[str, Any]]) -> None:
        """Write the figures of tests, over those of the same tests in a file that is there."""
        write_whole(path, json.dumps({"schema": SCHEMA, "tests": dict(tests)}, indent=1, ensure_ascii=False) + "\n")

    def beyond(self, nodeid: str, figures: dict[str, Any]) -> list[str]:
        """What is to be said of a test that needs more than was stored; nothing of one that was not."""
        stored = self._tests.get(nodeid)
        if stored is None or stored["gpu"] != figures["gpu"]:
            return []
        more = figures["needed_bytes"] - stored["needed_bytes"]
        if more <= 0:
            return []
        head = (
            f"on the simulated GPU {figures['gpu']} it needs {exact(figures['needed_bytes'])}, {short(more)} more than "
            f"in {self._path}, {short(stored['needed_bytes'])}; what grew:"
        )
        return ["\n".join([head, *_grown(stored, figures)])]


def _grown(stored: dict[str, Any], figures: dict[str, Any]) -> list[str]:
    """The owners that grew most, whatever their shapes were and are."""
    before, after = _by_owner(stored), _by_owner(figures)
    in_words = {owner["what"]: owner["in_words"] for owner in reversed(figures["owners"])}
    most = Counter({what: n_bytes - before[what] for what, n_bytes in after.items() if n_bytes > before[what]})
    return [f"  {'+' + short(n):>10}  {in_words[what]}" for what, n in most.most_common(_MOST)] or [
        "  no single owner: the same is cut up otherwise, or many small ones grew"
    ]


def _by_owner(figures: dict[str, Any]) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for owner in figures["owners"]:
        sizes[owner["what"]] += owner["n_bytes"]
    return sizes
