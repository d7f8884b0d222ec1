"""Writes tests/reference/2.13.0/compiled_steps.json: GPT-2 small's step, eager, compiled, and by the compiler's budget.

python -m tools.compiled_steps               all of them; half an hour: the compiler works a minute or two for each
python -m tools.compiled_steps --missing     goes on where it was interrupted
"""

import argparse
import sys
import warnings

from every_byte.whole_files import write_whole
from utils.experiments.compiled_step import BUDGETS, STORED, WAYS, CompiledStep, peaks_table, run, stored, told

BY_BLOCK = (1.0, 0.5, 0.0)
ALL = [(None, WAYS[0]), *((budget, WAYS[0]) for budget in BUDGETS), (1.0, WAYS[1]), *((n, WAYS[2]) for n in BY_BLOCK)]


def main(argv: list[str] | None = None) -> int:
    """Run each, print it, and store it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--missing", action="store_true", help="those alone that are not stored")
    arguments = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    known = {(one.budget, one.way): one for one in stored()} if arguments.missing and STORED.is_file() else {}
    steps: list[CompiledStep] = []
    for way in ALL:
        steps.append(known.get(way) or run(*way))
        print(peaks_table(steps[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
        if way not in known:
            write_whole(STORED, told(steps) + "\n")
    print(peaks_table(steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
