"""Records nanogpt_itself.json: two steps of nanoGPT's own model.py under the CUDA build of PyTorch, fresh each time.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_nanogpt.py model.py

model.py is nanoGPT's, of the commit in utils/experiments/nanogpt_itself.py; its code is not part of the book.
tests/experiments/test_nanogpt_itself.py runs the same on the simulated GPU and compares.
"""

import datetime
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import torch

from every_byte.gpu.live.gpu import LiveGPU
from every_byte.ledger.readings import Readings
from utils.experiments.nanogpt_itself import ADDRESS, PROGRAMS, RECORDED, nanogpt_steps


def marks(run: Readings) -> dict[str, dict[str, int]]:
    """The readings of a run as a recording has them: by the name of the mark."""
    return {
        f"step {row.iteration} {row.phase}" if row.iteration else row.phase: {
            "requested": row.requested_bytes,
            "allocated": row.allocated_bytes,
            "peak": row.peak_bytes,
            "reserved": row.reserved_bytes,
        }
        for row in run
    }


def record(model_py: Path) -> dict:
    """Each program in a process of its own: cuBLAS's workspace lasts as long as the process."""
    programs = {}
    for program in PROGRAMS:
        command = [sys.executable, __file__, str(model_py), program]
        programs[program] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {
        "origin": "the CUDA build of PyTorch over stand-ins for its libraries; no kernel ran, nothing was measured",
        "torch": torch.__version__,
        "card": "a100",
        "model.py": ADDRESS,
        "sha256": hashlib.sha256(model_py.read_bytes()).hexdigest(),
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "programs": programs,
    }


if __name__ == "__main__":
    file, *names = sys.argv[1:]
    if names:
        with LiveGPU(traced=False) as gpu:
            print(json.dumps(marks(nanogpt_steps(gpu, file, with_product=PROGRAMS[names[0]]))))
    else:
        RECORDED.write_text(json.dumps(record(Path(file)), indent=1) + "\n", encoding="utf-8")
