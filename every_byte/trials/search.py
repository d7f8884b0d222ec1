"""The search for advice on a script: each remedy run alone, the best together, and the largest batch that fits."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from typing import Any

from every_byte.advice.advice import Advice
from every_byte.advice.ladder import ladder, pairs
from every_byte.advice.largest import Largest, largest
from every_byte.advice.loss import NAME
from every_byte.advice.remedy import DoesNotApply, Left, Offer, Remedy, name_of, together
from every_byte.advice.runs import Bench, Ran, with_as_many_flops
from every_byte.gpu.memory.specs import GPUSpec

from . import heads
from .offers import offers
from .processes import AT_ONCE, Failed, NoTime, Processes
from .script import Script
from .seen import Seen

BATCH, TRAINER_BATCH = "batch_size", "per_device_train_batch_size"
NO_TIME = "there was no time left"
Tell = Callable[[Ran[Script] | Left], None]


@dataclass
class Tried:
    """What was run of a script, for as long as there was time: `took` has each run's figures by its name.

    `seen` is what the plain run did. `is_whole`: all was run that was to be run.
    """

    script: Script
    plain: Ran[Script]
    bench: Bench
    seen: Seen
    took: dict[str, dict[str, Any]]
    runs: dict[str, Ran[Script]] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)
    sizes: list[tuple[str, Largest]] = field(default_factory=list)
    is_whole: bool = True

    @property
    def advice(self) -> Advice[Script]:
        """What is advised after all that was run so far."""
        runs = sorted(self.runs.values(), key=lambda ran: ran.peak_bytes)
        return Advice(self.bench, self.plain, tuple(runs), tuple(self.left), tuple(self.sizes))


def tried_plainly(script: Script, spec: GPUSpec, processes: Processes) -> Tried:
    """The program run as it is.

    Raises: Failed with its error in a line; NoTime; KeyboardInterrupt.
    """
    took = processes.start(script, looks="around").result()
    plain = _ran((), Script(script.words), took["settings"], "", took)
    bench = Bench(spec, took["room_bytes"], took["n_steps"], took["settings"])
    return Tried(script, plain, bench, Seen(**took["seen"]), {plain.name: took})


def try_all(tried: Tried, processes: Processes, tell: Tell) -> None:
    """Run all that can be applied, and note it in `tried`; Ctrl-C, or the end of the time, keeps what is there.

    `tell` gets each run when it is over, and what was left out.
    """
    trying = _Trying(tried, processes, tell)
    try:
        offered = offers(tried.seen, tried.bench.spec, tried.bench.settings)
        looking = processes.start(tried.script, tried.bench.settings, looks="for the head")
        singles = [*trying.all_alone(offered), *trying.all_alone([_of_head(looking)])]
        for _ in (*pairs(singles, trying.run), *ladder(tried.plain, singles, trying.run)):
            pass
        _find_sizes(tried, processes, tell)
    except KeyboardInterrupt:
        processes.stop()
    tried.is_whole = processes.left_s > 0


class _Trying:
    """Runs remedies, and keeps why some could not be."""

    def __init__(self, tried: Tried, processes: Processes, tell: Tell) -> None:
        self._tried, self._processes, self._tell = tried, processes, tell

    def all_alone(self, offered: list[Offer[Script]]) -> list[Ran[Script]]:
        """Those of one remedy, in the order in which they were offered."""
        for one in offered:
            if isinstance(one, Left):
                self._leave(one.name, one.reason)
        running = {self._start((one,)): (one,) for one in offered if isinstance(one, Remedy)}
        found = {name_of(running[future]): self._ended(running[future], future) for future in as_completed(running)}
        return [ran for one in offered if (ran := found.get(one.name))]

    def run(self, remedies: tuple[Remedy[Script], ...]) -> Ran[Script] | None:
        """Several together; None where they could not be run, or there was no time."""
        name = name_of(remedies)
        if name in self._tried.runs or any(one.name == name for one in self._tried.left):
            return self._tried.runs.get(name)
        return self._ended(remedies, self._start(remedies))

    def _start(self, remedies: tuple[Remedy[Script], ...]) -> Future[dict[str, Any]]:
        changed = together(remedies, self._tried.script, self._tried.bench.settings)
        return self._processes.start(changed.step, changed.settings)

    def _ended(self, remedies: tuple[Remedy[Script], ...], future: Future[dict[str, Any]]) -> Ran[Script] | None:
        tried, name = self._tried, name_of(remedies)
        changed = together(remedies, tried.script, tried.bench.settings)
        try:
            took = future.result()
            ran = with_as_many_flops(_ran(remedies, changed.step, changed.settings, changed.lines, took), tried.plain)
        except NoTime:
            reason = NO_TIME
        except DoesNotApply as why:
            reason = str(why)
        except Failed as error:
            reason = f"it was tried and failed: {error}"
        else:
            tried.runs[name], tried.took[name] = ran, took
            self._tell(ran)
            return ran
        self._leave(name, reason)
        return None

    def _leave(self, name: str, reason: str) -> None:
        left = Left(name, reason)
        self._tried.left.append(left)
        self._tell(left)


def _of_head(looking: Future[dict[str, Any]]) -> Offer[Script]:
    try:
        return heads.offer(looking.result()["found"])
    except NoTime:
        return Left(NAME, NO_TIME)
    except Failed as error:
        return Left(NAME, f"its head was looked for, and the program failed: {error}")


def _ran(
    remedies: tuple[Remedy[Script], ...], script: Script, settings: str, lines: str, took: dict[str, Any]
) -> Ran[Script]:
    return Ran(
        remedies, script, settings, lines, took["peak_bytes"], took["needed_bytes"], took["room_bytes"], took["fits"],
        took["flops"], took["is_exact"],
    )  # fmt: skip


# ---- the largest batch


def _find_sizes(tried: Tried, processes: Processes, tell: Tell) -> None:
    """The largest batch that fits, plainly and with what is recommended, or has the lowest peak; side by side."""
    if reason := _against_sizes(tried.seen):
        tried.left.append(Left("largest batch", reason))
        return tell(tried.left[-1])
    advice = tried.advice
    chosen = {ran.name: ran for ran in (advice.plain, advice.best_of_same_values or advice.best or advice.lowest)}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda ran: _largest(tried, ran, processes), chosen.values())
        for name, largest_batch in zip(chosen, found):
            if isinstance(largest_batch, Largest):
                tried.sizes.append((name, largest_batch))
            else:
                tried.left.append(Left(f"largest batch, {name}", largest_batch))
                tell(tried.left[-1])


def _against_sizes(seen: Seen) -> str:
    """Why the batch cannot be cut from outside; "" if it can."""
    if seen.trainer:
        return ""
    if seen.loader < 0:
        return "no DataLoader gave the model its batch, and which size of what it got is the batch is not ours to guess"
    if seen.batch_size < 1:
        return "the DataLoader has a sampler of batches, and no batch_size"
    return ""


def _largest(tried: Tried, ran: Ran[Script], processes: Processes) -> Largest | str:
    """The largest batch_size of the DataLoader that fits; why it was not found, if there was no time."""
    fits: dict[int, bool] = {}
    exact: list[bool] = []
    seen = tried.seen
    letter = TRAINER_BATCH if seen.trainer else BATCH
    start = seen.trainer[letter] if seen.trainer else seen.batch_size

    def need(value: int) -> tuple[bool, int, int]:
        of_loader = ran.step.with_change("batch size", loader=seen.loader, size=value)
        sized = ran.step.with_change("trainer arguments", **{letter: value}) if seen.trainer else of_loader
        try:
            took = processes.start(sized, ran.settings, looks="around").result()
        except Failed as error:
            raise ValueError(str(error)) from None
        if took["seen"]["rows"] < value:
            raise ValueError(f"the data has no more than {took['seen']['rows']:,d} rows for a batch")
        fits[value] = took["fits"]
        exact.append(took["is_exact"])
        return took["fits"], took["needed_bytes"], took["room_bytes"]

    try:
        return replace(largest(letter, start, 1, need), is_exact=all(exact))
    except NoTime:
        return ", ".join([NO_TIME, *_so_far(letter, fits)])


def _so_far(letter: str, fits: dict[int, bool]) -> Iterator[str]:
    if largest_fitting := max((value for value in fits if fits[value]), default=0):
        yield f"{letter}={largest_fitting:,d} fits"
    if smallest_other := min((value for value in fits if not fits[value]), default=0):
        yield f"{letter}={smallest_other:,d} does not"
