"""What is wrong with a run, in words: what each rule finds, one sentence for each."""

from collections.abc import Callable

from .collected_outputs import collected_outputs
from .finding import Finding
from .graphs_without_backward import graphs_without_backward
from .kept_checkpoint import kept_checkpoint
from .outliving_tensors import outliving_tensors
from .run import Run
from .slow_growth import slow_growth
from .varying_lengths import varying_lengths

RULES: tuple[Callable[[Run], Finding | None], ...] = (
    graphs_without_backward,
    collected_outputs,
    kept_checkpoint,
    outliving_tensors,
    slow_growth,
    varying_lengths,
)
_KEPT = "_findings"


def findings_of(run: Run) -> list[Finding]:
    """What the rules find, the most bytes first; they are asked once.

    Example: [finding.sentence for finding in findings_of(report)]
    """
    known: list[Finding] | None = run.__dict__.get(_KEPT)
    if known is None:
        asked = [rule(run) for rule in RULES] if run.holds_something else []
        known = sorted((one for one in asked if one is not None), key=lambda one: -one.n_bytes)
        run.__dict__[_KEPT] = known
    return known
