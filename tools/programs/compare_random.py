"""Compares random training programs on simulated GPUs with the CUDA build.

    python tools/programs/compare_random.py --seeds 40

Each program of `random_training.py` runs on each card: on the simulated GPU, and over PyTorch's CUDA build with stub
libraries (tools/cuda_build). Prints a row a card, and each program whose figures differ though its evidence says that
it is held, or that differs at all. Exits with 1 if a figure that is called exact is not.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from every_byte.verify.simulated import GPUS  # noqa: E402

PROGRAM = ROOT / "tools" / "programs" / "random_training.py"
CARDS = ("t4", "a100", "rtx3090", "l40s", "h100", "b200", "rtx5090")


def lines_of(command: list[str], **environment: str) -> list[dict]:
    """What a run of the programs prints."""
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def on_card(card: str, first: int, last: int) -> list[tuple[dict, dict]]:
    """Each program on a card: simulated, and over the CUDA build."""
    seeds = [str(PROGRAM), str(first), str(last)]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    ours = lines_of([sys.executable, *seeds, "--gpu", GPUS[card], "--over-stand-ins"], PYTHONPATH=path)
    theirs = lines_of([str(ROOT / "tools" / "cuda_build" / "run.sh"), *seeds], STUB_CUDA_GPU=card)
    return list(zip(ours, theirs, strict=True))


def bytes_off(ours: dict, theirs: dict) -> int:
    """How far any figure of any step is off; -1 where one made other steps than the other."""
    if len(ours["steps"]) != len(theirs["steps"]):
        return -1
    pairs = zip(ours["steps"], theirs["steps"], strict=True)
    return max((abs(one[key] - other[key]) for one, other in pairs for key in one), default=0)


def claim(ours: dict) -> str:
    """What is said of a run's figures."""
    if ours["unmodelled"] or ours["refused"] or ours["error"]:
        return "unrecorded"
    return ours["evidence"]["level"]


def main() -> int:
    """Run all, print the table, and return 1 where a figure that is called exact is not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=40, help="how many programs (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: %(default)s)")
    parser.add_argument("--cards", default=",".join(CARDS))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cards = options.cards.split(",")
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = pool.map(lambda card: on_card(card, options.first, options.first + options.seeds), cards)
        found = dict(zip(cards, runs, strict=True))
    print(
        "| card | programs | 0 bytes off | of these held | elsewhere | named | differ, called exact | differ, named |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    silent = []
    for card, pairs in found.items():
        counts: Counter[tuple[bool, str]] = Counter()
        for ours, theirs in pairs:
            off, said = bytes_off(ours, theirs), claim(ours)
            counts[off == 0, said] += 1
            if off:
                silent += [(card, ours["seed"])] if said == "held" else []
                names = ours["unmodelled"] or ours["refused"] or ours["evidence"]["unrecorded"]
                ended = f"{ours['error']} | {theirs['error']}"
                print(f"<!-- {card} {ours['seed']} {ours['program']}: {off:,d} off, {said} {names[:6]} {ended} -->")
        exact = [counts[True, level] for level in ("held", "elsewhere", "unrecorded")]
        differ = counts[False, "held"], counts[False, "elsewhere"] + counts[False, "unrecorded"]
        print(f"| {card} | {len(pairs)} | {sum(exact)} | {' | '.join(map(str, exact))} | {differ[0]} | {differ[1]} |")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
