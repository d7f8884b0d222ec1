"""Writes tests/reference/2.13.0/compiled_steps.json: GPT-2 small's step, eager, compiled, and by the compiler's budget.

python -m tools.compiled_steps          all of them; half an hour: the compiler works a minute or two for each
"""

import sys
import warnings

from every_byte.whole_files import write_whole
from utils.experiments.compiled_step import BUDGETS, STORED, peaks_table, run, told


def main() -> int:
    """Run each, print it, and store all."""
    warnings.simplefilter("ignore")
    ways = [(None, True), *((budget, True) for budget in BUDGETS), (1.0, False)]
    steps = []
    for budget, returns_logits in ways:
        steps.append(run(budget, returns_logits=returns_logits))
        print(peaks_table(steps[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    write_whole(STORED, told(steps) + "\n")
    print(peaks_table(steps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
