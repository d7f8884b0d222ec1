"""What a tool writes is written as a whole or not at all, and Ctrl-C ends it in a line.

`write_whole` is the instrument's, without the second that `import every_byte` takes for torch.
"""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

INTERRUPTED = 130
write_whole = runpy.run_path(str(Path(__file__).resolve().parent.parent / "every_byte" / "whole_files.py"))[
    "write_whole"
]


def plainly(main: Callable[[], int | None], left: str = "no file is half-written") -> int:
    """Call a tool's `main`, and give its exit code; where Ctrl-C ends it, say what it leaves."""
    try:
        return main() or 0
    except KeyboardInterrupt:
        print(f"\nInterrupted: {left}.", file=sys.stderr)
        return INTERRUPTED
