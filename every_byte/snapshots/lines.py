"""Lines of code in a text: without the folders that all of them share, and cut to a width."""

import os

from .summary import Summary


class Lines:
    """The lines of a snapshot's call stacks."""

    def __init__(self, told: Summary) -> None:
        self._prefix = prefix_of(told.history.stacks.files())

    def short(self, place: str) -> str:
        """A line without the folders that all have in common."""
        return place.removeprefix(self._prefix)

    @staticmethod
    def cut(name: str, width: int) -> str:
        """The end of a name that is too long."""
        return name if len(name) <= width else f"{name[:2] if name.startswith('  ') else ''}…{name[3 - width :]}"


def prefix_of(files: set[str]) -> str:
    """The folders that all files with a whole path have in common, with a slash behind them; "" if there are none."""
    whole = {file for file in files if os.path.isabs(file)}
    folders = {os.path.dirname(file) for file in whole}
    common = os.path.commonpath(folders) if folders else ""
    return f"{common}/" if common not in ("", "/") else ""


def percent(n_bytes: int, whole: int) -> str:
    """A share in words of at most five letters."""
    share = n_bytes / whole if whole else 0
    return f"{share:.0%}" if share >= 0.01 or not n_bytes else "< 1 %".replace(" ", "")
