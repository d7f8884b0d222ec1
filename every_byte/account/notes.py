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


_BY_NAME = {
    "torch.compile": (
        "what was compiled ran as it was written, and counts as that: a compiler fuses operations, and keeps and "
        "computes again other tensors",
        "for the figures of eager training leave it out; for those of the compiled one measure on a card, with "
        "--gpu live",
    ),
    "torch.cuda.CUDAGraph": (
        "what was captured ran once and counts as that: on a card the graph keeps its memory in a pool of its own",
        "leave the capture out",
    ),
    "backward across streams": (
        "a card runs each node of a backward in the stream of its forward, and here all ran in one",
        "call backward in the stream of the forward",
    ),
}
_OF_OPERATORS = "what it returns is counted; what it takes meanwhile is not known"
_OF_TRITON = "it writes into tensors that are counted; what its launch takes, and what it computes, is not known"


def notes_of(trace: Trace) -> list[Note]:
    """What the trace itself says: what ran and is not modelled, and where values were read that nobody has computed."""
    return [_unmodelled(name) for name in trace.unmodelled] + _read(list(trace.values_read))


def _unmodelled(name: str) -> Note:
    if name in _BY_NAME:
        return Note(f"{name} is not modelled", *_BY_NAME[name])
    if name.startswith("Triton kernel "):
        way_out = "where the library has the same in plain PyTorch, that is followed to the byte"
        return Note(f"{name} is not followed", _OF_TRITON, way_out)
    rule = f"add its rule: python -m every_byte.gpu.operators {name.replace('::', '.')}" if "::" in name else ""
    return Note(f"{name} is not modelled", _OF_OPERATORS, rule)


def _read(places: list[str]) -> list[Note]:
    if not places:
        return []
    return [
        Note(
            f"values that are computed were read, as zeros, at {', '.join(places)}",
            "nothing is computed here, and a card gives the program others: what it allocates because of one, as a "
            "batch whose size is a count, or a loop that waits for a loss, is another there",
            "where it only prints or logs them, the bytes are the same",
        )
    ]
