"""The table of what others measured and published, and how each figure is compared with a simulated run.

A row of `tests/published/figures/*.tsv` names a program of `tests/published/rebuilt`, its arguments, the card, and the
figure as its source prints it. A program is `program(gpu, **arguments)` and returns bytes: `gpu` answers as
`torch.cuda` does, and has a `device`.
"""

import csv
import importlib
import json
import struct
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import torch
from torch import nn

from every_byte import SimulatedGPU

FOLDER = Path(__file__).resolve().parent.parent / "published"
UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "MiB float32": 2**20, "GiB": 2**30, "MB": 10**6, "GB": 10**9}
"""What figures are printed in; of `MiB float32` the source keeps a float32, whose digits are all compared."""


@dataclass(frozen=True)
class Figure:
    """One published figure.

    `card` is the simulated one, `on` what the source calls it; `torch` and `date` as the source says them, "" where it
    does not. `what` is the counter, by torch.cuda's name. `why` says why a figure is not met, "" where it should be.
    """

    program: str
    arguments: str
    card: str
    on: str
    torch: str
    date: str
    source: str
    what: str
    published: str
    unit: str
    why: str

    @property
    def key(self) -> str:
        """A name that no other figure has."""
        return f"{self.program} {self.arguments} on {self.card}, {self.source} {self.date}"

    def simulated(self) -> int:
        """What a simulated run of the program gives, in bytes; 0 where it does not fit on the card."""
        module, _, name = self.program.partition(".")
        program = getattr(importlib.import_module(f"rebuilt.{module}"), name)
        with warnings.catch_warnings(action="ignore"), SimulatedGPU(self.card) as gpu, _first_weights_not_drawn():
            with suppress(torch.OutOfMemoryError):
                return program(gpu, **json.loads(self.arguments))
        return 0

    def printed(self, n_bytes: int) -> str:
        """Bytes as the source prints them: in its unit, and as many digits."""
        value = n_bytes / UNITS[self.unit]
        if self.unit == "MiB float32":
            return repr(struct.unpack("f", struct.pack("f", value))[0])
        return f"{value:.{len(self.published.partition('.')[2])}f}"

    def is_met(self, n_bytes: int) -> bool:
        """Whether a simulated run gives the published figure, in all digits that the source has."""
        return self.printed(n_bytes) == self.published


@contextmanager
def _first_weights_not_drawn() -> Iterator[None]:
    """Weights stay as they are when they are made: no byte depends on them, and to draw them takes most of the time."""
    with ExitStack() as stack:
        for name in ("kaiming_uniform_", "uniform_", "normal_"):
            stack.enter_context(patch.object(nn.init, name, lambda tensor, *_, **__: tensor))
        yield


@cache
def figures() -> tuple[Figure, ...]:
    """The whole table."""
    rows = []
    for path in sorted((FOLDER / "figures").glob("*.tsv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows += [Figure(**row) for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return tuple(rows)


@cache
def sources() -> dict[str, dict[str, str]]:
    """Who published the figures, by their column `source`: title, url, licence and date."""
    return tomllib.loads((FOLDER / "sources.toml").read_text(encoding="utf-8"))
