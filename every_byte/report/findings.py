"""What is wrong with a run, in words: what each rule finds, one sentence for each."""

from collections.abc import Callable

from .collected_outputs import collected_outputs
from .data_parallel import data_parallel
from .finding import Finding
from .float64 import float64
from .foreach_temporaries import foreach_temporaries
from .graphs_without_backward import graphs_without_backward
from .kept_checkpoint import kept_checkpoint
from .kept_gradients import kept_gradients
from .master_weights import master_weights
from .outliving_tensors import outliving_tensors
from .run import Run
from .slow_growth import slow_growth
from .spelt_out_attention import spelt_out_attention
from .two_models import two_models
from .two_optimizers import two_optimizers
from .varying_lengths import varying_lengths

RULES: tuple[Callable[[Run], Finding | None], ...] = (
    graphs_without_backward,
    collected_outputs,
    kept_checkpoint,
    outliving_tensors,
    slow_growth,
    varying_lengths,
    spelt_out_attention,
    kept_gradients,
    master_weights,
    two_models,
    two_optimizers,
    float64,
    foreach_temporaries,
    data_parallel,
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
