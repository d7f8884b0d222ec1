"""Numbers the optimizers of a program as they are met; one that holds another, as SAM does its base, is one with it."""

from weakref import WeakKeyDictionary

from torch.optim.optimizer import Optimizer

from every_byte.ledger.attribution import Owners


class Optimizers:
    """Which optimizer is which, and keeps what: written into a trace's owners. Nothing here keeps an optimizer."""

    def __init__(self, owners: Owners) -> None:
        self._names, self._kept_by = owners.optimizers, owners.kept_by
        self._numbers: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()

    def note(self, optimizer: Optimizer, numbers: list[int]) -> None:
        """Note that allocations are state of an optimizer."""
        for number in numbers:
            self._kept_by[number] = self.number_of(optimizer)

    def number_of(self, optimizer: Optimizer) -> int:
        """The number of an optimizer; it gets the next one if it is met for the first time."""
        known = self._numbers.get(optimizer)
        if known is not None:
            return known
        held = [other for other in vars(optimizer).values() if isinstance(other, Optimizer)]
        number = next((self._numbers[other] for other in held if other in self._numbers), None)
        if number is None:
            number = len(self._names)
            self._names.append(type(optimizer).__name__)
        for one in (optimizer, *held):
            self._numbers[one] = number
        return number
