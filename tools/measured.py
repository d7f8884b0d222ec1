"""Compares what was recorded on a card with its simulation, and packs both.

    python tools/measured.py FOLDER --about tests/reference/cards/CARD.json

FOLDER holds what `python -m every_byte.gpu.record` wrote on a card, each file of cases in its folder of
tests/reference. Each case runs on a simulation of that card by the PyTorch that it was recorded with, which has to be
the one that runs here, twice: as a user would run it, and with segments where the card's driver had put them. It
writes tests/reference/VERSION/measured/CARD.json.xz, and prints where they differ.
"""

import argparse
import itertools
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from every_byte.gpu.cases.files import read  # noqa: E402
from every_byte.gpu.cases.programs import load_cases  # noqa: E402
from every_byte.gpu.memory.driver import Driver  # noqa: E402
from every_byte.gpu.memory.specs import SPECS  # noqa: E402
from every_byte.ledger.trace import Trace  # noqa: E402
from every_byte.verify import simulated  # noqa: E402
from every_byte.verify.recordings import REFERENCE, files_of_cases, pack  # noqa: E402

FIGURES = ("requested", "allocated", "reserved", "peak")
ADDRESSES, NOT_MODELLED, VALUES, UNKNOWN = "addresses", "not modelled", "values", "unknown"
"""What a case has that differs: it agrees with the card's addresses, which is tried; or an operator that is not
modelled; or values that it reads, which only a card computes; or none of these."""


@contextmanager
def at_the_cards_addresses(segments: list[list[int]]) -> Iterator[None]:
    """Segments lie where the card's driver put them, as long as they are as large as there."""
    expected, as_ever = iter(segments), Driver.reserve

    def reserve(driver: Driver, n_bytes: int) -> int:
        known_bytes, address = next(expected, (0, 0))
        return address if known_bytes == n_bytes else as_ever(driver, n_bytes)

    with patch.object(Driver, "reserve", reserve):
        yield


def in_order(sequence: list[tuple]) -> list[tuple]:
    """Allocations and frees, each run of frees sorted: their order differs between runs of PyTorch itself."""
    events = [event for event in sequence if "segment" not in event[0]]
    runs = itertools.groupby(events, key=lambda event: event[0] == "free")
    return [event for are_frees, run in runs for event in (sorted(run) if are_frees else run)]


def differences(run: simulated.Environment, recording: dict) -> dict:
    """How many events are not the card's; and of each figure how many marks, and the largest difference in bytes."""
    ours = in_order(simulated.up_to_last_mark(run.gpu.trace.sequence()))
    theirs = in_order(Trace.from_recording(recording).sequence())
    pairs = [*zip(run.marks, recording["marks"], strict=True)]
    off = {figure: [one[figure] - other[figure] for one, other in pairs] for figure in FIGURES}
    return {
        "events": sum(one != other for one, other in itertools.zip_longest(ours, theirs)),
        "marks": {
            figure: [sum(map(bool, n_bytes)), max(n_bytes, key=abs)] for figure, n_bytes in off.items() if any(n_bytes)
        },
    }


def compared(path: Path, recording: dict, gpu: str) -> dict:
    """A case beside its simulation: `plain` and `placed`, what differs without and with the card's addresses; `why`."""
    case, found = load_cases(path)[recording["case"]], {}
    for how, around in (
        ("plain", nullcontext()),
        ("placed", at_the_cards_addresses(recording.get("segments", []))),
    ):
        with around, patch.dict(simulated.GPUS, {recording["card"]: gpu}):
            run = simulated.run_case(case, recording["card"], torch.__version__, is_measured=True)
        found[how] = differences(run, recording)
    trace, plain, placed = run.gpu.trace, found["plain"], found["placed"]
    if any(plain.values()):
        unknown = NOT_MODELLED if trace.notes.unmodelled else VALUES if trace.notes.values_read else UNKNOWN
        found["why"] = unknown if any(placed.values()) else ADDRESSES
    return found | {"n_marks": len(recording["marks"]), "n_events": len(recording["events"])}


def in_a_fork(out: Path, *arguments) -> int:
    """Compare in a process of its own, which writes what it found; its number."""
    if child := os.fork():
        return child
    status = 1
    try:
        warnings.simplefilter("ignore")
        out.write_text(json.dumps(compared(*arguments)), encoding="utf-8")
        status = 0
    except Exception as error:
        print(f"{out.stem}: {error!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def main() -> int:
    """Compare all, write the file, print a line for each case that differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--about", type=Path, help="a file of `every-byte measure` of that card", required=True)
    asked = parser.parse_args()
    about = json.loads(asked.about.read_text(encoding="utf-8"))
    gpu = next(spec for spec in SPECS.values() if spec.device_name == about["device_name"])
    if torch.__version__ != about["torch"]:
        parser.error(f"PyTorch must be the one that it was recorded with, {about['torch']}: {torch.__version__} runs.")
    known, todo = {}, []
    for path, folder in files_of_cases().items():
        known |= {(folder, name): path for name in load_cases(path)}
    for file in sorted(asked.folder.rglob("*.json.gz")):
        folder = "" if file.parent == asked.folder else file.parent.name
        recording = read(file) | {"device_name": about["device_name"]}
        todo.append((f"{folder}/{recording['case']}".lstrip("/"), known[folder, recording["case"]], recording))
    running, cases = set(), {}
    with tempfile.TemporaryDirectory() as apart:
        for key, path, recording in todo:
            if len(running) >= (os.cpu_count() or 1):
                running.remove(os.wait()[0])
            running.add(in_a_fork(Path(apart) / f"{key.replace('/', '.')}.json", path, recording, gpu.name))
        while running:
            running.remove(os.wait()[0])
        for key, _, recording in todo:
            file = Path(apart) / f"{key.replace('/', '.')}.json"
            if file.exists():
                cases[key] = recording | {"compared": json.loads(file.read_text(encoding="utf-8"))}
    if missing := [key for key, _, _ in todo if key not in cases]:
        print(f"not compared, and not in the file: {', '.join(missing)}", file=sys.stderr)
    version, card = about["torch"].partition("+")[0], asked.about.stem
    facts = ("device_name", "capability", "total_bytes", "multiprocessors", "driver", "torch")
    kept = {key: about[key] for key in facts}
    pack({"about": kept, "cases": cases}, REFERENCE / version / "measured" / f"{card}.json.xz")
    for key, recording in cases.items():
        if why := recording["compared"].get("why"):
            print(f"{key:60s} {why:14s} {json.dumps(recording['compared']['plain'])}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
