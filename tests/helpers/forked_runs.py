"""Runs `every-byte run`, or `diff`, many times for one import: a process that has imported it forks for each."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # not by way of `places`, which imports the book's `utils`


@dataclass(frozen=True)
class Run:
    """What a run left: its exit code, what it printed, and its report's figures, None if it wrote none."""

    exit_code: int
    out: str
    err: str
    figures: dict | None

    @property
    def report(self) -> str:
        """The report in the terminal, which stands behind all that the program printed; "" if there is none."""
        return self.err[len(before_the_report(self.err)) :].removeprefix("\n")


def before_the_report(err: str) -> str:
    """What standard error has before the report and its blank line: all of it, if there is none."""
    found = _STARTS.search(err)
    return err[: found.start()].removesuffix("\n") if found and "\n$ every-byte run" in err else err


_STARTS = re.compile(r"^(Fits on|Out of memory on|It ran on|It ended on|It ended before|Nothing was allocated) ", re.M)


def in_lines(found: Run) -> str:
    """A report's words, however its lines are broken."""
    return " ".join(found.report.split())


class Runs:
    """The process that forks. Programs are files in `folder`, which is also where each is started."""

    def __init__(self, folder: Path, command: str = "run") -> None:
        self.folder, self._command, self._n = folder, command, 0
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def __call__(
        self, program: str, *options: str, arguments: tuple[str, ...] = (), name: str = "train.py", command: str = ""
    ) -> Run:
        """Run the command, or another one, with these options on a program, and wait for it."""
        self._n += 1
        (self.folder / name).write_text(program, encoding="utf-8")
        out, err, figures = (self.folder / f"{self._n}.{kind}" for kind in ("out", "err", "json"))
        job = {
            "command": command or self._command,
            "trains": "torch.optim" in program,
            "argv": ["--json", str(figures), *options, name, *arguments],
            "folder": str(self.folder),
            "out": str(out),
            "err": str(err),
        }
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        exit_code = int(self._process.stdout.readline())
        found = json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else None
        return Run(exit_code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"), found)

    def trial(self, words: tuple[str, ...], changes: tuple = (), *, looks: str = "") -> dict:
        """What a run under changes from outside took, as `every-byte advise` has it; its program is a file there is."""
        self._n += 1
        file, out, err = (self.folder / f"{self._n}.{kind}" for kind in ("json", "out", "err"))
        request = {"words": words, "changes": changes, "looks": looks, "file": str(file)}
        job = {"command": "trial", "trains": True, "argv": [json.dumps(request)], "folder": str(self.folder)}
        self._process.stdin.write(json.dumps(job | {"out": str(out), "err": str(err)}) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "0\n", err.read_text(encoding="utf-8")
        return json.loads(file.read_text(encoding="utf-8"))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _serve() -> None:
    """A program's first optimizer has PyTorch import its compiler, in some seconds: that is done here, once.

    Runs of the command in a process of their own, where it is not, are in test_options.py and test_roots.py.
    """
    from every_byte.__main__ import COMMANDS
    from every_byte.cli import trial

    for line in sys.stdin:
        job = json.loads(line)
        if job["trains"]:
            importlib.import_module("torch._dynamo")
        if not (child := os.fork()):
            signal.signal(signal.SIGINT, signal.default_int_handler)  # these are ignored in the background
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.signal(signal.SIGQUIT, signal.SIG_DFL)
            os.chdir(job["folder"])
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(job[name], os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
            try:
                code = (COMMANDS | {"trial": trial.main})[job["command"]](job["argv"])
            except SystemExit as exit_:
                code = exit_.code
            for stream in (getattr(sys, name, None) for name in ("stdout", "stderr")):
                try:  # as Python does when it ends
                    if stream is not None and not getattr(stream, "closed", False):
                        stream.flush()
                except Exception:
                    code = 120
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, flush=True)
    os._exit(0)  # what it holds need not be taken apart


if __name__ == "__main__":
    _serve()
