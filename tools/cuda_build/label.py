"""Prints the events of one phase of a recorded case, with the sum of the live requested bytes after each.

    python tools/cuda_build/label.py FILE                     which phases a file, such as mlp_gelu.a100.json.gz, has
    python tools/cuda_build/label.py FILE backward 1000000    one phase, from this size in bytes

Live are the allocations of all phases up to there; an event's phase is named by the mark that ends it.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Sequence


def lines_of_marks(case: dict) -> Iterator[str]:
    """A line for each phase, with the figures at its end."""
    for mark in case["marks"]:
        yield f"{mark['name']:28s} " + "  ".join(f"{key} {mark[key]:>15,d}" for key in list(mark)[1:])


def lines_of_events(case: dict, wanted: str, smallest_bytes: int) -> Iterator[str]:
    """A line for each event of one phase that is large enough."""
    names = iter([*(mark["name"] for mark in case["marks"]), ""])
    phase, live, total_bytes = next(names), {}, 0
    for i, (kind, *rest) in enumerate(case.get("events", [])):
        if kind == "mark":
            phase = next(names)
            continue
        n_bytes, note = rest[0], ""
        if kind == "alloc":
            number, n_bytes, operators, node, _ = rest
            note = f"#{number} {operators}" + (f"  in {node}" if node else "")
            live[number] = n_bytes, note
            total_bytes += n_bytes
        elif kind == "free":
            freed_bytes, note = live.pop(rest[0])
            n_bytes = -freed_bytes
            total_bytes += n_bytes
        if phase == wanted and abs(n_bytes) >= smallest_bytes:
            yield f"{i:6d} {kind:13s} {n_bytes:>15,d} {total_bytes:>16,d}  {note}"


def main(argv: Sequence[str]) -> None:
    """Print the phases of a recorded case, or the events of one."""
    parser = argparse.ArgumentParser(description="The events of one phase of a recorded case.")
    parser.add_argument("file", help="a recorded case of tests/reference")
    parser.add_argument("phase", nargs="?", help="such as 'step 2 backward'; without it, the phases are named")
    parser.add_argument("smallest", nargs="?", type=int, default=0, help="leave out events of fewer bytes")
    asked = parser.parse_args(argv)
    with gzip.open(asked.file) as file:
        case = json.load(file)
    phases = [mark["name"] for mark in case["marks"]]
    if asked.phase is not None and asked.phase not in phases:
        parser.error(f"phase must be one of this file's: got {asked.phase!r}; there are {', '.join(phases)}.")
    lines = lines_of_marks(case) if asked.phase is None else lines_of_events(case, asked.phase, asked.smallest)
    print(*lines, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
