"""Times what the packages add to `import torch`, each in processes of their own: `python benchmarks/imports.py`.

Python's collector goes through all objects once so many new ones are there, and finds those of torch, too. Whether that
falls into an import hangs on what was imported before: it is counted apart.
"""

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = 9
CODE = """
import gc, time
import torch

collector = began = 0

def collecting(phase, info):
    global collector, began
    now = time.perf_counter()
    if phase == "start":
        began = now
    else:
        collector += now - began

gc.callbacks.append(collecting)
start = time.perf_counter()
{}
whole = time.perf_counter() - start
print(whole - collector, collector)
"""


def main() -> None:
    """Print the medians, of runs that find compiled files, as all do but a package's first."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for statement in ("import every_byte", "from every_byte import *", "import utils"):
        command = [sys.executable, "-c", CODE.format(statement)]
        printed = [subprocess.check_output(command, cwd=ROOT, env=environment) for _ in range(1 + RUNS)][1:]
        own, collector = (1000 * statistics.median(map(float, column)) for column in zip(*map(bytes.split, printed)))
        print(
            f"{statement} adds {own:.0f} ms to import torch, and {collector:.0f} ms of the collector, median of {RUNS}"
        )


if __name__ == "__main__":
    main()
