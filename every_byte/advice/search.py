"""The search for advice: each remedy that can be applied, run; the best together; and what fits."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from every_byte.gpu.capacity import room_on
from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.memory.specs import GPUSpec, spec_here
from every_byte.step.training_step import TrainingStep
from every_byte.units import number_of_bytes

from . import loop
from .advice import Advice
from .ladder import in_fewer_parts, ladder, pairs
from .largest import Largest
from .loss import chunked_loss
from .optimizers import optimizers
from .regions import apart_from_double, checkpoints, n_regions, repeated_in
from .remedy import DoesNotApply, Left, Offer, Remedy, name_of
from .runs import Bench, Ran, made_once, quiet, with_as_many_flops
from .selective import selective, selective_within

SHARES = 0.25, 0.5


@quiet()
def advice_for(
    step: TrainingStep,
    n_steps: int,
    settings: str,
    gpu: str | GPUSpec,
    budget: int | str | None = None,
    sizes: bool = True,
) -> Advice:
    """Run a step plainly, then with each remedy, the best two together, and more of them until it fits.

    With `sizes`, the largest batch and the longest sequence are looked for, which takes as long again.

    Raises: ValueError for a budget that is no size; whatever the plain step raises.
    """
    bench, step = bench_of(gpu, n_steps, settings, budget), made_once(step)
    plain = bench.run(step)
    running = _Running(bench, step, plain)
    singles, double = apart_from_double(running.all(offers(step, bench)))
    running.left += double
    if within := _what_the_budget_leaves(plain, singles, step):
        singles += running.all([selective_within(bench.spec, within)])
    found = [*singles, *pairs(singles, running.together), *ladder(plain, singles, running.together)]
    advice = _of(bench, plain, found, running.left)
    for best in filter(None, (advice.best_of_same_values, advice.best_of_other_values)):
        found += in_fewer_parts(best, singles, running.together)
    advice = _of(bench, plain, found, running.left)
    return replace(advice, sizes=tuple(_sizes(advice))) if sizes else advice


def _of(bench: Bench, plain: Ran, found: list[Ran], left: list[Left]) -> Advice:
    runs = {ran.name: ran for ran in found}
    return Advice(bench, plain, tuple(sorted(runs.values(), key=lambda ran: ran.peak_bytes)), tuple(left))


def _sizes(advice: Advice) -> Iterator[tuple[str, Largest]]:
    """The largest batch and the longest sequence, plainly, and with what is recommended, or has the lowest peak.

    Where the plain step fits, that is the lowest peak of those that leave the numbers as they are.
    """
    step = advice.plain.step
    letters = [letter for letter in (loop.batch_letter(step), loop.sequence_letter(step)) if letter]
    recommended = advice.best or advice.lowest
    if recommended is advice.plain:
        same = [ran for ran in (advice.plain, *advice.runs) if ran.keeps_values]
        recommended = min(same, key=lambda ran: ran.peak_bytes)
    for ran in {ran.name: ran for ran in (advice.plain, recommended)}.values():
        for letter in letters:
            yield ran.name, advice.largest(letter, ran)


def bench_of(gpu: str | GPUSpec, n_steps: int, settings: str, budget: int | str | None) -> Bench:
    """Where to run, and the room: what a GPU has for segments, or a budget."""
    spec = spec_here(gpu)
    room_bytes, _ = room_on(spec, AllocatorSettings.parse(settings))
    return Bench(spec, room_bytes if budget is None else bytes_of(budget), n_steps, settings)


def offers(step: TrainingStep, bench: Bench) -> list[Offer]:
    """All that might be applied to a step."""
    model = step._model()
    found = [*checkpoints(model)]
    if repeated_in(model):
        found += [selective(bench.spec, share) for share in SHARES]
    found += [chunked_loss(bench.spec), *optimizers(step, bench.spec), *loop.precisions(step, bench.spec)]
    return [*found, *loop.micro_batches(step, bench.spec), *loop.settings(bench.settings)]


def bytes_of(budget: int | str) -> int:
    """A number of bytes, or a text such as "24GiB".

    Raises: ValueError for what is neither.
    """
    n_bytes = number_of_bytes(budget)
    if n_bytes is None:
        raise ValueError(f'budget must be bytes or a size such as "24GiB": got {budget!r}; units are B, KiB, MiB, GiB.')
    return n_bytes


class _Running:
    """Runs remedies, and keeps why some could not be."""

    def __init__(self, bench: Bench, step: TrainingStep, plain: Ran) -> None:
        self.left: list[Left] = []
        self._plain = plain
        self._run: Callable[[tuple[Remedy, ...]], Ran] = lambda remedies: bench.run(step, remedies)

    def all(self, offered: list[Offer]) -> list[Ran]:
        self.left += [one for one in offered if isinstance(one, Left)]
        return [ran for one in offered if isinstance(one, Remedy) and (ran := self.together((one,)))]

    def together(self, remedies: tuple[Remedy, ...]) -> Ran | None:
        try:
            return with_as_many_flops(self._run(remedies), self._plain)
        except DoesNotApply as reason:
            said = str(reason)
        except Exception as error:  # a reader's model may refuse a remedy in any way
            said = f"it was tried and failed: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        self.left.append(Left(name_of(remedies), said))
        return None


def _what_the_budget_leaves(plain: Ran, singles: list[Ran], step: TrainingStep) -> int:
    """For each region, beside its checkpoint; 0 where checkpoints do not fit, or are not needed."""
    of_regions = [ran for ran in singles if ran.remedies[0].name.startswith("checkpoint")]
    lowest = min(of_regions, key=lambda ran: ran.needed_bytes, default=None)
    if lowest is None or plain.fits or not lowest.fits:
        return 0
    n = n_regions(repeated_in(step._model()))
    return (lowest.room_bytes - lowest.needed_bytes) // max(1, n)
