"""Whom a live GPU's memory served: what was noted of it while the program ran, completed by what its history tells."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from every_byte.ledger.attribution import Owners, Role
from every_byte.ledger.events import Event
from every_byte.palette import Category

from .history import History
from .memory import LiveMemory
from .translation import translated


def owners_of(memory: LiveMemory, history: History, after: list[int]) -> Owners:
    """What was observed, by the numbers and positions of the trace's events.

    `after[i]` is the position right behind the first i allocations, frees and marks.
    """
    numbers = [history.number_at(*place) for place in memory.places]

    def position_of(at: int) -> int:
        return after[min(max(history.n_before + at, 0), len(after) - 1)]

    owners = translated(memory.owners, numbers.__getitem__, position_of)
    owners.counts = _counts(memory, history)
    if memory.is_of_main_thread:
        owners.elsewhere = {number for number, made in enumerate(history.makers) if made.is_elsewhere}
    _name_starts(owners, memory, history, numbers)
    _name_copies(owners, memory, history, numbers)
    _name_unseen_copies(owners, memory, history)
    return owners


def _counts(memory: LiveMemory, history: History) -> list[int]:
    """For each allocation how many nodes autograd had made by then, as far as that was seen."""
    result = [0] * history.n_before
    n_made = len(history.makers) - history.n_before
    for (first, number), (following, _) in pairwise([(0, 0), *memory.sequence_numbers, (n_made, 0)]):
        result += [number] * (following - first)
    return result


def _name_starts(owners: Owners, memory: LiveMemory, history: History, numbers: list[int | None]) -> None:
    """The gradients that backwards start from: a given one, or the 1 that PyTorch had just made for a number."""
    for handle, n_allocations in memory.starts:
        number = numbers[handle]
        if number is not None and number not in owners.roles:
            is_last = number == history.n_before + n_allocations - 1
            made_now = is_last and history.makers[number].operation == "aten::ones_like"
            owners.add(number, Role(Category.TEMPORARIES if made_now else Category.GRADIENTS))


def _name_copies(owners: Owners, memory: LiveMemory, history: History, numbers: list[int | None]) -> None:
    """What autocast made of parameters, and a graph keeps; what the program itself converted is none."""
    for handle, of in memory.conversions:
        number, parameter = numbers[handle], numbers[of]
        if number is None or parameter is None:
            continue
        if history.makers[number].is_cast and (role := owners.role(parameter)):
            owners.add(number, Role(Category.AUTOCAST_COPIES, *role[1:]))


def _name_unseen_copies(owners: Owners, memory: LiveMemory, history: History) -> None:
    """Autocast's copies of parameters of which no graph says so: it holds them, unseen, until it ends; in a checkpoint.

    What it makes of anything else is gone with the operator, unless a graph keeps it. So a copy is what outlives the
    module that ran, and has half the bytes of a parameter there: the first such, as arguments are cast from the right.
    """
    parameters: dict[tuple[str, int], list[tuple[int, Role]]] = defaultdict(list)
    for number, role, event in _parameters(owners, history):
        parameters[role.module, event.n_bytes // 2].append((number, role))
    done: set[tuple[int, int]] = set()
    for number, made in enumerate(history.makers):
        if not made.is_cast or number in owners.computed:
            continue
        begin, end = map(memory.position_at, history.life_of(number))
        _, module, _ = memory.labels_at(begin)
        change = memory.n_changes(begin)
        if memory.n_changes(end) == change:
            continue
        of_its_size = parameters[module, history.made(number).n_bytes]
        for parameter, role in of_its_size:
            if (parameter, change) not in done:
                done.add((parameter, change))
                owners.tensors.setdefault(number, (owners.tensors[parameter][0], None))
                owners.add(number, Role(Category.AUTOCAST_COPIES, *role[1:]))
                break


def _parameters(owners: Owners, history: History) -> Iterator[tuple[int, Role, Event]]:
    for number, roles in owners.roles.items():
        for role in roles:
            if role.category == "parameters":
                yield number, role, history.made(number)
