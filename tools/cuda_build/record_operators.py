"""Records the samples of PyTorch's database of operators over the CUDA build on stub libraries. Needs no GPU.

    python tools/cuda_build/record_operators.py                     all operators, into tests/reference/2.13.0/operators
    python tools/cuda_build/record_operators.py cumprod 'nn.*' --out there
    python tools/cuda_build/record_operators.py --card l40s         on another card: what is not as on the a100, packed

Run tools/cuda_build/setup.sh once before; the database wants `expecttest`, on PYTHONPATH. What a file holds is said in
tests/reference/README.md. Some samples end the CUDA build's process: it is begun again behind their operator.
"""

import argparse
import fnmatch
import gzip
import json
import os
import queue
import subprocess
import sys
import threading
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]
PATIENCE = 600  # seconds without a line, on a machine that others use too, before an operator is given up


def record(mode: str, names: list[str]) -> None:
    """Run the samples of these operators in this process; print a line of JSON before and after each."""
    import torch
    from operator_samples import drawn, operators, outcome, run, signature

    torch.set_num_threads(1)
    torch.backends.cuda.enable_cudnn_sdp(False)
    warnings.simplefilter("ignore")
    device = torch.device("cuda", 0)
    x = torch.zeros(2, 2, device=device, requires_grad=True)
    (x @ x).sum().backward()  # cuBLAS's workspaces, of both threads
    known = operators()

    def position() -> int:
        counted = torch._C._cuda_memoryStats(0)["allocation"]["all"]
        return counted["allocated"] + counted["freed"]

    def history() -> list[tuple[bool, int, int]]:
        entries = torch.cuda.memory._snapshot()["device_traces"][0]
        kinds = {"alloc": True, "free_completed": False}
        return [(kinds[e["action"]], e["addr"], e["size"]) for e in entries if e["action"] in kinds]

    def autocast(dtype: torch.dtype):
        return torch.autocast("cuda", dtype=dtype)

    for name in names:
        print(json.dumps([name]), flush=True)
        rows = []
        for sample in drawn(known[name], mode):
            started: list[int] = []

            def mark_first(mark, started=started):
                if not started:
                    torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python", context=None)
                    torch.cuda.set_sync_debug_mode("warn")
                    started.append(1)
                mark()

            def act(mark, sample=sample, mark_first=mark_first, name=name):
                run(known[name], mode, sample, device, lambda: mark_first(mark), autocast)

            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                came = outcome(act, position, history)
            torch.cuda.set_sync_debug_mode("default")
            torch.cuda.memory._record_memory_history(enabled=None)
            reads = any("called a synchronizing" in str(warning.message) for warning in said)
            rows.append([signature(sample), came.forward, came.backward, came.error, reads])
        print(json.dumps([name, rows]), flush=True)


def lines_of(card: str, mode: str, names: list[str]):
    """What a process prints that records these operators, and None where it fell silent."""
    process = subprocess.Popen(
        [str(HERE / "run.sh"), __file__, "--child", mode, *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"STUB_CUDA_GPU": card},
    )
    waiting: queue.Queue = queue.Queue()

    def pass_on() -> None:
        for line in process.stdout:
            waiting.put(line)
        waiting.put(None)

    threading.Thread(target=pass_on, daemon=True).start()
    try:
        while (line := waiting.get(timeout=PATIENCE)) is not None:
            yield json.loads(line)
    except queue.Empty:
        yield None
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """The command line: see the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=["*"])
    parser.add_argument("--card", default="a100")
    parser.add_argument("--modes", default="", help="such as float32,bfloat16; default: all of the card")
    parser.add_argument("--out", type=Path, default=ROOT / "tests" / "reference" / "2.13.0" / "operators")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        record(arguments.names[0], arguments.names[1:])
        return
    from operator_samples import MODES, ON_A100, operators

    from every_byte.progress import Beside, Counted
    from every_byte.whole_files import write_whole

    names = [name for name in operators() if any(fnmatch.fnmatch(name, pattern) for pattern in arguments.names)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    modes = list(filter(None, arguments.modes.split(","))) or [*MODES, *(ON_A100 if arguments.card == "a100" else ())]
    for mode in modes:
        found, counted = {}, Counted(mode, len(names))
        with Beside(counted):
            for name, rows in record_all(arguments.card, mode, names):
                counted.n_done = names.index(name) + 1
                if rows:
                    found[name] = rows
        if arguments.card != "a100":
            found = as_on_the_a100(found, arguments.out / f"{mode}.a100.jsonl.gz")
        text = "\n".join(json.dumps([name, rows]) for name, rows in found.items()) + "\n"
        write_whole(arguments.out / f"{mode}.{arguments.card}.jsonl.gz", gzip.compress(text.encode(), mtime=0))
        own = [rows for rows in found.values() if rows]
        print(f"{mode}: {len(found)} operators, {sum(map(len, own)):,d} samples of {len(own)}", flush=True)


def as_on_the_a100(found: dict[str, list], a100: Path) -> dict[str, list | None]:
    """Each operator's rows, None where they are those of the A100, in whatever order they were drawn."""
    with gzip.open(a100, "rt", encoding="utf-8") as file:
        held = dict(map(json.loads, file))
    return {name: None if sorted(rows) == sorted(held.get(name, ())) else rows for name, rows in found.items()}


def record_all(card: str, mode: str, waiting: list[str]):
    """Each operator's name and rows, from as many processes as it takes: some samples end the CUDA build's."""
    while waiting:
        current = waiting[0]
        done = True
        for line in lines_of(card, mode, waiting):
            if line is None:
                break
            current, done = line[0], len(line) == 2
            if done:
                yield line
        if not done:
            print(f"{mode}: the CUDA build ended at {current}")
        waiting = waiting[waiting.index(current) + 1 :]


if __name__ == "__main__":
    from tools.whole_files import plainly

    sys.exit(plainly(main))
