"""Writes book/verified_operations.md and every_byte/gpu/evidence.json: `python tools/verified_operations.py`.

Runs every recorded case on the simulated GPU of its card, by the rules of the version that recorded it; every recorded
sample of PyTorch's own database of operators; and programs that torch.compile compiles, or that use libraries, by their
marks. Where all figures and events agree, the recording verifies the operators that ran. This takes an hour or more.
With names, `python tools/verified_operations.py drawn_counts "compiled/*"`, it runs only these and adds what they
verify.
"""

import re
import sys
from argparse import ArgumentParser
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from marked import LIBRARIES  # noqa: E402

from every_byte.gpu import evidence  # noqa: E402
from every_byte.progress import Beside, Counted  # noqa: E402
from every_byte.whole_files import write_whole  # noqa: E402
from tools.recorded_runs import FAMILIES, Run, of_cases, of_marked, of_samples, processes  # noqa: E402
from tools.whole_files import plainly  # noqa: E402

PAGE = ROOT / "book" / "verified_operations.md"
BOOK = "2.13"
HEAD = """# Verified operations

This page compares the simulated GPU with recordings of PyTorch 2.13's CUDA build (see `tests/reference/README.md`). For
an operation that is not listed here, the simulated GPU counts the outputs, warns once, and adds the name to
`gpu.unmodelled`. The first table has samples of all operators, the second one programs.
`python tools/verified_operations.py` writes this page.
"""
PROGRAMS = """
## In programs

For each operation, the table names a program that ran it, a case of `tests/reference`, and its card. The simulated GPU
matched every figure and every event of that program. This verifies the operation for the shapes, types and layouts in
the program, not for all others.

| operation | verified by |
|---|---|
"""
DATABASE = """
## In PyTorch's own samples

PyTorch's own tests use a database of ways to call each operator, with different shapes, strides and settings. We ran
each of its samples, except those with complex numbers, forward and backward in float32, in bfloat16 and under autocast
to bfloat16. Each ran on a simulated A100, and on the CUDA build over stub libraries that describe an A100.

{verdicts}

Of {total:,d} samples, the verdicts are {counts}. Of those that the CUDA build can judge, {share:.1%} are exact.

| operator | {columns} |
|---|{rule}|
"""
_ROW = re.compile(r"^\| `(\S+)` \| (\S+) \|$", re.MULTILINE)

Held = dict[str, set[evidence.Place]]
MEASURED_ALONE: Held = {
    "aten::_scaled_dot_product_cudnn_attention 16-bit": {("2.11", "9.0")},
    "aten::_scaled_dot_product_cudnn_attention_backward 16-bit": {("2.11", "9.0")},
}
"""What recordings over stand-ins cannot verify, because cuDNN's engines take nothing there, and which card did."""


def main() -> None:
    """Run everything, or what is named, and write both files."""
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cases", nargs="*", help="names of cases, with * and ?; default: all, and all samples")
    names = parser.parse_args().cases
    held: Held = defaultdict(set)
    rows: dict[str, str] = {}
    if names:
        rows = dict(_ROW.findall(PAGE.read_text(encoding="utf-8")))
        for name, places in evidence.recorded().items():
            held[name] |= places
    n_before = sum(map(len, held.values()))
    samples = _samples(held) if not names else _kept_samples()
    for run in _with_progress(names):
        _add(run, held)
        if run.parts:
            print(f"{run.name}, {' on '.join(run.place)}: {run.parts[:200]}", file=sys.stderr)
        if run.place[0] == BOOK:
            for name in sorted({operator.partition(" ")[0] for operator in run.operators}):
                rows.setdefault(name, run.name.rpartition("/")[2])
    held |= MEASURED_ALONE
    write_whole(evidence.FILE, evidence.text_of(held, LIBRARIES.versions))
    table = "".join(f"| `{operation}` | {case} |\n" for operation, case in sorted(rows.items()))
    write_whole(PAGE, HEAD + samples + PROGRAMS + table)
    n = sum(map(len, held.values()))
    print(f"{PAGE.relative_to(ROOT)}: {len(rows)} operations")
    where = evidence.FILE.relative_to(ROOT)
    print(f"{where}: {len(held)} operators by type, {n:,d} places, {n - n_before:,d} new")


def _with_progress(names: list[str]):
    with Beside(lambda: "recorded cases"):
        patterns = [name for name in names if name.partition("/")[0] not in FAMILIES]
        if patterns or not names:
            yield from of_cases(patterns, processes())
        if len(patterns) < len(names) or not names:
            yield from of_marked([name for name in names if name not in patterns], processes())


def _add(run: Run, held: Held) -> None:
    for operator in run.operators:
        held[operator].add(run.place)


def _kept_samples() -> str:
    """The page's part about samples, as it is."""
    text = PAGE.read_text(encoding="utf-8")
    return text[len(HEAD) : text.index(PROGRAMS)]


def _samples(held: Held) -> str:
    """The page's part about PyTorch's database: a row an operator, with its samples by verdict."""
    from operator_results import EXACT, FLAGGED, REFUSED, UNJUDGED, VERDICTS, WRONG
    from operator_samples import MODES

    columns = (EXACT, FLAGGED, REFUSED, WRONG, UNJUDGED)
    counts: dict[str, Counter] = {}
    counted = Counted("operators' samples", 1)
    with Beside(counted):
        for name, card, run in of_samples(processes()):
            _add(run, held)
            if card == "a100" and run.name.rpartition(", ")[2] in MODES:
                counts.setdefault(name, Counter()).update(run.counts)
    total = sum(counts.values(), Counter())
    head = DATABASE.format(
        verdicts="\n".join(f"- **{verdict}**: {VERDICTS[verdict]};" for verdict in columns).rstrip(";") + ".",
        total=total.total(),
        counts=", ".join(f"{total[verdict]:,d} {verdict}" for verdict in columns),
        share=total[EXACT] / (total.total() - total[UNJUDGED]),
        columns=" | ".join(columns),
        rule="|".join("--:" for _ in columns),
    )
    rows = [
        f"| `{name}` | " + " | ".join(f"{counts[name][verdict] or ''}" for verdict in columns) + " |\n"
        for name in sorted(counts, key=str.lower)
    ]
    return head + "".join(rows)


if __name__ == "__main__":
    sys.exit(plainly(main))
