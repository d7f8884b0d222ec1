"""A leak that is too slow to matter for memory: a few bytes with each step, as where a list collects losses."""

from every_byte.palette import Category
from every_byte.units import exact

from .finding import Finding, named
from .run import Run


def slow_growth(run: Run) -> Finding | None:
    """What each step leaves more than the one before, where the verdict does not tell of it."""
    growth = run.slow_growth
    if growth is None:
        return None
    is_number = growth.largest.shape == ()
    graph = growth.largest.category == Category.ACTIVATIONS
    what = "keep .detach() of it" if graph else "keep numbers, loss.item()" if is_number else "see what collects it"
    where = f" in {growth.largest.module}" if growth.largest.module else ""
    return Finding(
        "slow growth",
        growth.n_bytes,
        f"Each step leaves {exact(growth.n_bytes)} more than the one before, above all {growth.largest.category}"
        f"{where} ({growth.largest.what}){named(run, growth.line, before=', ', after='')}: memory would last for "
        f"{growth.runs_out_at_step:,d} steps, and what grows is kept by something; {what}.",
        growth.line,
    )
