"""Lines of code in a text: without the folders that all of them share, and cut to a width."""

from every_byte.ledger.source_lines import prefix_of

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


def percent(n_bytes: int, whole: int) -> str:
    """A share in words of at most five letters."""
    share = n_bytes / whole if whole else 0
    return f"{share:.0%}" if share >= 0.01 or not n_bytes else "< 1 %".replace(" ", "")
