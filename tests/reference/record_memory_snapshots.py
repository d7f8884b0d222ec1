"""Records snapshots/*.a100.pickle: what torch.cuda.memory._dump_snapshot() writes of the programs in snapshot_programs.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_memory_snapshots.py

It starts itself for each, as a process of its own, with settings or little memory where `CASES` says so. Of call
stacks it leaves out what is below the program, and writes files as `train.py` and `site-packages/torch/...`, so that
nothing of the machine that recorded them is told. tests/snapshots reads them, and compares them.
"""

import os
import pickle
import re
import runpy
import subprocess
import sys
from pathlib import Path

import torch

from every_byte.whole_files import write_whole

HERE = Path(__file__).parent
PROGRAMS = HERE / "snapshot_programs"
CASES = {
    "train": ("train.py", {}),
    "leak": ("leak.py", {}),
    "expandable": ("train.py", {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}),
    "no_room": ("no_room.py", {"STUB_CUDA_MEM": str(1600 * 2**20)}),
    "python": ("leak.py", {"STACKS": "python"}),
    "cut": ("train.py", {"MAX_ENTRIES": "150"}),
}
"""By its file's name the program, and what is set in its environment."""


def neutral(frame: dict) -> dict:
    """A frame without where the machine keeps its files."""
    path = frame["filename"]
    if path.startswith(str(PROGRAMS)):
        path = Path(path).name
    path = re.sub(r"^/.*/(site-packages/|lib/python3\.\d+/)", r"\1", path)
    return frame | {"filename": Path(path).name if path.startswith("/") else path}


class Neutral:
    """Frames, each of which is written once, however many stacks have it, as in PyTorch's own snapshots."""

    def __init__(self) -> None:
        self._known: dict[int, dict] = {}

    def stack(self, frames: list[dict]) -> list[dict]:
        """A call stack down to the program's first line."""
        kept = [
            frame for frame in frames if Path(frame["filename"]).name not in (Path(__file__).name, "<frozen runpy>")
        ]
        return [self._known.setdefault(id(frame), neutral(frame)) for frame in kept]

    def snapshot(self, snapshot: dict) -> dict:
        """The whole of it."""
        for holder in self._holders(snapshot):
            if "frames" in holder:
                holder["frames"] = self.stack(holder["frames"])
        return snapshot

    @staticmethod
    def _holders(snapshot: dict):
        for entries in snapshot["device_traces"]:
            yield from entries
        for segment in snapshot["segments"]:
            yield segment
            yield from segment["blocks"]


def record(name: str) -> None:
    """Run one program, and write its snapshot."""
    program, _ = CASES[name]
    n, stacks = int(os.environ.get("MAX_ENTRIES", 100_000)), os.environ.get("STACKS", "all")
    torch.cuda.memory._record_memory_history(max_entries=n, stacks=stacks)
    torch.cuda.memory._snapshot()  # once it has been asked, it knows where its libraries are
    try:
        runpy.run_path(str(PROGRAMS / program), run_name="__main__")
    except torch.OutOfMemoryError as error:
        print(name, str(error).partition(". GPU")[0])
    snapshot = Neutral().snapshot(torch.cuda.memory._snapshot())
    folder = HERE / torch.__version__.split("+")[0] / "snapshots"
    write_whole(folder / f"{name}.a100.pickle", pickle.dumps(snapshot))


def main() -> None:
    """Record all of them."""
    for name, (_, settings) in CASES.items():
        subprocess.run([sys.executable, __file__, name], check=True, env=os.environ | settings)


if __name__ == "__main__":
    record(sys.argv[1]) if len(sys.argv) > 1 else main()
