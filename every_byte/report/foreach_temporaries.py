"""A peak in the optimizer's step, made by temporaries of its foreach implementation, as large as the parameters."""

from every_byte.palette import Category
from every_byte.rounding import round_size
from every_byte.units import exact

from .finding import Finding, named
from .run import Run

_FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
_SMALL = 20  # a peak that falls by less than so much is not worth a line
_MUCH = 2  # of a run that takes less than one in so much of the room, no peak is to be lowered
_FOREACH = "aten::_foreach_"


def foreach_temporaries(run: Run) -> Finding | None:
    """By how much the peak would be lower without these temporaries, in the optimizer's step as before it.

    Counts: results of `_foreach_` operators that the step makes and frees again. The bytes are a difference: the peak
            less the most that is ever in use without them, and less the counters of a fused step.
    """
    position = run.fatal.position if run.fatal else run.peak_position
    if run.place(position).phase != "step" or run.account.allocated_bytes * _MUCH < run.room_bytes:
        return None
    rows = [row for row in run.account.rows if row.category == Category.TEMPORARIES and _is_foreach(row.operation)]
    if not rows:
        return None
    names = [name for name in run.trace.owners.optimizers if name in _FUSED]
    saved_bytes = run.account.allocated_bytes - _most_without(run) - _counters(run) * bool(names)
    if saved_bytes * _SMALL < run.account.allocated_bytes:
        return None
    line = next((row.line for row in rows if row.line is not None), None)
    switch = f"{names[0]}(…, fused=True)" if names else "foreach=False"
    then = f"fall by {exact(saved_bytes)}"
    return Finding(
        "foreach temporaries",
        saved_bytes,
        f"The peak is in the optimizer's step{named(run, line)}: its foreach implementation makes temporaries as large "
        f"as the gradients. With {switch}, which makes none, the peak would {then}.",
        line,
    )


def _is_foreach(operation: str) -> bool:
    return operation.startswith("_foreach_")


def _counters(run: Run) -> int:
    """The steps that a fused Adam counts on the GPU, a block for each parameter; the foreach one does so on the CPU."""
    names = [row.name for row in run.account.rows if row.category == Category.OPTIMIZER_STATE]
    if any(name.endswith(".step") for name in names):
        return 0
    return round_size(4) * sum(name.endswith(".exp_avg") for name in names)


def _most_without(run: Run) -> int:
    """The most that is ever in use, less these temporaries."""
    most = now = 0
    counted: dict[int, int] = {}
    for event in run.trace.events[: run.fatal.position if run.fatal else None]:
        if event.action == "alloc":
            is_one = event.phase == "step" and event.operation.startswith(_FOREACH)
            if is_one and event.allocation not in run.trace.owners.kept_by:  # else it is state
                continue
            counted[event.allocation] = event.block_bytes or event.n_bytes
            now += counted[event.allocation]
            most = max(most, now)
        elif event.action == "free":
            now -= counted.pop(event.allocation, 0)
    return most
