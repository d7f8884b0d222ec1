"""Records as_printed.json: what the articles' own scripts print under the CUDA build of PyTorch, a process for each.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_as_printed.py FOLDER

FOLDER has the files that utils/experiments/as_printed.py names; their code is not part of the book.
tests/experiments/test_as_printed.py runs the same scripts by `every-byte run` and compares.
"""

import datetime
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

import torch

from utils.experiments.as_printed import COMMIT, FOOTPRINT, RECORDED, REPOSITORY, SCRIPTS, TESTS

PYTEST = ("-m", "pytest", "--quiet", "--no-header", "-p", "no:cacheprovider", "-o", "addopts=")


def command(script: str) -> list[str]:
    """The arguments with which Python runs a script."""
    return [*PYTEST, script] if script == TESTS else [script]


def shown(script: str, printed: str) -> str:
    """What is compared: all that was printed; of tests, how many passed; of FOOTPRINT, the numbers, a line for each."""
    if script == TESTS:
        return printed.rstrip("\n").splitlines()[-1].strip("= ").split(" in ")[0]
    if script == FOOTPRINT:
        lines = (re.findall(r"-?\d[\d,]*\.\d|(?<=Iteration )\d", line) for line in printed.splitlines())
        return "\n".join(" ".join(numbers) for numbers in lines if numbers)
    return printed.rstrip("\n")


def record(folder: Path) -> dict:
    """Each script's text, and the SHA-256 of each file of the repository."""
    printed = {}
    for script in SCRIPTS:
        run = subprocess.run([sys.executable, *command(script)], cwd=folder, capture_output=True, text=True, check=True)
        printed[script] = shown(script, run.stdout)
    return {
        "origin": "the CUDA build of PyTorch over stand-ins for its libraries; no kernel ran, nothing was measured",
        "torch": torch.__version__,
        "card": "a100",
        "code": f"{REPOSITORY}/tree/{COMMIT}",
        "sha256": {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(folder.glob("*.py"))
            if file.name != FOOTPRINT
        },
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "printed": printed,
    }


if __name__ == "__main__":
    (folder,) = sys.argv[1:]
    RECORDED.write_text(json.dumps(record(Path(folder)), indent=1) + "\n", encoding="utf-8")
