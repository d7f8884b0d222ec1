"""Writes what the reports of public programs say of their own figures, beside what the CUDA build took.

    python tools/programs/compare.py --all --into there --out compared
    python tools/programs/verdicts.py compared > tests/reference/programs/verdicts.md

`compared` is where compare.py left `sim.json`, `sim.log` and, where the CUDA build ran too, `live.json`. Each row is
examined for two faults: a report that says "to the byte" where a figure differs ("silent"), and one that names
something as not followed where every figure is the same. After the table are the operators that no recording holds,
with the programs in which each of them ran.
"""

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path

from compare import ALL, Run, answered, off

HEAD = (
    "program",
    "run",
    "level",
    "held, of",
    "not held here",
    "named as not followed",
    "values read",
    "said",
)
TRUTH = ("bytes off", "in", "events off", "values told", "verdict")
_STEPS = 3
_NAMED = 4  # operators in a row; all of them stand after the table
INTRODUCTION = """\
# What reports say of their own figures

Each program of `tools/programs` as `every-byte run --gpu a100-80gb --steps 3` reports it, and the largest difference
in bytes of any step where the CUDA build of PyTorch 2.13.0 ran it too, over the stub libraries (`tools/cuda_build`).
`level` is the report's: `held`, `elsewhere` or `unrecorded`. "said" is how its last paragraph begins: `to the byte`;
`to the byte, if` for a program whose allocations do not depend on the values that it reads; `by the rules` where some
operators are not held on this architecture; `not exact`. Over the stubs cuDNN takes no workspace.

The verdict is `right` where "to the byte" is said and every figure is the same, `**silent**` where it is said and one
differs; `same` and `differs` where the report is more cautious; `named, same` where it names something as not
followed and no figure differs.

Written by `tools/programs/verdicts.py`; the lists of programs are `programs.py`, `wider.py` and `further.py` beside it.
"""


def report_of(folder: Path, kind: str) -> Run:
    """One run of a program, as compare.py left it."""
    file, log = folder / f"{kind}.json", folder / f"{kind}.log"
    printed = log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""
    last = printed.replace("\r", "\n").rpartition("\n")[2]
    return Run(json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}, 0.0, last)


def said(folder: Path) -> str:
    """What the report's last paragraph says of its figures, in a word or two."""
    log = (folder / "sim.log").read_text(encoding="utf-8", errors="replace")
    text = " ".join(log.rpartition("\nSimulated")[2].split()) if "\nSimulated" in log else ""
    if not text:
        return "nothing ran" if "Nothing was asked" in log else "no report"
    if "and not exact" in text:
        return "not exact"
    if not text.startswith(", to the byte"):
        return "by the rules"
    return "to the byte, if" if "do not depend on the values" in text else "to the byte"


def verdict(words: str, most: int | None, sim: Run, is_run: bool) -> str:
    """Whether what is said is right, as far as the CUDA build shows it."""
    if not is_run:
        return ""
    if most is None:
        return "not compared"
    is_exact = words.startswith("to the byte")
    if most:
        return "**silent**" if is_exact else "differs"
    if words == "not exact":
        return "named, same"
    return "right" if is_exact else "same"


def row(name: str, folder: Path) -> tuple[str, ...]:
    """A program's row."""
    sim, live = report_of(folder, "sim"), report_of(folder, "live")
    if not sim.report:
        return name, f"no report: {sim.last[:100]}", *[""] * (len(HEAD) + len(TRUTH) - 2)
    evidence = sim.report["evidence"]
    beyond = [entry["operator"] for entry in evidence["elsewhere"]] + evidence["unrecorded"]
    named = [*map(str, sim.report["unmodelled"]), *map(str, sim.report["refused"])]
    is_run = (folder / "live.log").exists()
    most, where = off(sim, live) if is_run else (None, "")
    words = said(folder)
    events = f"{sim.report['n_events'] - live.report['n_events']:,d}" if live.report else ""
    ran = str(sim.report["ended"]).replace("optimizer steps, as --steps says", "steps")[:120]
    return (
        name,
        ran,
        sim.report["level"],
        f"{evidence['n_held']} of {evidence['n_operators']}",
        ", ".join(beyond[:_NAMED]) + (f" and {len(beyond) - _NAMED} more" if len(beyond) > _NAMED else ""),
        ", ".join(named)[:200],
        ", ".join(sim.report["values_read"])[:120],
        words,
        "" if most is None else f"{most:,d}",
        where,
        events,
        answered(folder) if is_run else "",
        verdict(words, most, sim, is_run),
    )


def operators(compared: Path, names: list[str]) -> dict[str, dict[str, list[str]]]:
    """The operators that no recording holds, and those held elsewhere only, each with the programs in which it ran."""
    found = {"unrecorded": defaultdict(list), "elsewhere": defaultdict(list)}
    for name in names:
        report = report_of(compared / name, "sim").report
        if report:
            evidence = report["evidence"]
            for operator in evidence["unrecorded"]:
                found["unrecorded"][operator].append(name)
            for entry in evidence["elsewhere"]:
                found["elsewhere"][entry["operator"]].append(name)
    return found


def outcome(sim: Run) -> str:
    """How the simulated run came out, in a few words."""
    if not sim.report:
        return "no report"
    if len(sim.steps) >= _STEPS:
        return f"{_STEPS} steps"
    if sim.report["refused"]:
        return "refused something"
    return "ended by itself" if "ended by itself" in str(sim.report["ended"]) else "ended by an error of its own"


def counts(compared: Path, rows: list[tuple[str, ...]]) -> str:
    """How many runs came out how, and how many rows have which level, words and verdict."""
    n = defaultdict(int)
    for cells in rows:
        n[outcome(report_of(compared / cells[0], "sim"))] += 1
    lines = ["- run: " + ", ".join(f"{key} {value}" for key, value in sorted(n.items()))]
    for column in ("level", "said", "verdict"):
        at = (*HEAD, *TRUTH).index(column)
        n = defaultdict(int)
        for cells in rows:
            n[cells[at] or "none"] += 1
        lines.append(f"- {column}: " + ", ".join(f"{key} {value}" for key, value in sorted(n.items())))
    return "\n".join(lines)


def text_of(compared: Path) -> str:
    """The whole file: introduction, counts, the table and the operators."""
    names = [name for name in ALL if (compared / name / "sim.log").exists()]
    rows = [row(name, compared / name) for name in names]
    head = (*HEAD, *TRUTH)
    parts = [INTRODUCTION, f"{len(rows)} programs:\n\n{counts(compared, rows)}\n"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    parts.append(
        "\n".join([*lines, *("| " + " | ".join(c.replace("|", "\\|") for c in r) + " |" for r in rows)]) + "\n"
    )
    titles = {"unrecorded": "Operators that no recording holds", "elsewhere": "Operators held by other recordings only"}
    for level, of in operators(compared, names).items():
        listed = [f"- `{operator}`: {', '.join(where)}" for operator, where in sorted(of.items())]
        parts.append(f"## {titles[level]}\n\n" + ("\n".join(listed) or "None.") + "\n")
    return "\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("compared", type=Path, help="where compare.py left its runs")
    print(text_of(parser.parse_args(arguments).compared), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
