"""Runs chapter 6's program on several real GPUs that exchange over NCCL, next to the simulation of one of them.

    torchrun --standalone --nproc-per-node=2 -m utils.experiments.live_ranks

Rank 0 prints what it measured. No one has run this on two cards yet. NCCL's own buffers are outside
the caching allocator, so no figure includes them.
"""

import os
import sys
from functools import partial

from every_byte.gpu.side_by_side import live_beside_simulated

from .rank_steps import split_and_sharded


def main() -> int:
    """Run as one of the processes that torchrun started; returns 2 if it did not start several."""
    n = int(os.environ.get("WORLD_SIZE", 1))
    if n < 2:
        print(
            "it takes ranks: torchrun --standalone --nproc-per-node=2 -m utils.experiments.live_ranks", file=sys.stderr
        )
        return 2
    found = live_beside_simulated(partial(split_and_sharded, n=n))
    if os.environ["RANK"] == "0":
        print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
