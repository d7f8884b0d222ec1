"""Two articles' own scripts: what they print under PyTorch's CUDA build. None of their code is in the book.

Those of REPOSITORY are unmodified. FOOTPRINT was copied from a public copy of its article's script, not from the
article, without the comments and with hidden_size=100: the copy has 1000, and the article's figures come out with 100.

`every-byte run` prints the same from your copy of a script; tests/experiments/test_as_printed.py holds it to that.
"""

import json

from utils.recordings import RECORDINGS

RECORDED = RECORDINGS.parent / "as_printed.json"
"""What tests/reference/record_as_printed.py recorded: each script's name, with the text that it printed."""
REPOSITORY = "https://github.com/garrett361/act_mem"
"""The code of "Activation Memory: A Deep Dive using PyTorch"; of COMMIT."""
COMMIT = "0e03bddccac1d13fddba943c5fad3530f9b0e381"
FOOTPRINT = "footprint.py"
"""The name here of the script of "Memory Footprint of a Neural Net During Backpropagation"."""
TESTS = "test.py"
"""The tests in REPOSITORY, of its counters and its layers on a CPU and on CUDA."""
SCRIPTS = ("mlp_script.py", "block_script.py", "attn_script.py", TESTS, FOOTPRINT)


def recorded(script: str) -> str:
    """What a script printed under the CUDA build of PyTorch over stand-ins for its libraries: no kernel ran.

    Raises: ValueError for a script that is not one of SCRIPTS.

        >>> print(recorded("mlp_script.py"))
        ReLU bytes: 83886080
        GELU bytes: 150994944
        ReLU/GeLU act mem ratio: 0.5555555555555556
    """
    if script not in SCRIPTS:
        raise ValueError(f"script must be one of {', '.join(SCRIPTS)}: got {script!r}.")
    printed: str = json.loads(RECORDED.read_text(encoding="utf-8"))["printed"][script]
    return printed


def phases() -> dict[str, tuple[int, int]]:
    """What FOOTPRINT prints of its last iteration: after each phase the allocated bytes, and their change."""
    names = ("forward", "backward", "step", "zero_grad")
    lines = (line.replace(",", "").split() for line in recorded(FOOTPRINT).splitlines()[-len(names) :])
    return {name: (int(float(held)), int(float(change))) for name, (held, change) in zip(names, lines, strict=True)}
