"""Writes tests/reference/2.13.0/architectures.json: what public architectures take, beside what others say of them.

python -m tools.architectures                  all of them; so many at a time as --jobs says
python -m tools.architectures Llama BERT       these, and prints them; writes nothing
python -m tools.architectures --missing        goes on where it was interrupted

It wants transformers and accelerate, as the extra `zoo` brings both, and no network. Seconds depend on the machine.
"""

import argparse
import gc
import json
import logging
import os
import sys
import warnings
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

import torch  # noqa: E402

from every_byte.whole_files import write_whole  # noqa: E402
from tools.whole_files import plainly  # noqa: E402
from utils.experiments.architecture_rows import row_of, versions  # noqa: E402
from utils.experiments.architecture_table import STORED, ArchitectureTable  # noqa: E402
from utils.experiments.architectures import ARCHITECTURES  # noqa: E402


def main(argv: list[str] | None = None) -> int:
    """Account for each, print the table, and store all if it is all; 1 if a formula is not exact."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="by default all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--missing", action="store_true", help="those alone that are not stored of these versions")
    arguments = parser.parse_args(argv)
    if unknown := [name for name in arguments.names if name not in ARCHITECTURES]:
        parser.error(f"NAME must be one of {', '.join(ARCHITECTURES)}: got {unknown[0]!r}.")
    rows = _stored() if arguments.missing else {}
    wanted = arguments.names or [name for name in ARCHITECTURES if name not in rows]
    with get_context("spawn").Pool(arguments.jobs, initializer=_quiet, maxtasksperchild=4) as pool:
        for name, row in pool.imap_unordered(_row, wanted):
            rows[name] = row
            print(name, "formula:", row["formula"], file=sys.stderr, flush=True)
            if not arguments.names:
                _store(rows)
    rows = {name: rows[name] for name in ARCHITECTURES if name in rows}
    print(ArchitectureTable(versions(), rows))
    return 0 if all(row["formula"].get("is_exact") for row in rows.values()) else 1


def _stored() -> dict[str, dict]:
    """What is stored of the same versions, and of the same sizes."""
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    if stored.get("versions") != versions():
        return {}
    known = {name: row for name, row in stored["architectures"].items() if name in ARCHITECTURES}
    return {name: row for name, row in known.items() if row["letters"] == dict(ARCHITECTURES[name].letters)}


def _store(rows: dict[str, dict]) -> None:
    ordered = {name: rows[name] for name in ARCHITECTURES if name in rows}
    found = {"versions": versions(), "architectures": ordered}
    write_whole(STORED, json.dumps(found, indent=1) + "\n")


def _row(name: str) -> tuple[str, dict]:
    ARCHITECTURES[name].maker()
    gc.collect()
    gc.freeze()  # a look at a ledger passes over what libraries have made: it takes half as long
    return name, row_of(name)


def _quiet() -> None:
    """What libraries say of models so small, and of fake tensors, is no concern of the table."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)


if __name__ == "__main__":
    sys.exit(plainly(main))
