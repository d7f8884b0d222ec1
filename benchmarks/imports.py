"""Times what the packages add to `import torch`, each in processes of their own: `python benchmarks/imports.py`."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = 7
CODE = "import time; import torch; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def main() -> None:
    """Print the medians, of runs that find compiled files, as all do but a package's first."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for package in ("every_byte", "utils"):
        command = [sys.executable, "-c", CODE.format(package)]
        times = [float(subprocess.check_output(command, cwd=ROOT, env=environment)) for _ in range(1 + RUNS)][1:]
        print(f"import {package} adds {1000 * statistics.median(times):.0f} ms to import torch, median of {RUNS}")


if __name__ == "__main__":
    main()
