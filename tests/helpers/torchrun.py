"""Starts ranks for a test by torchrun, and sees that none is left."""

import json
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

from places import HELPERS, ROOT

LIMIT_S = 180  # a run takes some ten seconds, on a machine with much else to do a few times that
MARKER = "EVERY_BYTE_RANKS"
SUMMED_IN_ANOTHER_ORDER = 1e-14  # in float64, relative to the largest number of a tensor


class Run:
    """One torchrun that has ended: its exit status, what it printed, what its ranks wrote, and who of them is left."""

    def __init__(self, n, folder, *program, options=("--standalone",), script="rank_program.py"):
        marker = uuid.uuid4().hex
        hidden = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        environment = {key: value for key, value in os.environ.items() if key not in hidden}
        environment |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", MARKER: marker}
        environment["PYTHONPATH"] = str(ROOT)
        torchrun = [sys.executable, "-m", "torch.distributed.run", *options, f"--nproc-per-node={n}"]
        command = [*torchrun, str(HELPERS / script), *program, str(folder)]
        process = subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            self.printed, _ = process.communicate(timeout=LIMIT_S)
        finally:
            self.left = _marked(marker)
            for pid in self.left:
                os.kill(pid, signal.SIGKILL)
            process.kill()
            process.wait()
        self.status = process.returncode
        self.written = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]


def _marked(marker: str) -> list[int]:
    """The processes that carry a marker in their environment, where the system tells."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARKER}={marker}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has just ended, or is somebody else's
            continue
    return found
