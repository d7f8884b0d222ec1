"""The largest value of a letter that fits on a GPU, found by running: it fits, and the next ones do not."""

from collections.abc import Callable
from dataclasses import dataclass

LOOK_BEYOND = 2  # values after the first that does not fit: memory need not grow with each
_MOST = 1 << 30


@dataclass(frozen=True)
class Largest:
    """The largest value of a letter that was found to fit, 0 if none does; `next_value` is the first that does not.

    `ran` has all values that were run, each with whether it fits. `reason` says what else ended the search: an error of
    the model at `next_value`, or "".

    Counts: values are multiples of `step`.
    """

    letter: str
    value: int
    next_value: int
    step: int
    ran: dict[int, bool]
    reason: str = ""

    def __repr__(self) -> str:
        said = f"simulated: {self.letter}={self.value:,d} fits, {self.letter}={self.next_value:,d} does not"
        if not self.value:
            said = f"simulated: not even {self.letter}={self.next_value:,d} fits"
        return f"{said}{f' run: {self.reason}' if self.reason else ''} ({len(self.ran)} values run)"


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
        low, high = 0, None
        value = start
        while high is None or high - low > self._step:
            if self.fits(value):
                low = value
            else:
                high = value
            value = self._next(low, high)
            if high is None and low >= _MOST:
                raise ValueError(f"the letter must be a size of what is trained: {low:,d} still fits.")
        return low

    def _next(self, low: int, high: int | None) -> int:
        """Where it might turn, by what the two values nearest to that need; between low and high, without them."""
        guess = self._guess(low, high)
        if high is None:
            return min(max(guess, low + self._step), max(4 * low, low + self._step))
        inside = low + self._step, high - self._step
        n_steps = (high - low) // self._step
        if n_steps <= 4:
            guess = low + n_steps // 2 * self._step
        return min(max(guess, inside[0]), inside[1])

    def _guess(self, low: int, high: int | None) -> int:
        """The largest value that would fit if what is needed grew evenly, a step less or more for the neighbours."""
        ran = sorted((value, found[1]) for value, found in self._ran.items() if found[1])
        if len(ran) < 2:
            return low * 2 if high is None else (low + high) // 2 // self._step * self._step
        room = next(iter(self._ran.values()))[2]
        (one, of_one), (other, of_other) = sorted(ran, key=lambda pair: abs(pair[1] - room))[:2]
        if of_one == of_other:
            return low * 2 if high is None else (low + high) // 2 // self._step * self._step
        guess = one + (room - of_one) * (other - one) / (of_other - of_one)
        guess = int(guess // self._step * self._step)
        return guess + self._step if guess == low else guess
