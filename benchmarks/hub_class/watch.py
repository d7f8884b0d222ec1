"""How much memory each user takes and how busy the machine is, looked at every few seconds while a class works."""

import asyncio
import contextlib
import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field

from .people import Person, memory_of

EVERY_S = 3


@dataclass
class Watch:
    """The most that each user's processes took together, and each of them then, in bytes of proportional set size.

    Shared pages count by their share, so that the sum over all users is what they take together. `loads` are averages.
    """

    people: list[Person]
    most: dict[str, int] = field(default_factory=dict)
    parts: dict[str, list[int]] = field(default_factory=dict)
    loads: list[float] = field(default_factory=list)

    def look(self) -> None:
        """Once, at all users."""
        for person in self.people:
            found = memory_of(person.uid)
            if sum(found.values()) > self.most.get(person.name, 0):
                self.most[person.name], self.parts[person.name] = sum(found.values()), sorted(found.values())
        self.loads.append(os.getloadavg()[0])

    @property
    def load(self) -> float:
        """The median of the load averages, each of a minute."""
        return statistics.median(self.loads)

    @contextlib.asynccontextmanager
    async def looking(self) -> Iterator[None]:
        """Looks every few seconds, and once at the end."""
        task = asyncio.create_task(self._look_on())
        try:
            yield
            await asyncio.to_thread(self.look)
        finally:
            task.cancel()

    async def _look_on(self) -> None:
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(EVERY_S)
