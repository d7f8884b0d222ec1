"""What repeats in a list of steps, as loops: a block of a model, L times; an optimizer's parameters, one by one."""

from collections.abc import Sequence

from .steps import Repeat, Step

LEAST_TIMES = 3
"""What comes twice is written twice: of a short run, which has few blocks, it would be taken for a loop."""
LONGEST = 400
"""Steps of one turn of a loop."""


def folded(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The same steps with loops, found from the left: at each place that which covers most, the shortest of several."""
    numbers: dict[Step, int] = {}
    row = [numbers.setdefault(step, len(numbers)) for step in steps]
    done: list[Step] = []
    start = 0
    while start < len(steps):
        period, times = _longest_loop(row, start)
        if times:
            done.append(Repeat(times, folded(steps[start : start + period])))
            start += period * times
        else:
            done.append(steps[start])
            start += 1
    return tuple(done)


def _longest_loop(row: list[int], start: int) -> tuple[int, int]:
    """The steps of a turn, and how many turns follow one another from here; 0 turns where nothing repeats."""
    best = (0, 0)
    for period in range(1, min(LONGEST, (len(row) - start) // LEAST_TIMES) + 1):
        if row[start] != row[start + period] or row[start] != row[start + 2 * period]:
            continue
        turn, times = row[start : start + period], 1
        while row[start + period * times : start + period * (times + 1)] == turn:
            times += 1
        if times >= LEAST_TIMES and period * times > best[0] * best[1]:
            best = period, times
    return best
