"""Programs that `torch.compile` compiles (tests/reference/compiled): what each takes at its marks."""

import gc
import importlib
import json
import sys
import warnings
from functools import cache
from pathlib import Path

import torch
from pytorchs_switches import without_cudnn_attention

FOLDER = Path(__file__).resolve().parents[1] / "reference" / "compiled"
BOOK = "2.13.0"
SUBJECTS = ("models", "ways", "attention", "ranks")


def programs(subject):
    """By name, in the order in which they stand; each yields its marks' names."""
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    module = importlib.import_module(subject)
    own = {name: each for name, each in vars(module).items() if getattr(each, "__module__", "") == subject}
    return {name: each for name, each in own.items() if not isinstance(each, type) and not name.startswith("_")}


def ran(program):
    """Run it: by mark [allocated, peak since the mark before, reserved]."""
    torch.manual_seed(0)
    found = {}
    gc.collect()
    torch.cuda.reset_peak_memory_stats()
    with without_cudnn_attention(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mark in program():
            found[mark] = [
                torch.cuda.memory_allocated(),
                torch.cuda.max_memory_allocated(),
                torch.cuda.memory_reserved(),
            ]
            torch.cuda.reset_peak_memory_stats()
    return found


@cache
def recorded(card):
    """By (subject, program) {"warm": ..., "cold": ...}, as record_compiled.py wrote it; "cold" only if it differs."""
    path = FOLDER.parent / BOOK / f"compiled.{card}.json"
    subjects = json.loads(path.read_text(encoding="utf-8"))["subjects"] if path.is_file() else {}
    return {(subject, name): found for subject, rows in subjects.items() for name, found in rows.items()}


if __name__ == "__main__":
    subject, name = sys.argv[1:]
    print("recorded " + json.dumps(ran(programs(subject)[name])))
