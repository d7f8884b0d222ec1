"""The markers: which GPU a test is to run on, how much memory it may need there, and how much each step may leave."""

from dataclasses import dataclass
from typing import NoReturn

import pytest

from every_byte.units import number_of_bytes

MEMORY, GROWTH = "limit_gpu_memory", "limit_gpu_growth"
FIXTURES = ("simulated_gpu", "gpu_report")
MARKERS = (
    f'{MEMORY}(size, *, gpu=None): run the test on a simulated GPU, and fail it if it needs more, as "16 GiB", or, '
    "without a size, if it does not fit there",
    f"{GROWTH}(size, *, gpu=None): run the test on a simulated GPU, and fail it if its last step leaves more than so "
    'much beyond the one before, as "0 B"',
)


@dataclass(frozen=True)
class Marked:
    """A marker of a test: its size in bytes, None where it names none; and how the size was written."""

    n_bytes: int | None
    said: str


def refuse(why: str) -> NoReturn:
    """Fail a test whose markers are not understood, without a traceback."""
    pytest.fail(why, pytrace=False)


def wants_gpu(item: pytest.Item) -> bool:
    """Whether a test has one of the markers, or asks for a fixture of the plugin."""
    names = getattr(item, "fixturenames", ())
    return any(item.get_closest_marker(name) for name in (MEMORY, GROWTH)) or any(one in names for one in FIXTURES)


def gpu_name(item: pytest.Item) -> str:
    """The GPU that a test names, or the one of the command line or the ini file.

    Raises: pytest.fail.Exception for markers that name different ones.
    """
    found = [marker.kwargs["gpu"] for marker in item.iter_markers() if _is_ours(marker) and marker.kwargs.get("gpu")]
    if len(set(found[:2])) > 1 and _on_one_level(item):
        refuse(f"markers of one test must name one GPU: got {', '.join(found)}.")
    config = item.config
    return str(found[0] if found else config.getoption("every_byte_gpu") or config.getini("every_byte_gpu"))


def marked(item: pytest.Item, name: str) -> Marked | None:
    """What the closest marker of this name says; None where there is none.

    Raises: pytest.fail.Exception for what is no size, or an argument that there is not.
    """
    marker = item.get_closest_marker(name)
    if marker is None:
        return None
    sizes, others = marker.args, set(marker.kwargs) - {"gpu"}
    if others or len(sizes) > 1 or not sizes and name == GROWTH:
        got = ", ".join([*map(repr, sizes), *sorted(others)])
        refuse(f'{name} takes a size and gpu="…": got {got or "no size"}; try {name}("16 MiB").')
    if not sizes:
        return Marked(None, name)
    n_bytes = 0 if _is_zero(sizes[0]) else number_of_bytes(sizes[0])
    if n_bytes is None:
        refuse(f'{name} takes bytes, or a size in B, KiB, MiB or GiB: got {sizes[0]!r}; try {name}("16 GiB").')
    return Marked(n_bytes, f"{name}({sizes[0]!r})")


def _is_zero(said: object) -> bool:
    return said == 0 or isinstance(said, str) and said.strip().upper() in ("0", "0B", "0 B")


def _is_ours(marker: pytest.Mark) -> bool:
    return marker.name in (MEMORY, GROWTH)


def _on_one_level(item: pytest.Item) -> bool:
    """Whether both markers are the test's own: one that is closer than a class's or a module's counts instead."""
    return sum(_is_ours(marker) for marker in item.own_markers) > 1
