"""Runs each item of the advice about some models over the CUDA build of PyTorch, and records what it allocates at most.

    python tools/cuda_build/advice.py encoder                     a model of tests/helpers/advised.py, compared
    python tools/cuda_build/advice.py --out tests/reference/2.13.0/advice    all models, written

Run tools/cuda_build/setup.sh once before; the Llama needs transformers there too (PYTHONPATH). Each item runs in a
process of its own, and its peak must equal the simulated one, to the byte.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from advised import BUDGETS, MODELS, READS  # noqa: E402
from record import answering  # noqa: E402

from every_byte.advice.remedy import Remedy, together  # noqa: E402
from every_byte.advice.search import bench_of, offers  # noqa: E402
from every_byte.whole_files import write_whole  # noqa: E402

MOST_READS = 100  # by far more than two steps have
TRIES = 3  # a process may be aborted at its very end: "terminate called without an active exception"
GPU, CARD, N_STEPS = "a100-80gb", "a100", 2


def train(model: str, name: str) -> dict[str, int]:
    """Train with the remedies of that name on this process's "cuda": what PyTorch's allocator says.

    Raises: KeyError for a remedy that is not offered.
    """
    account = MODELS[model](GPU)
    bench = bench_of(GPU, N_STEPS, "", BUDGETS[model])
    offered = {one.name: one for one in offers(account.step, bench) if isinstance(one, Remedy)}
    names = [] if name == "plain" else name.split(" + ")
    step = together(tuple(offered[one] for one in names), account.step).step
    torch.cuda.reset_peak_memory_stats()
    step.train(N_STEPS)
    return {"peak_bytes": torch.cuda.max_memory_allocated(), "reserved_bytes": torch.cuda.max_memory_reserved()}


def in_a_process(model: str, name: str, settings: str) -> dict[str, int]:
    """The same in a process of its own, with the allocator's settings."""
    command = [str(HERE / "run.sh"), __file__, model, "--item", name]
    environment = os.environ | {"STUB_CUDA_GPU": CARD} | ({"PYTORCH_ALLOC_CONF": settings} if settings else {})
    with tempfile.TemporaryDirectory() as apart:
        answers = answering(READS.get(model, []) * MOST_READS, Path(apart))
        for _ in range(TRIES):
            run = subprocess.run(command, env=environment | answers, capture_output=True, text=True)
            if not run.returncode:
                break
        else:
            return {"error": run.stderr[-2000:]}
        told = json.loads(Path(answers["ANSWERS_REPORT"]).read_text(encoding="utf-8"))
    if told["wrong_size"] or told["beyond"]:
        return {"error": f"what it reads is not what it was told: {told}"}
    return json.loads(run.stdout.splitlines()[-1])


def compared(model: str, jobs: int) -> dict:
    """All items of a model's advice, simulated here and recorded there; prints each difference."""
    advice = MODELS[model](GPU).advice(budget=BUDGETS[model], sizes=False)
    runs = [advice.plain, *advice.runs]
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda ran: in_a_process(model, ran.name, ran.settings), runs))
    items = {}
    for ran, recorded in zip(runs, found, strict=True):
        off = recorded.get("peak_bytes", 0) - ran.peak_bytes
        print(f"{'ok  ' if not off else 'FAIL'} {model}, {ran.name}: {ran.peak_bytes:,d} simulated, {off:+,d}"
              f"{recorded.get('error', '')}")  # fmt: skip
        items[ran.name] = recorded["peak_bytes"] if "peak_bytes" in recorded else None
    return {"torch": torch.__version__.split("+")[0], "card": CARD, "model": model, "peak_bytes": items,
            "is_equal": all(items[ran.name] == ran.peak_bytes for ran in runs)}  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """The command line: see the head of this file. Returns 1 if an item's peak is not the simulated one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS), help="models of tests/helpers/advised.py")
    parser.add_argument("--out", type=Path, help="the folder to write recordings to")
    parser.add_argument("--jobs", type=int, default=2, help="how many items run at a time")
    parser.add_argument("--item", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.item:
        print(json.dumps(train(arguments.models[0], arguments.item)))
        return 0
    good = True
    for model in arguments.models:
        found = compared(model, arguments.jobs)
        good &= found.pop("is_equal")
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            path = arguments.out / f"{model}.{CARD}.json"
            write_whole(path, json.dumps(found, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
