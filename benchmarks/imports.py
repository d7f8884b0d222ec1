"""Times what `import utils` adds to `import torch`, each in processes of their own: `python benchmarks/imports.py`."""

import statistics
import subprocess
import sys

RUNS = 7
CODE = "import time; import torch; start = time.perf_counter(); import utils; print(time.perf_counter() - start)"


def main() -> None:
    """Print the median."""
    times = [float(subprocess.check_output([sys.executable, "-c", CODE])) for _ in range(RUNS)]
    print(f"import utils adds {1000 * statistics.median(times):.0f} ms to import torch, median of {RUNS}")


if __name__ == "__main__":
    main()
