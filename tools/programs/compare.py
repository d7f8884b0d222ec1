"""Runs public programs on the simulated GPU and over the CUDA build of PyTorch; compares what they took, step by step.

    python tools/programs/compare.py --all --into there --python venv/bin/python

`there` is where prepare.py laid the programs out; `venv` has a CPU build of PyTorch and the packages in the list. The
other run is that of tools/cuda_build/run.sh, whose environment must have the same packages. Both are `every-byte run`
with the same options, but for `--gpu`. The
second is told the values that were known in the first (known.py). For each program it writes `sim.json`, `live.json`
and what both printed below `--out`, and prints a row of a table. Each run sees this checkout's
`every_byte`, and nothing else of it. The row is also kept as `row.json`, with the report's own words on what is exact.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from further import FURTHER
from programs import PROGRAMS, Program
from wider import WIDER

ROOT = Path(__file__).resolve().parent.parent.parent
CARDS = {"a100-80gb": "a100", "a100-40gb": "a100-40", "h100-80gb": "h100"}  # as tools/cuda_build calls them
ALL = PROGRAMS | WIDER | FURTHER
FIGURES = ("allocated_bytes", "max_allocated_bytes", "reserved_bytes", "max_reserved_bytes")
OVER_ALL = {
    "allocated_bytes": lambda report: report["allocated_at_end_bytes"],
    "max_allocated_bytes": lambda report: report["peak"]["allocated_bytes"],
    "max_reserved_bytes": lambda report: report["peak"]["reserved_bytes"],
}
HEAD = ("program", "runs", "flagged", "bytes off", "in", "events off", "values told", "seconds sim / live")


@dataclass
class Run:
    """What one run left: its report, {} if it wrote none; the seconds it took; the last line that it printed."""

    report: dict = field(default_factory=dict)
    seconds: float = 0.0
    last: str = ""

    @property
    def steps(self) -> list[dict]:
        """The steps of its report."""
        return self.report.get("steps", [])


def only_every_byte(into: Path) -> Path:
    """A folder that shows this checkout's every_byte, and run.sh where that adds the folder to PYTHONPATH."""
    into = into / "only_every_byte"
    (into / "tools" / "cuda_build").mkdir(parents=True)
    (into / "every_byte").symlink_to(ROOT / "every_byte")
    (into / "tools" / "cuda_build" / "run.sh").symlink_to(ROOT / "tools" / "cuda_build" / "run.sh")
    return into


def environment(program: Program, root: Path, *paths: Path) -> dict[str, str]:
    """The variables of a run: this process's, the program's own, and where Python looks."""
    own = {key: value.replace("{root}", str(root)) for key, value in program.environment.items()}
    path = os.pathsep.join(filter(None, (own.pop("PYTHONPATH", ""), *map(str, paths))))
    return {**os.environ, **own, "PYTHONPATH": path}


def answering(out: Path) -> dict[str, str]:
    """The variables that have copies from the card bring what known.py wrote; builds tools/cuda_build/answers.c."""
    library, file = out / "answers.so", out / "answers.txt"
    source = ROOT / "tools" / "cuda_build" / "answers.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return {"LD_PRELOAD": str(library), "ANSWERS": str(file), "ANSWERS_REPORT": str(out / "answers.json")}


def answered(out: Path) -> str:
    """How many values the CUDA build was told; "!" where it asked others than the simulated run did."""
    file = out / "answers.json"
    if not file.exists():
        return "0"
    told = json.loads(file.read_text(encoding="utf-8"))
    entries = (out / "answers.txt").read_text(encoding="ascii").splitlines()
    n_known = sum(not entry.endswith(" -") for entry in entries[: told["used"]])
    is_odd = told["wrong_size"] or told["beyond"] or told["used"] < told["entries"]
    return f"{n_known} of {told['used']}" + ("!" if is_odd else "")


def run(command: list[str], variables: dict[str, str], folder: Path, out: Path, limit: float) -> Run:
    """Runs a command that is to write the report `out`; what it prints goes beside that, into a file of its own."""
    out.unlink(missing_ok=True)
    log = out.with_suffix(".log")
    began = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=variables, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            file.write(f"\nstopped after {limit:.0f} s\n")
    printed = log.read_text(encoding="utf-8", errors="replace").replace("\r", "\n").split("\n")
    report = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    return Run(report, time.monotonic() - began, next((line for line in reversed(printed) if line.strip()), ""))


def off(sim: Run, live: Run) -> tuple[int | None, str]:
    """The largest difference in bytes and where it is: figures at each step's end, and over the whole run.

    None if either has no report or the steps are not the same ones.
    """
    if not sim.report or not live.report:
        return None, "no report"
    if len(sim.steps) != len(live.steps):
        return None, f"{len(sim.steps)} steps and {len(live.steps)}"
    pairs = [(f"step {a['number']}", a, b) for a, b in zip(sim.steps, live.steps)]
    pairs.append(("run", *({name: of(run.report) for name, of in OVER_ALL.items()} for run in (sim, live))))
    found = [(abs(a[name] - b[name]), f"{where} {name}") for where, a, b in pairs for name in FIGURES if name in a]
    most, where = max(found, default=(0, "nothing"))
    return most, where if most else f"{len(sim.steps)} steps"


def row(program: Program, sim: Run, live: Run, out: Path) -> tuple[str, ...]:
    """A program's row of the table."""
    runs = [str(run.report["ended"]) if run.report else f"no: {run.last[:80]}" for run in (sim, live)]
    flagged = ", ".join(map(str, sim.report.get("unmodelled", []))) or "nothing"
    most, where = off(sim, live)
    bytes_off = "?" if most is None else f"{most:,d}"
    seconds = f"{sim.seconds:.0f} / {live.seconds:.0f}"
    n_events = [run.report.get("n_events", 0) for run in (sim, live)]
    events_off = f"{n_events[0] - n_events[1]:,d} of {n_events[1]:,d}"
    return program.name, " / ".join(dict.fromkeys(runs)), flagged, bytes_off, where, events_off, answered(out), seconds


def compare(program: Program, asked: argparse.Namespace, seen: Path) -> tuple[str, ...]:
    """Runs a program twice; returns its row."""
    out = (asked.out / program.name).resolve()
    out.mkdir(parents=True, exist_ok=True)
    paths = [path.resolve() for path in asked.path]
    ranks = ["--ranks", str(program.ranks), "--rank", "0"] if program.ranks else []
    options = ["--steps", str(asked.steps), *ranks]
    script = [program.script, *shlex.split(program.arguments)]

    def one(kind: str, python: Path, starting: list, gpu: str, paths: list[Path], more: dict[str, str]) -> Run:
        report = out / f"{kind}.json"
        if kind not in asked.only:
            return Run(json.loads(report.read_text(encoding="utf-8")) if report.exists() else {})
        trace = ["--trace", str(report.with_suffix(".trace.json"))]
        command = [str(python), *starting, "run", "--gpu", gpu, *options, "--json", str(report), *trace, *script]
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / program.name  # a fresh copy: some programs go on from what an earlier run saved
            shutil.copytree(asked.into / program.name, root)
            return run(command, environment(program, root, *paths) | more, root / program.folder, report, asked.limit)

    knowing = [str(Path(__file__).with_name("known.py")), str(out / "answers.txt")]
    sim = one("sim", asked.python.absolute(), knowing, asked.gpu, [seen, *paths], {})
    settings = {"STUB_CUDA_GPU": CARDS[asked.gpu], **answering(out)}
    live = one("live", seen / "tools" / "cuda_build" / "run.sh", ["-m", "every_byte"], "live", paths, settings)
    return kept(row(program, sim, live, out), sim, out)


def kept(cells: tuple[str, ...], sim: Run, out: Path) -> tuple[str, ...]:
    """The row, which is also kept as `row.json`, with what the simulated run's report says of itself at its end."""
    log = out / "sim.log"
    printed = log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""
    sentence = " ".join(printed.rpartition("\nSimulated by")[1:]).split() if sim.report else []
    said = {"exactness": " ".join(sentence), "notes": sim.report.get("notes", [])}
    text = json.dumps(dict(zip(HEAD, cells)) | said, indent=1)
    (out / "row.json").write_text(text + "\n", encoding="utf-8")
    return cells


def main(arguments: list[str] | None = None) -> int:
    """Runs the program; returns 1 if a program differs or does not run, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--into", type=Path, default=Path("programs"), help="where prepare.py laid them out")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="a Python with torch's CPU build")
    parser.add_argument("--path", type=Path, action="append", default=[], help="a folder of packages for both runs")
    parser.add_argument("--out", type=Path, default=Path("compared"))
    parser.add_argument("--gpu", choices=CARDS, default="a100-80gb")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--limit", type=float, default=600, help="seconds for a run")
    parser.add_argument("--only", nargs="+", choices=("sim", "live"), default=["sim", "live"], help="run it anew")
    asked = parser.parse_args(arguments)
    names = list(PROGRAMS) if asked.all else asked.names
    unknown = [name for name in names if name not in ALL]
    if unknown or not names:
        parser.error(f"NAME must be one of {', '.join(ALL)}; got {', '.join(unknown) or 'none'}.")
    rows = []
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    with tempfile.TemporaryDirectory() as folder:
        seen = only_every_byte(Path(folder))
        for name in names:
            rows.append(compare(ALL[name], asked, seen))
            print("| " + " | ".join(rows[-1]) + " |", flush=True)
    return 1 if any(cells[3] != "0" for cells in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
