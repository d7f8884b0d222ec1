"""Times what the packages add to `import torch`, each in processes of their own: `python benchmarks/imports.py`."""

import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = 7
CODE = "import time; import torch; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def main() -> None:
    """Print the medians."""
    for package in ("every_byte", "utils"):
        command = [sys.executable, "-c", CODE.format(package)]
        times = [float(subprocess.check_output(command, cwd=ROOT)) for _ in range(RUNS)]
        print(f"import {package} adds {1000 * statistics.median(times):.0f} ms to import torch, median of {RUNS}")


if __name__ == "__main__":
    main()
