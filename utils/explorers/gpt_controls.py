"""What explorers of a GPT's step share: controls of its model and tokens, a limit of formulas, verdicts, a timeline."""

from collections.abc import Callable
from functools import cache

from every_byte.gpu.capacity import Fit
from every_byte.gpu.operators.indexing import FEW_INDICES
from every_byte.widget import Control, Limit, Timeline
from utils.experiments.step_run import StepRun
from utils.models.gpt import SIZES, letters

LETTERS = {name: {letter: letters(name)[letter] for letter in "dLaV"} for name in SIZES}
MANY_TOKENS = Limit(
    f"{FEW_INDICES} - b*s", f"for more than {FEW_INDICES:,} tokens its kernel sorts them, in buffers of its own."
)
"""Of the backward of the embedding."""


def model_and_tokens(**more_letters: dict[str, int]) -> list[Control]:
    """The controls of the model and of its input; `more_letters` are {letter: {model: number}}."""
    numbers = {
        name: sizes | {letter: of_model[name] for letter, of_model in more_letters.items()}
        for name, sizes in LETTERS.items()
    }
    return [
        Control.choice("model", "model", list(SIZES), letters=numbers),
        Control.range("b", "batch", 1, 128, value=12, log=True, unit="sequences"),
        Control.range("s", "sequence", 16, 16384, value=1024, log=True, unit="tokens"),
    ]


def judge_of(run: StepRun) -> Callable[[str], Fit] | None:
    """Whether a run fits, by any of `ALLOCATORS`, as an `Account` takes it; None of a measured one, which did."""

    def judge(settings: str) -> Fit:
        fit = run.fit(settings)
        assert fit is not None
        return fit

    return None if run.trace.origin == "measured" else cache(judge)


def timeline_of(run: StepRun) -> Timeline:
    """The step of a run, event by event."""
    return Timeline.of(
        run.trace,
        after=run.after,
        until=run.until,
        named=run.positions,
        capacity_bytes=run.step.spec.allocator_bytes,
    )
