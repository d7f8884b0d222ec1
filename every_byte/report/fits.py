"""On which GPUs a run fits: what it asked for, asked again of an allocator of each one's size."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from every_byte.gpu.capacity import hangs_on_context, outcome_on, room_on
from every_byte.gpu.memory.contexts import Doubt
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.memory.specs import SPECS, GPUSpec
from every_byte.gpu.requests import ROOMY_BYTES, Requests
from every_byte.ledger.trace import Trace
from every_byte.progress import tell

from .place import Place
from .steps import Step, turns_of

REPEATED = "the last step again and again until it changes nothing, then what came after it"
IN_TURN = (
    "the last {n} steps, one of each optimizer, again and again until they change nothing, then what came after them"
)
UNSETTLED = "; it kept changing where things lie, so that with more steps it may need more"
UP_TO_AN_ERROR = "what it asked for up to where it ended, before its first step was done: it may need more"
ONCE = "what it asked for, once: no last step that leaves what it found, to be repeated"
UP_TO_A_REFUSAL = "what it asked for up to where memory ran out: it may need more"
_TEXT = "PYTORCH_CUDA_ALLOC_CONF"


@dataclass(frozen=True)
class Verdict:
    """Whether a run fits on one GPU.

    Counts: `needed_bytes` is what segments take at most; where it does not fit, what they take where there is room for
            all. `in_use_bytes` is what blocks take at once, without which it does not go. `is_cut_up`: there would be
            room for that, but no free piece is large enough. `room_bytes` is what there is for segments: `total_bytes`,
            less `context_bytes`, which are assumed; `context_range_bytes` was published, and with `hangs_on_context`
            an end of it would turn the verdict. `is_alike`: of the architecture it ran on, so of the same requests.
            `n_retries`: how often unused segments had to go back to the driver first. `runs_out`, of one that is cut
            up: where, within a sentence.
    Unit:   bytes.
    """

    gpu: str
    device_name: str
    total_bytes: int
    context_bytes: int
    room_bytes: int
    is_alike: bool
    needed_bytes: int
    in_use_bytes: int
    fits: bool
    n_retries: int = 0
    runs_out: str = ""
    context_range_bytes: tuple[int, int] | None = None
    hangs_on_context: bool = False

    @property
    def doubt(self) -> Doubt:
        """What the verdict owes to the CUDA context that it assumes."""
        return Doubt.of_verdict(self)

    @property
    def is_cut_up(self) -> bool:
        """Whether what is in use at once would fit, and no free piece holds what is asked for."""
        return bool(self.runs_out)

    @property
    def margin_bytes(self) -> int:
        """What stays free; negative: what is missing, at least."""
        least_bytes = self.needed_bytes if self.fits or self.is_cut_up else self.in_use_bytes
        return self.room_bytes - least_bytes


@dataclass(frozen=True)
class Fits:
    """A verdict for each GPU, the run's own first, and what they are of: of the sentences above."""

    verdicts: tuple[Verdict, ...]
    basis: str

    @property
    def own(self) -> Verdict:
        """Of the GPU on which it ran."""
        return self.verdicts[0]

    @property
    def is_partial(self) -> bool:
        """Whether more might be asked for than is known."""
        return self.basis in (UP_TO_A_REFUSAL, UP_TO_AN_ERROR)


ON_PYPI = tuple(card for card in SPECS.values() if card.compiled_for)
"""The GPUs on which PyTorch's builds run."""


def fits_on(
    trace: Trace,
    steps: Sequence[Step],
    own: GPUSpec,
    refused_at: int | None = None,
    settings: AllocatorSettings | None = None,
    others: Iterable[GPUSpec] = ON_PYPI,
) -> Fits:
    """Whether the requests of a run fit on its own GPU, and on each of `others`, all that PyTorch's builds run on.

    `refused_at` is the position of the request for which there was no room, if the run ended with it. `settings` are
    the allocator's, on each GPU; None for those that the trace tells of.

    Counts: the requests of the GPU it ran on: another architecture has other workspaces and kernels.
    """
    run, basis = _requests(trace, steps, refused_at, settings or settings_of(trace))
    tell(f"asking for the same where there is room for all, {len(trace):,d} allocations and frees")
    roomy = run.replay(ROOMY_BYTES, ROOMY_BYTES)
    if not roomy.is_settled:
        basis += UNSETTLED
    in_use_bytes = run.peak_bytes
    others = [other for other in others if other.name != own.name]
    verdicts = []
    for number, spec in enumerate(judged := _by_size(own, others), start=1):
        tell(f"asking for the same on {spec.name}, {number} of {len(judged)} GPUs")
        room_bytes, _ = room_on(spec, run.settings)
        is_alike = spec.capability == own.capability
        outcome = outcome_on(spec, run, roomy) if in_use_bytes <= room_bytes else None
        fits = outcome is not None and outcome.failed_at is None
        failed_at = outcome.failed_at if outcome else None
        verdicts.append(
            Verdict(
                spec.name,
                spec.device_name,
                spec.total_bytes,
                spec.context_bytes,
                room_bytes,
                is_alike,
                outcome.max_reserved_bytes if outcome and fits else roomy.max_reserved_bytes,
                in_use_bytes,
                fits,
                outcome.n_retries if outcome else 0,
                "" if failed_at is None else Place.of(trace, steps, failed_at + 1).at,
                context_range_bytes=spec.context_range_bytes,
                hangs_on_context=hangs_on_context(spec, run, roomy, fits),
            )
        )
    return Fits(tuple(verdicts), basis)


def settings_of(trace: Trace, memory_fraction: float | None = None) -> AllocatorSettings:
    """The allocator's settings that a trace tells of; the defaults where it tells of none.

    `memory_fraction` is what the program has let segments take of the GPU's whole memory, of which no trace tells:
    `torch.cuda.set_per_process_memory_fraction` counts, and not the fraction that the settings had at first.
    """
    found = AllocatorSettings.parse(settings_text(trace))
    return found if memory_fraction is None else replace(found, per_process_memory_fraction=memory_fraction)


def settings_text(trace: Trace) -> str:
    """The same as PYTORCH_ALLOC_CONF has them; "" for the defaults."""
    return (trace.allocator_settings or {}).get(_TEXT) or ""


def _by_size(own: GPUSpec, others: Iterable[GPUSpec]) -> list[GPUSpec]:
    return [own, *sorted(others, key=lambda spec: -spec.total_bytes)]


def _requests(
    trace: Trace, steps: Sequence[Step], refused_at: int | None, settings: AllocatorSettings
) -> tuple[Requests, str]:
    if refused_at is not None:
        return Requests.once(trace, settings, refused_at), UP_TO_A_REFUSAL
    if steps:
        n = turns_of(steps)
        n = n if len({step.optimizers for step in steps[-n:]}) == n else 1
        basis = REPEATED if n == 1 else IN_TURN.format(n=n)
        try:
            return Requests.of(trace, steps[-n].begin - 1, steps[-1].end, settings, with_rest=True), basis
        except ValueError:  # it is not steady
            pass
    return Requests.once(trace, settings), ONCE
