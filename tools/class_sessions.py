"""Ways through the book for a class of one, four or eight sessions: which sections, which exercises, and how long.

The minutes come from tools/reading_time.py. No session is longer than MOST_MINUTES; tests/tools/test_teachers.py
checks it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from tools.reading_time import MINUTES_AN_EXERCISE, to_five

MOST_MINUTES = 90


class Session(NamedTuple):
    """A session: its subject, the sections it covers, exercises in class, and exercises at home."""

    title: str
    sections: str
    exercises: str
    at_home: str = ""

    def minutes(self, of_sections: Mapping[str, float]) -> int:
        """Minutes in class for its sections and exercises, rounded up to five."""
        read = sum(of_sections[section] for section in self.sections.split())
        return to_five(read + MINUTES_AN_EXERCISE * len(self.exercises.split()))

    @property
    def minutes_at_home(self) -> int:
        """Minutes for the exercises at home, rounded up to five."""
        return to_five(MINUTES_AN_EXERCISE * len(self.at_home.split()))


PLANS = {
    "One session": [
        Session(
            "Where the bytes go, from blocks of 512 to a run that does not fit",
            "0.1 0.3 0.4 1.1 2.1 2.2 2.3 2.4 4.1 4.3 7.3",
            "2.1",
            "0.1 1.1 2.4 7.1 7.2",
        )
    ],
    "Four sessions": [
        Session(
            "The allocator, and what a graph keeps",
            "0.1 0.2 0.3 0.4 0.5 0.6 1.1 1.2 1.3 1.5",
            "0.1 1.1",
            "0.2 0.3 0b.3 1.2",
        ),
        Session(
            "The five phases, and what a layer keeps",
            "1.6 2.1 2.2 2.3 2.4 2.5 3.1 3.2 3.3 3.4",
            "2.1 2.4",
            "1.5 2.2 3.2 3.4",
        ),
        Session(
            "A whole training step, and its checkpoints",
            "4.1 4.3 4.5 4.8 5.1 5.3 5.4 5.6",
            "4.1 5.1",
            "4.2 4.4 5.6",
        ),
        Session(
            "Many GPUs, and what to do when a run does not fit",
            "6.1 6.7 7.1 7.2 7.3 7.5 7.12 7.13 8.1 8.6",
            "6.1 7.1 7.2",
            "6.2 7.3 7.5 8.1 8.4",
        ),
    ],
    "Eight sessions": [
        Session(
            "Who hands out a GPU's memory, and in what pieces",
            "0.1 0.2 0.3 0.4 0.5 0.6 0.8 0.9",
            "0.1 0.2 0.3",
            "0.4 0b.1 0b.2 0b.3 0b.4",
        ),
        Session("What backward needs", "1.1 1.2 1.3 1.5 1.6 1.7 1.8 1.11", "1.1 1.2 1.5", "1.3 1.4 1.6"),
        Session("The memory of an MLP", "2.1 2.2 2.3 2.4 2.5 2.6 2.7 2.10", "2.1 2.2 2.3 2.4", "2.5"),
        Session(
            "Activations that save their output, and a whole block",
            "3.1 3.2 3.3 3.4 3.5 3.7 3.9 3.10 3.11",
            "3.1 3.2 3.3 3.4",
            "3.5 3.6",
        ),
        Session("Every byte of nanoGPT", "4.1 4.2 4.3 4.5 4.6 4.8 4.9 4.11", "4.1 4.2", "4.3 4.4 4.5 4.6"),
        Session("Checkpointing", "5.1 5.2 5.3 5.4 5.5 5.6 5.7 5.11", "5.1 5.2 5.6", "5.3 5.4 5.5"),
        Session("Memory across ranks", "6.1 6.2 6.3 6.5 6.7 6.8 6.10", "6.1 6.2 6.3 6.6", "6.4 6.5"),
        Session(
            "When a run does not fit, and your own model",
            "7.1 7.2 7.3 7.5 7.12 7.13 8.1 8.4 8.6",
            "7.1 7.5 8.1",
            "7.2 7.3 7.4 7.6 8.2 8.3 8.4 8.5 8.6",
        ),
    ],
}
"""By the name of the plan."""
