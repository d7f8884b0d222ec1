"""The stored table of public architectures: the account of each, its derived formula, and what other estimates say."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from textwrap import fill
from typing import Any

from every_byte.tables import Table
from every_byte.units import MiB
from utils.recordings import RECORDINGS

STORED = RECORDINGS / "architectures.json"
HEAD = ["architecture", "parameters", "peak, MiB", "formula", "runs", "s", "accelerate", "MemTracker", "usual"]


@dataclass(frozen=True, repr=False)
class ArchitectureTable:
    """Rows by name, as `architecture_rows.row_of` makes them; `versions` are those of the libraries.

    Unit:   MiB, requested; seconds; percent more (+) or fewer (-) than the account's.
    """

    versions: Mapping[str, str]
    rows: Mapping[str, dict[str, Any]]

    def only(self, *names: str) -> "ArchitectureTable":
        """The same with fewer rows, in this order. Raises: KeyError for a name that it does not have."""
        return replace(self, rows={name: self.rows[name] for name in names})

    @property
    def exact(self) -> list[str]:
        """The names whose formula was found whole, and met at every check."""
        return [name for name, row in self.rows.items() if row["formula"].get("is_exact")]

    def percents(self, other: str) -> dict[str, float]:
        """How far off "accelerate", "mem_tracker" or "usual" is, by name, where it said anything."""
        percents = {name: row["others"][other].get("percent") for name, row in self.rows.items()}
        return {name: percent for name, percent in percents.items() if percent is not None}

    @property
    def beside_workspaces(self) -> dict[str, float]:
        """How far off MemTracker would be with cuBLAS's workspaces added, which it does not see, by name."""
        seen = {name: (row["others"]["mem_tracker"].get("bytes"), row) for name, row in self.rows.items()}
        return {
            name: 100 * ((n_bytes + row["workspace"]) / row["peak"] - 1)
            for name, (n_bytes, row) in seen.items()
            if n_bytes is not None
        }

    @property
    def title(self) -> str:
        """What it is of."""
        return "Simulated, requested at the peak: " + ", ".join(f"{name} {n}" for name, n in self.versions.items())

    @property
    def remarks(self) -> list[str]:
        """What the marks in it mean."""
        missed = [name for name in self.rows if name not in self.exact]
        remarks = ["* Only 16 bytes a parameter, because the model is not a single stack of transformer blocks."]
        named = [name for name, row in self.rows.items() if row["not_modelled"]]
        remarks += [f"Without cuDNN's workspaces, which the account names: {', '.join(named)}."] if named else []
        remarks += [f"No whole formula was found for {', '.join(missed)}."] if missed else []
        trackers = [(name, row["others"]["mem_tracker"]) for name, row in self.rows.items()]
        failed = [(name, tracker) for name, tracker in trackers if "fails" in tracker]
        return remarks + [f"MemTracker, {name}: {tracker.get('why', tracker['fails'])}." for name, tracker in failed]

    def _cells(self, name: str) -> list[str]:
        row = self.rows[name]
        form, others = row["formula"], row["others"]
        met = f"{form['n_met']} of {form['n_checks']}" if form.get("is_exact") else "not whole"
        return [
            name, f"{others['parameters']:,d}", f"{row['peak'] / MiB:,.1f}", met, str(form.get("n_runs", "")),
            str(form.get("seconds", "")), _percent(others["accelerate"]), _percent(others["mem_tracker"]),
            _percent(others["usual"]) + ("*" if "states_only" in others["usual"] else ""),
        ]  # fmt: skip

    def __repr__(self) -> str:
        cells = [self._cells(name) for name in self.rows]
        remarks = (fill(remark, 100, break_on_hyphens=False) for remark in self.remarks)
        return "\n".join([Table(self.title, HEAD, cells, numbers=8).text(), "", *remarks])

    def _repr_html_(self) -> str:
        cells = [self._cells(name) for name in self.rows]
        return Table(self.title, HEAD, cells, numbers=8).html() + "".join(f"<p>{remark}</p>" for remark in self.remarks)


@cache
def stored_table() -> ArchitectureTable:
    """The table as `python -m tools.architectures` stored it, in one run."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    return ArchitectureTable(stored["versions"], stored["architectures"])


def _percent(other: Mapping[str, Any]) -> str:
    return "fails" if "fails" in other else f"{other['percent']:+.1f}%"
