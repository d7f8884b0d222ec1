"""A checkpoint that stays on the GPU after the model and the optimizer have taken over what it holds."""

from collections import Counter

from every_byte.ledger.rows import Row
from every_byte.palette import Category
from every_byte.units import exact

from .finding import SMALL, Finding, named
from .run import Run

_READERS = (("torch/serialization.py", "load"), ("safetensors/torch.py", "load_file"))
_LIKE = 2  # one in so many of its tensors has the size of a parameter or of what an optimizer keeps of one


def kept_checkpoint(run: Run) -> Finding | None:
    """What `torch.load` put on the GPU and is still there at the instant that matters, though nothing has used it.

    Counts: tensors of no module and no optimizer, from a file half of whose tensors, at least, are as large as a
            parameter; only where a module has run since.
    """
    loaded = [row for row in run.account.rows if row.category == Category.OTHER_TENSORS and _is_loaded(run, row)]
    n_bytes = sum(row.n_bytes + row.slack_bytes for row in loaded)
    if not loaded or n_bytes * SMALL < run.account.allocated_bytes or not _has_run_since(run, loaded):
        return None
    sizes = {row.n_bytes for row in run.account.rows if row.category == Category.PARAMETERS}
    if sum(row.n_bytes in sizes for row in loaded) * _LIKE < len(loaded):
        return None
    lines = Counter(row.line for row in loaded if row.line is not None)
    line = lines.most_common(1)[0][0] if lines else None
    return Finding(
        "kept checkpoint",
        n_bytes,
        f"A checkpoint that was loaded{named(run, line)} still has {exact(n_bytes)} on the GPU: load it with "
        'map_location="cpu", or del it once the model and the optimizer have taken it over.',
        line,
    )


def _is_loaded(run: Run, row: Row) -> bool:
    stack = run.trace.attribution().made[row.allocation].stack
    return any(stack.passes(file, function) for file, function in _READERS)


def _has_run_since(run: Run, loaded: list[Row]) -> bool:
    made_at = run.trace.attribution().made_at
    last = max(made_at[row.allocation] for row in loaded)
    until = run.fatal.position if run.fatal else run.peak_position
    return any(kind == "forward" and last < start < until for start, _, kind in run.trace.owners.spans)
