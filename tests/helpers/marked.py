"""Programs with marks, and what each takes at them: those that torch.compile compiles, and those of libraries.

Each family has a folder of its name in tests/reference; recordings stand beside it, in FAMILY.CARD.json.
"""

import gc
import importlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from pytorchs_switches import without_cudnn_attention

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
BOOK = "2.13.0"

Program = Callable[[], Iterator[str]]
"""Yields the names of its marks."""

Marks = dict[str, list[int]]
"""By mark [allocated, peak since the mark before, reserved]."""


@dataclass(frozen=True)
class Family:
    """Programs that are recorded in one way, by subject, each a file.

    `twice` are those that a warm cache changes; of `libraries` a recording names the versions.
    """

    name: str
    subjects: tuple[str, ...]
    twice: frozenset[str] = frozenset()
    libraries: tuple[str, ...] = ()

    def programs(self, subject: str) -> dict[str, Program]:
        """By name, in the order in which they stand."""
        folder = str(REFERENCE / self.name)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        module = importlib.import_module(subject)
        own = {name: each for name, each in vars(module).items() if getattr(each, "__module__", "") == subject}
        return {name: each for name, each in own.items() if not isinstance(each, type) and not name.startswith("_")}

    @property
    def all(self) -> set[tuple[str, str]]:
        """Every program, with its subject."""
        return {(subject, name) for subject in self.subjects for name in self.programs(subject)}

    def recorded(self, card: str) -> dict[tuple[str, str], dict[str, Marks | None]]:
        """By (subject, program) {"warm": ..., "cold": ...}, as record_marked.py wrote it; "cold" only if it differs."""
        return _recorded(self.name, card)

    @property
    def versions(self) -> dict[str, set[str]]:
        """By library those of which there are recordings."""
        found: dict[str, set[str]] = {}
        for path in (REFERENCE / BOOK).glob(f"{self.name}.*.json"):
            for library, version in json.loads(path.read_text(encoding="utf-8")).get("libraries", {}).items():
                found.setdefault(library, set()).add(version)
        return found

    def simulated(self, subject: str, name: str, gpu: str) -> tuple[Marks, object]:
        """What a program takes on a simulated GPU, where "cuda" is that, with a warm cache; and that GPU."""
        from every_byte.gpu.simulated import SimulatedGPU

        for _ in range(2 if name in self.twice else 1):
            torch._dynamo.reset()
            with SimulatedGPU(gpu, cuda=True) as opened:
                found = ran(self.programs(subject)[name])
        return found, opened


COMPILED = Family(
    "compiled", ("models", "ways", "attention", "ranks"), frozenset(("flex", "flex_with_a_bias")), ("triton",)
)
"""Those run twice hold a number on the GPU where the compiler finds them in its cache, not where it makes them."""

LIBRARIES = Family(
    "libraries",
    ("layers_in_few_bits", "optimizers_in_few_bits", "triton_kernels"),
    libraries=("bitsandbytes", "liger_kernel", "triton"),
)

FAMILIES = {family.name: family for family in (COMPILED, LIBRARIES)}


def ran(program: Program) -> Marks:
    """Run a program, on whatever "cuda" is."""
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
def _recorded(family: str, card: str) -> dict[tuple[str, str], dict[str, Marks | None]]:
    path = REFERENCE / BOOK / f"{family}.{card}.json"
    subjects = json.loads(path.read_text(encoding="utf-8"))["subjects"] if path.is_file() else {}
    return {(subject, name): found for subject, rows in subjects.items() for name, found in rows.items()}


if __name__ == "__main__":
    family, subject, name = sys.argv[1:]
    print("recorded " + json.dumps(ran(FAMILIES[family].programs(subject)[name])))
