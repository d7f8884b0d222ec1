"""The fewest FLOPs that anything can run again that holds so many bytes, also where it runs nothing without need."""

import numpy
from scipy.optimize import Bounds, LinearConstraint, milp

from every_byte.remedies.operations import Region


def least_flops(region: Region, budget_bytes: int) -> int:
    """What a compiler may leave out, selective checkpointing runs: what nothing needs.

    minimise   sum of flops[i] * run[i]
    such that  sum of bytes[j] * held[j] <= budget,
               held[j] + run[maker of j] >= 1 for each j that backward needs,
               held[j] + run[maker of j] >= run[i] for each j that call i reads.

    Counts: single storages are held, not all outputs of a call; random calls and what is changed in place run at will.
            For regions whose sizes lie within some orders of magnitude: the solver computes in floating point.
    """
    operations, sizes = region.operations, region.storage_bytes
    makers = {storage: i for i, one in reversed(list(enumerate(operations))) for storage in one.made - one.read}
    held = {storage: len(operations) + i for i, storage in enumerate(sizes)}
    rows = [({held[s]: 1, makers[s]: 1}, 1) for s in region.saved]
    rows += [({held[s]: 1, makers[s]: 1, i: -1}, 0) for i, one in enumerate(operations) for s in one.read]
    largest = max(1, *sizes.values())
    rows.append(({held[s]: -size / largest for s, size in sizes.items()}, -budget_bytes / largest))
    matrix = numpy.zeros((len(rows), len(operations) + len(sizes)))
    for row, (factors, _) in zip(matrix, rows, strict=True):
        row[list(factors)] = list(factors.values())
    weights = numpy.array([one.flops for one in operations] + [0] * len(sizes), dtype=float)
    found = milp(
        weights / max(1, weights.max()),
        integrality=numpy.ones_like(weights),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, lb=[least for _, least in rows]),
        options={"mip_rel_gap": 0},
    )
    assert found.status == 0, found.message  # to hold everything, or to run everything, is always possible
    return sum(one.flops for one, run in zip(operations, found.x, strict=False) if run > 0.5)
