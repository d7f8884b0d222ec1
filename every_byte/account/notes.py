"""What a report cannot follow or does not know: what it is, why, and what to do about it."""

from dataclasses import dataclass

from every_byte.ledger.trace import Trace


@dataclass(frozen=True)
class Note:
    """One thing that keeps figures from being exact: what it is, why that is so, and a way out, "" if there is none."""

    what: str
    why: str
    way_out: str = ""

    def __str__(self) -> str:
        way_out = f"; {self.way_out.rstrip('.')}" if self.way_out else ""
        return f"{self.what.rstrip('.')}: {self.why.rstrip('.')}{way_out}."


def notes_of(trace: Trace) -> list[Note]:
    """What the trace itself says: operations whose temporary memory is not known, and lines that read such values."""
    unmodelled = [
        Note(
            f"{name} is not modelled",
            "what it returns is counted; what it takes meanwhile is not known",
            f"add its rule: python -m every_byte.gpu.operators {name.replace('::', '.')}",
        )
        for name in trace.unmodelled
    ]
    return unmodelled + [
        Note(
            f"a computed value was read at {place}",
            "nothing is computed here: the program got a zero and went on with it, and a card gives it another value",
            "where what is allocated depends on that value, take it from the host, or leave the reading out",
        )
        for place in trace.values_read
    ]
