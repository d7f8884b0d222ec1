"""The closed form of a training on batches of varying length, held to the ledger at the peak of the simulated run."""

from collections import Counter

import pytest

from every_byte.gpu.memory.specs import find_spec
from every_byte.ledger.rows import rows_at
from utils.experiments.varying_lengths import D, trace_of
from utils.formulas.varying_lengths import lengths_peak


@pytest.mark.parametrize("s", [1400, 3840, 5760, 6720, 10_000])
def test_it_is_the_ledger_at_the_peak(s):
    trace = trace_of(s)
    found = Counter()
    for row in rows_at(trace, trace.peak_position()):
        found[row.category] += row.n_bytes
    workspace_bytes = find_spec("a100-80gb").cublas_workspace_bytes
    assert lengths_peak(d=D, workspace_bytes=workspace_bytes).by_term(s=s) == found
