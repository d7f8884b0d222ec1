"""Snapshots that were recorded, and small ones made by hand."""

import copy

from places import ROOT

from every_byte.ledger.plain_pickles import MOST_BYTES, load
from every_byte.snapshots.history import History, history_of
from every_byte.snapshots.schema import check
from every_byte.snapshots.summary import Summary, summary_of

FOLDER = ROOT / "tests" / "reference" / "2.13.0" / "snapshots"
PROGRAMS = ROOT / "tests" / "reference" / "snapshot_programs"
PROGRAM_OF = {"train": "train", "leak": "leak", "expandable": "train", "no_room": "no_room", "python": "leak",
              "cut": "train"}  # fmt: skip


def recorded(name: str) -> dict:
    """A recorded snapshot, opened and checked."""
    found = load(FOLDER / f"{name}.a100.pickle")
    check(found, MOST_BYTES)
    return found


def told(name: str) -> Summary:
    """What a recorded snapshot tells."""
    return summary_of(recorded(name), f"{name}.pickle")


def frames(*lines: str, node: str = "", operator: str = "") -> list[dict]:
    """A call stack: "train.py:12 main" for each line, innermost first; above it an operator and an autograd node."""
    of_cpp = [f"at::_ops::{operator}::call(at::Tensor const&)"] * bool(operator)
    if node:
        of_cpp += [f"torch::autograd::generated::{node}::apply(x)", "torch::autograd::Engine::thread_main(x)"]
    made = [{"name": name, "filename": "??", "line": 0} for name in of_cpp]
    for line in lines:
        place, _, function = line.rpartition(" ")
        filename, _, number = place.rpartition(":")
        made.append({"name": function, "filename": filename, "line": int(number)})
    return made


class Making:
    """A snapshot made by hand, event after event; time goes on by one microsecond with each."""

    def __init__(self) -> None:
        self.entries: list[dict] = []
        self.annotations: list[dict] = []
        self.segments: list[dict] = []

    def _event(self, action: str, address: int, size: int, stack: list[dict], **more) -> None:
        entry = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": 10 * len(self.entries)}
        self.entries.append(entry | {"frames": stack} | more)

    def alloc(self, address: int, size: int, *lines: str, **more) -> None:
        """An allocation."""
        self._event("alloc", address, size, frames(*lines, **more))

    def free(self, address: int, size: int, *lines: str) -> None:
        """A free, at once complete."""
        for action in ("free_requested", "free_completed"):
            self._event(action, address, size, frames(*lines))

    def event(self, action: str, address: int, size: int, **more) -> None:
        """Anything else."""
        self._event(action, address, size, [], **more)

    def named(self, name: str, begin: int, end: int) -> None:
        """An annotation from right before one event up to right before another."""
        for stage, at in (("START", begin), ("END", end)):
            self.annotations.append({"stage": stage, "name": name, "device": 0, "time_us": 10 * at - 5})

    def segment(self, address: int, size: int, *blocks: tuple, **more) -> None:
        """A segment at the end, with blocks: size, what was requested (0: free), and their call stack's lines."""
        at, made = address, []
        for n, requested, *lines in blocks:
            state = "active_allocated" if requested else "inactive"
            made.append(
                {"address": at, "size": n, "requested_size": requested, "state": state, "frames": frames(*lines)}
            )
            at += n
        self.segments.append({"address": address, "total_size": size, "segment_type": "large", "stream": 0, "device": 0,
                              "blocks": made, "frames": []} | more)  # fmt: skip

    def snapshot(self) -> dict:
        """All of it."""
        made = {"segments": self.segments, "device_traces": [self.entries], "allocator_settings": {},
                "external_annotations": self.annotations}  # fmt: skip
        check(made, MOST_BYTES)
        return made

    def history(self) -> History:
        """Its history."""
        return history_of(self.snapshot(), 0)

    def told(self) -> Summary:
        """What it tells."""
        return summary_of(self.snapshot(), "made.pickle")


def of_an_older_version(name: str) -> dict:
    """The same without what older versions of PyTorch leave out: annotations, settings, times, pools, addresses."""
    snapshot = copy.deepcopy(recorded(name))
    for name in ("external_annotations", "allocator_settings"):
        del snapshot[name]
    for entry in snapshot["device_traces"][0]:
        for name in ("time_us", "compile_context", "user_metadata", "pool_id"):
            entry.pop(name, None)
    for segment in snapshot["segments"]:
        for name in ("segment_pool_id", "is_expandable", "requested_size"):
            segment.pop(name, None)
        for block in segment["blocks"]:
            del block["address"], block["requested_size"]
    return snapshot
