"""Writes book/verified_operations.md: `python tools/verified_operations.py`.

Runs every recorded case on the simulated GPU of its card. Where all figures and events agree with the recording, the
operations that ran are verified by it.
"""

import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from places import RECORDED  # noqa: E402
from reference_files import all_files, load  # noqa: E402
from running import Environment, cases, run_case, up_to_last_mark  # noqa: E402

from every_byte.gpu.cases.files import file_name, read  # noqa: E402
from utils import Trace  # noqa: E402

PAGE = ROOT / "book" / "verified_operations.md"
FILES = (
    *("operation_cases", "transformer_cases", "attention_cases", "crossing_cases", "block_cases", "program_cases"),
    "index_cases",
    "value_cases",
    *("autocast_cases", "autocast_cache_cases", "autocast_program_cases", "random_gpt_cases", "rank_cases"),
    "rank_data_cases",
)
HEAD = """# Verified operations

Written by `python tools/verified_operations.py`. Each operation ran in a case whose memory was recorded from the CUDA
build of PyTorch 2.13 (see `tests/reference/README.md`), and the simulated GPU gave every figure and every event of
that recording. A case verifies an operation for the shapes, types and layouts that it has, not for all there are. Any
other operation is counted by its outputs, warns once and is named in `gpu.unmodelled`.

| operation | verified by |
|---|---|
"""


def recorded() -> list[tuple[str, object, str, dict]]:
    """Every recorded case: its name, its function, the card, the recording."""
    known = cases("cases") | cases("gpt2_cases")
    main = [(n, known[n], card, load(n, card)) for n, card in all_files() if "events" in load(n, card)]
    others = [(n, case, card) for file in FILES for n, case in cases(file).items() for card in case.cards]
    return main + [(n, case, card, read(RECORDED / "operations" / file_name(n, card))) for n, case, card in others]


def agrees(run: Environment, recording: dict) -> bool:
    """Whether a run gave every figure and every event of its recording."""
    expected = Trace.from_recording(recording).sequence()
    return run.marks == recording["marks"] and up_to_last_mark(run.gpu.trace.sequence()) == expected


def main() -> None:
    """Run everything and write the page."""
    warnings.simplefilter("ignore")
    verified: dict[str, str] = {}
    for name, case, card, recording in recorded():
        run = run_case(case, card)
        if agrees(run, recording):
            for operation in sorted(run.gpu.operations - run.gpu.unmodelled):
                verified.setdefault(operation, f"{name}.{card}")
    rows = [f"| `{operation}` | {case} |" for operation, case in sorted(verified.items())]
    PAGE.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(verified)} operations")


if __name__ == "__main__":
    main()
