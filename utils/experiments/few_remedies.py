"""Advice from a few remedies that one names, where the whole search would take too long."""

from every_byte.account.of_model import Account
from every_byte.advice.advice import Advice
from every_byte.advice.remedy import Remedy
from every_byte.advice.runs import made_once, quiet
from every_byte.advice.search import bench_of, offers


@quiet()
def advice_from(mine: Account, *names: str) -> Advice:
    """As `mine.advice()` on its own GPU, but only the plain step and the remedies of these names are run, each alone.

    Raises: ValueError for a name that `advice` would not try; DoesNotApply for a remedy that cannot be applied.
    Example: advice_from(mine, "2 micro-batches", "loss in 8 chunks")
    """
    bench, step = bench_of(mine.report.spec, mine.n_steps, mine.settings, None), made_once(mine.step)
    offered = {one.name: one for one in offers(step, bench) if isinstance(one, Remedy)}
    if unknown := [name for name in names if name not in offered]:
        raise ValueError(f"names must be among {', '.join(offered)}: got {unknown[0]!r}.")
    found = [bench.run(step, (offered[name],)) for name in names]
    return Advice(bench, bench.run(step), tuple(sorted(found, key=lambda ran: ran.peak_bytes)), ())
