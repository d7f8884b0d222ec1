"""A model in `nn.DataParallel`: one process for all GPUs, of which the first one has to hold the most."""

from every_byte.palette import Category
from every_byte.units import exact

from .finding import Finding, named
from .run import Run


def data_parallel(run: Run) -> Finding | None:
    """That a program wraps a model so; one GPU is simulated, and of several the first needs more than that shows.

    Counts: the parameters, which each forward copies to every other GPU.
    """
    made = run.trace.notes.data_parallel
    if not made:
        return None
    line = next(iter(made))
    n_bytes = run.account.parts.get(Category.PARAMETERS, 0)
    return Finding(
        "data parallel",
        n_bytes,
        f"nn.DataParallel{named(run, line)} serves all GPUs from one process: each forward copies "
        f"{exact(n_bytes)} of parameters to every other GPU, and the first one also gathers the results and sums the "
        "gradients, so that it fills first. Here it had one GPU and the whole batch. Use DistributedDataParallel, a "
        "process for each GPU: every-byte run --ranks 2 runs one of them.",
        line,
    )
