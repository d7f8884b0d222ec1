"""Writes book/verified_operations.md: `python tools/verified_operations.py`.

Runs every recorded case on the simulated GPU of its card. Where all figures and events agree with the recording, the
operations that ran are verified by it. Then it runs every recorded sample of PyTorch's own database of operators.
"""

import sys
import warnings
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from operator_results import EXACT, FLAGGED, REFUSED, UNJUDGED, VERDICTS, WRONG, results  # noqa: E402
from operator_results import recorded as recorded_samples  # noqa: E402
from operator_samples import MODES  # noqa: E402
from places import RECORDED  # noqa: E402
from reference_files import all_files, load  # noqa: E402
from running import Environment, cases, run_case, up_to_last_mark  # noqa: E402

from every_byte.gpu.cases.files import file_name, read  # noqa: E402
from every_byte.progress import Beside, Counted  # noqa: E402
from every_byte.whole_files import write_whole  # noqa: E402
from tools.whole_files import plainly  # noqa: E402
from utils import Trace  # noqa: E402

PAGE = ROOT / "book" / "verified_operations.md"
FILES = (
    *("operation_cases", "transformer_cases", "attention_cases", "crossing_cases", "block_cases", "program_cases"),
    *("index_cases", "image_cases", "recurrent_cases", "double_backward_cases", "second_gradient_cases"),
    "kernel_cases",
    "sort_cases",
    "sparse_cases",
    "deterministic_cases",
    "value_cases",
    *("autocast_cases", "autocast_cache_cases", "autocast_program_cases", "random_gpt_cases", "rank_cases"),
    *("rank_data_cases", "remedy_cases", "remedy_program_cases", "llama_cases", "gpt_remedy_cases"),
)
HEAD = """# Verified operations

Written by `python tools/verified_operations.py`, which compares the simulated GPU with what was recorded from the CUDA
build of PyTorch 2.13 (see `tests/reference/README.md`). An operation that is in no row is counted by its outputs, warns
once and is named in `gpu.unmodelled`. Below, first, the samples of all operators, then the programs.
"""
PROGRAMS = """
## In programs

Each operation ran in a program of which the simulated GPU gave every figure and every event: a case of
`tests/reference`, named with its card. A program verifies an operation for the shapes, types and layouts that it has,
not for all there are.

| operation | verified by |
|---|---|
"""
DATABASE = """
## In PyTorch's own samples

PyTorch's tests draw on a database that knows of each operator how it may be called: shapes, strides, settings. Nobody
here wrote it. Each of its samples was run forward and backward, in float32, in bfloat16 and under autocast to bfloat16:
on a simulated A100, and on the CUDA build over stub libraries that describe one. None is of complex numbers.

{verdicts}

In all {total:,d} samples: {counts}. Of those that the CUDA build can judge, {share:.1%} are exact.

| operator | {columns} |
|---|{rule}|
"""
COLUMNS = (EXACT, FLAGGED, REFUSED, WRONG, UNJUDGED)


def recorded() -> list[tuple[str, object, str, dict]]:
    """Every recorded case: its name, its function, the card, the recording."""
    known = cases("cases") | cases("gpt2_cases")
    main = [(n, known[n], card, load(n, card)) for n, card in all_files() if "events" in load(n, card)]
    others = [(n, case, card) for file in FILES for n, case in cases(file).items() for card in case.cards]
    found = [(n, case, card, read(RECORDED / "operations" / file_name(n, card))) for n, case, card in others]
    return main + [each for each in found if "events" in each[-1]]


def agrees(run: Environment, recording: dict) -> bool:
    """Whether a run gave every figure and every event of its recording."""
    expected = Trace.from_recording(recording).sequence()
    return run.marks == recording["marks"] and up_to_last_mark(run.gpu.trace.sequence()) == expected


def main() -> None:
    """Run everything and write the page."""
    warnings.simplefilter("ignore")
    verified: dict[str, str] = {}
    programs = recorded()
    counted = Counted("programs", len(programs))
    with Beside(counted):
        for counted.n_done, (name, case, card, recording) in enumerate(programs):
            run = run_case(case, card)
            if agrees(run, recording):
                for operation in sorted(run.gpu.operations - run.gpu.unmodelled):
                    verified.setdefault(operation, f"{name}.{card}")
    rows = [f"| `{operation}` | {case} |\n" for operation, case in sorted(verified.items())]
    with Beside(lambda: "PyTorch's own samples, the longer part"):
        samples = database()
    write_whole(PAGE, HEAD + samples + PROGRAMS + "".join(rows))
    print(f"{PAGE.relative_to(ROOT)}: {len(verified)} operations")


def database() -> str:
    """The page's part about PyTorch's database: a row an operator, with its samples by verdict."""
    counts: dict[str, Counter] = {}
    for mode in MODES:
        for result in results(mode, recorded_samples(mode)):
            counts.setdefault(result.operator, Counter())[result.verdict] += 1
    total = sum(counts.values(), Counter())
    head = DATABASE.format(
        verdicts="\n".join(f"- **{verdict}**: {VERDICTS[verdict]};" for verdict in COLUMNS).rstrip(";") + ".",
        total=total.total(),
        counts=", ".join(f"{total[verdict]:,d} {verdict}" for verdict in COLUMNS),
        share=total[EXACT] / (total.total() - total[UNJUDGED]),
        columns=" | ".join(COLUMNS),
        rule="|".join("--:" for _ in COLUMNS),
    )
    rows = [
        f"| `{name}` | " + " | ".join(f"{counts[name][verdict] or ''}" for verdict in COLUMNS) + " |\n"
        for name in sorted(counts, key=str.lower)
    ]
    return head + "".join(rows)


if __name__ == "__main__":
    sys.exit(plainly(main))
