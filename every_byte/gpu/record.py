"""Runs the reference cases on this machine's own GPU and writes what its allocator did, as tests/reference holds it.

    python -m every_byte.gpu.record                                        all of tests/reference/cases.py
    python -m every_byte.gpu.record 'gpt2_tiny_*' --events 'gpt2_tiny_*'   some of them, with every event
    python -m every_byte.gpu.record --cases my_cases.py --out results      into another folder than recordings/

Each case runs in a process of its own, with the allocator's default settings and Python's garbage collector off, and
each result is checked: the sizes of its events must add up to what the allocator counts at every mark.
tools/cuda_build/record.py records the same without a GPU.
"""

import argparse
import fnmatch
import gc
import gzip
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

import torch

from every_byte.gpu.live.gpu import LiveGPU

from .history import check, compact

CASES = Path(__file__).resolve().parents[2] / "tests" / "reference" / "cases.py"
READINGS = {
    "requested": "requested_bytes.all.current",
    "allocated": "allocated_bytes.all.current",
    "reserved": "reserved_bytes.all.current",
    "peak": "allocated_bytes.all.peak",
}
COUNTERS = ("allocation.all.allocated", "allocation.all.freed")
# Settings that change what PyTorch allocates: a case is run without them.
SETTINGS = (
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUBLAS_WORKSPACE_CONFIG",
)


class Recorder:
    """What a case is given as `env`: this machine's GPU, autocast on it, and marks."""

    def __init__(self, gpu: LiveGPU):
        self.gpu, self.device = gpu, gpu.device
        self.marks: list[dict] = []
        self.positions: list[tuple[int, int]] = []

    def autocast(self, dtype: torch.dtype, **options) -> torch.autocast:
        return self.gpu.autocast(dtype, **options)

    def mark(self, name: str) -> None:
        """Note the allocator's figures of this instant, and how many allocations and frees came before it."""
        self.gpu.synchronize()
        stats = self.gpu.memory_stats()
        self.marks.append({"name": name} | {reading: stats[key] for reading, key in READINGS.items()})
        self.positions.append(tuple(stats[counter] for counter in COUNTERS))
        self.gpu.reset_peak_memory_stats()


def load_module(path: Path) -> ModuleType:
    """A Python file as a module of its own."""
    spec = importlib.util.spec_from_file_location(str(path), path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def load_cases(path: Path) -> dict[str, Callable]:
    """The `CASES` of a file such as tests/reference/cases.py, by name.

    Raises: ValueError for a file that does not exist.
    """
    if not path.is_file():
        raise ValueError(f"--cases must be a Python file with a dict CASES: got {path}, which does not exist.")
    return load_module(path).CASES


def record_case(case: Callable, gpu: LiveGPU, keep_events: bool) -> dict:
    """Run a case on a GPU, in a process where nothing has run on it, and return what its file holds of the run.

    Raises: ValueError if the result does not add up.
    """
    torch.manual_seed(0)
    torch.backends.cuda.enable_cudnn_sdp(case.cudnn_sdp)
    # Labels come from the stacks of C++, which are slow to note.
    detail = {"stacks": "all", "context": "all"} if keep_events else {"stacks": "python", "context": None}
    torch.cuda.memory._record_memory_history(max_entries=10_000_000, **detail)
    gc.collect()
    gc.disable()
    try:
        recorder = Recorder(gpu)
        case(recorder)
        trace = torch.cuda.memory._snapshot()["device_traces"][gpu.device.index]
    finally:
        gc.enable()
        torch.cuda.memory._record_memory_history(enabled=None)
    events = compact(trace, recorder.marks, recorder.positions)
    check(events, recorder.marks)
    result = {"cudnn_sdp": case.cudnn_sdp, "marks": recorder.marks}
    return result | ({"events": events} if keep_events else {})


def description(gpu: LiveGPU) -> dict:
    """What a file says of the machine that it was recorded on."""
    spec = gpu.spec
    facts = ("capability", "total_bytes", "multiprocessors", "threads_per_multiprocessor")
    return {
        "torch": torch.__version__,
        "card": re.sub(r"\W+", "-", gpu.name).lower(),
        "device_name": gpu.name,
        "gpu": {fact: getattr(spec, fact) for fact in facts},
        "driver": driver_version(),
        "origin": gpu.origin,
    }


def driver_version() -> str | None:
    """The driver's version, as nvidia-smi gives it; None where there is no nvidia-smi."""
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split("\n")[0]
    except (OSError, subprocess.SubprocessError):
        return None


def file_name(case: str, card: str) -> str:
    """Under which name a recording lies in its folder."""
    return f"{case}.{card}.json.gz"


def read(path: Path) -> dict:
    """What a file holds: see tests/reference/README.md."""
    return json.loads(gzip.decompress(path.read_bytes()))


def save(content: dict, path: Path) -> None:
    """Write a file that `read` reads: the same content gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as zipped:
        zipped.write(json.dumps(content, separators=(",", ":")).encode())


def write(result: dict, folder: Path) -> Path:
    """Write a recording under its name, and return where it is."""
    path = folder / file_name(result["case"], result["card"])
    save(result, path)
    return path


def summary(result: dict, path: Path) -> str:
    """What was recorded, in a line."""
    peak = max((mark["peak"] for mark in result["marks"]), default=0)
    return f"largest peak {peak:,d} bytes: {path}"


def chosen(names: list[str], cases: dict[str, Callable]) -> list[str]:
    """The cases that one of the names stands for, in the order of the file; all of them without names.

    Raises: ValueError for a name that stands for none.
    """
    for name in names:
        if not any(fnmatch.fnmatchcase(case, name) for case in cases):
            raise ValueError(
                f"names must be those of cases, with * and ?: got {name!r}; try one of {', '.join(cases)}."
            )
    return [case for case in cases if not names or any(fnmatch.fnmatchcase(case, name) for name in names)]


def run_in_a_process(command: list[str], unset: Iterable[str], **settings: str) -> tuple[bool, str]:
    """Record one case in a process of its own: whether that went well, and the last that it said."""
    environment = {key: value for key, value in os.environ.items() if key not in unset} | settings
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        return False, done.stderr.strip()[-1500:]
    return True, done.stdout.strip().split("\n")[-1]


def say(title: str, good: bool, said: str) -> bool:
    """Print in a line how one case went."""
    print(f"{title:44s} {said if good else f'FAILED: {said}'}", flush=True)
    return good


def report(outcomes: list[bool]) -> int:
    """Print how many cases went well, and return the command's exit status: 1 if one did not."""
    print(f"{sum(outcomes)} recorded, {len(outcomes) - sum(outcomes)} failed")
    return 0 if all(outcomes) else 1


def command_for(name: str, keep_events: bool, arguments: argparse.Namespace) -> list[str]:
    """What records one case in a process of its own."""
    command = [sys.executable, "-m", __spec__.name, name, "--child"]
    command += ["--cases", str(arguments.cases), "--out", str(arguments.out)]
    return command + (["--events", name] if keep_events else [])


def record_here(name: str, arguments: argparse.Namespace) -> None:
    """Record one case in this process and write its file."""
    gpu = LiveGPU()
    result = record_case(load_cases(arguments.cases)[name], gpu, keep_events=bool(arguments.events))
    result = description(gpu) | {"case": name} | result
    print(summary(result, write(result, arguments.out)))


def main(argv: list[str] | None = None) -> int:
    """The command line: see the head of this file. Returns 1 if a case failed."""
    parser = argparse.ArgumentParser(
        prog="python -m every_byte.gpu.record",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="names of cases, with * and ?; default: all")
    parser.add_argument("--cases", type=Path, default=CASES, help="a file with a dict CASES of functions case(env)")
    parser.add_argument("--out", type=Path, default=Path("recordings"), help="the folder to write to")
    parser.add_argument("--events", action="append", default=[], metavar="PATTERN", help="cases whose events to keep")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child:
        record_here(arguments.names[0], arguments)
        return 0
    try:
        LiveGPU()
        names = chosen(arguments.names, load_cases(arguments.cases))
    except (RuntimeError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    keep = {name for pattern in arguments.events for name in fnmatch.filter(names, pattern)}
    commands = {name: command_for(name, name in keep, arguments) for name in names}
    return report([say(name, *run_in_a_process(command, SETTINGS)) for name, command in commands.items()])


if __name__ == "__main__":
    sys.exit(main())
