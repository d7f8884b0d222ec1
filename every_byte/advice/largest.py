"""The largest value of a letter that fits on a GPU, found by running: it fits, and the next ones do not."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from every_byte.step.batch import unfilled
from every_byte.step.training_step import TrainingStep

from . import loop
from .remedy import Remedy
from .runs import Bench, quiet

LOOK_BEYOND = 2  # values after the first that does not fit: memory need not grow with each
_MOST = 1 << 30


@dataclass(frozen=True)
class Largest:
    """The largest value of a letter that was found to fit, 0 if none does; `next_value` is the first that does not.

    `ran` has all values that were run, each with whether it fits. `reason` says what else ended the search: an error of
    the model at `next_value`, or "". It is not exact where something ran that is not modelled, which the account names.

    Counts: values are multiples of `step`.
    """

    letter: str
    value: int
    next_value: int
    step: int
    ran: dict[int, bool]
    reason: str = ""
    is_exact: bool = True

    def __repr__(self) -> str:
        said = f"simulated: {self.letter}={self.value:,d} fits, {self.letter}={self.next_value:,d} does not"
        if not self.value:
            said = f"simulated: not even {self.letter}={self.next_value:,d} fits"
        values = "1 value" if len(self.ran) == 1 else f"{len(self.ran)} values"
        unknown = "" if self.is_exact else "; without what its account names as not known"
        return f"{said}{f' run: {self.reason}' if self.reason else ''} ({values} run){unknown}"


def largest(letter: str, start: int, step: int, need: Callable[[int], tuple[bool, int, int]]) -> Largest:
    """The search: by what values need, as if that grew evenly between them; then each neighbour is run.

    `need(value)` runs a value and says whether it fits, what it needs and what room there is. Both neighbours of the
    result are always run, and some beyond: where one of them fits after all, the search goes on from there.
    """
    search = _Search(step, need)
    value = max(step, start // step * step)
    while True:
        value = search.boundary(value)
        beyond = [value + n * step for n in range(1, 2 + LOOK_BEYOND)]
        again = [one for one in beyond[1:] if search.fits(one)]
        if not again:
            return Largest(letter, value, beyond[0], step, search.known(), search.reasons.get(beyond[0], ""))
        value = again[-1]


class _Search:
    def __init__(self, step: int, need: Callable[[int], tuple[bool, int, int]]) -> None:
        self._step, self._need = step, need
        self._ran: dict[int, tuple[bool, int, int]] = {}
        self.reasons: dict[int, str] = {}

    def known(self) -> dict[int, bool]:
        return {value: ran[0] for value, ran in sorted(self._ran.items())}

    def fits(self, value: int) -> bool:
        if value not in self._ran:
            try:
                self._ran[value] = self._need(value)
            except (RuntimeError, ValueError, IndexError) as error:
                self.reasons[value] = str(error).splitlines()[0][:200]
                self._ran[value] = False, 0, 0
        return self._ran[value][0]

    def boundary(self, start: int) -> int:
        """A value that fits, 0 included, whose next one does not."""
        low, high, value, is_slow, stride = 0, None, start, False, self._step
        while high is None or high - low > self._step:
            before = None if high is None else high - low
            if self.fits(value):
                low = value
            else:
                high = value
            if low >= _MOST:
                raise ValueError(f"the letter must be a size of what is trained: {low:,d} still fits.")
            is_slow = high is not None and before is not None and high - low > before // 2
            if high is None:
                value, stride = self._further(low, stride), 2 * stride
            else:
                value = self._between(low, high, halves=is_slow)
        return low

    def _further(self, low: int, stride: int) -> int:
        """Beyond a value that fits, four times as far at most; by a stride, where the guess lies behind it.

        It does where a little more needs less: the allocator gave back what it had cached.
        """
        guess = self._guess() or 2 * low
        return min(max(guess, low + stride), 4 * low)

    def _between(self, low: int, high: int, halves: bool) -> int:
        """Where it might turn; the middle where that is not known, or the last guess took off little."""
        guess = None if halves or high in self.reasons else self._guess()
        if guess is None or high - low <= 4 * self._step:
            guess = (low + high) // 2 // self._step * self._step
        guess = guess + self._step if guess == low else guess
        return min(max(guess, low + self._step), high - self._step)

    def _guess(self) -> int | None:
        """The largest value that would fit if what is needed grew evenly between the two nearest to the room."""
        ran = [(value, needed, room) for value, (_, needed, room) in self._ran.items() if needed]
        (one, of_one, room), *rest = sorted(ran, key=lambda each: abs(each[1] - each[2]))[:2] or [(0, 0, 0)]
        if not rest or rest[0][1] == of_one:
            return None
        guess = one + (room - of_one) * (rest[0][0] - one) / (rest[0][1] - of_one)
        return int(guess // self._step * self._step)


@quiet()
def largest_of(bench: Bench, step: TrainingStep, letter: str, remedies: tuple[Remedy, ...] = ()) -> Largest:
    """The largest value of a letter that fits.

    Raises: ValueError for a letter that the step does not have.
    """
    if letter not in step.letters:
        raise ValueError(f"letter must be one of {', '.join(step.letters) or 'none'}: got {letter!r}.")
    batch, targets = (part if callable(part) else unfilled(part) for part in (step.batch, step.targets))
    step = replace(step, batch=batch, targets=targets)

    exact: list[bool] = []

    def need(value: int) -> tuple[bool, int, int]:
        sized = replace(step, letters={**step.letters, letter: value})
        ran = bench.run(sized, remedies, counts=False)
        exact.append(ran.is_exact)
        return ran.fits, ran.needed_bytes, ran.room_bytes

    multiple_of = 1
    if letter == loop.batch_letter(step):
        for remedy in remedies:
            multiple_of *= remedy.multiple_of
    return replace(largest(letter, step.letters[letter], multiple_of, need), is_exact=all(exact))
