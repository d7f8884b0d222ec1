"""Finds and opens the recordings in tests/reference/2.13.0."""

from functools import lru_cache

from places import RECORDED

from every_byte.gpu.cases.files import file_name, read

WITHOUT_A_CASE = ("allocator_sequences", "allocator_settings_sequences", "out_of_memory")
"""Files that have recorders of their own."""


def all_files() -> list[tuple[str, str]]:
    """(case, card) of every recorded case."""
    stems = (path.name.removesuffix(".json.gz") for path in RECORDED.glob("*.json.gz"))
    pairs = sorted(tuple(stem.rsplit(".", 1)) for stem in stems)
    return [pair for pair in pairs if pair[0] not in WITHOUT_A_CASE]


def files_with_events() -> list[tuple[str, str]]:
    """(case, card) of the recorded cases that hold every event, not marks alone."""
    return [pair for pair in all_files() if "events" in load(*pair)]


@lru_cache(maxsize=4)
def load(name: str, card: str) -> dict:
    """What one file holds: see tests/reference/README.md. Shared between tests: do not change it."""
    return read(RECORDED / file_name(name, card))
