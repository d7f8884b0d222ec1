"""What a measured test took, as plain values: they go with pytest's reports from one process to another."""

from collections.abc import Mapping, Sequence
from typing import Any

FIGURES = "every_byte"
"""The name of a test's property that has them."""


def figures_in(stats: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """The figures of each test that was measured, by its node's id, in the order of the tests."""
    found: dict[str, dict[str, Any]] = {}
    for reports in stats.values():
        for report in reports:
            for name, figures in getattr(report, "user_properties", ()):
                if name == FIGURES:
                    found[report.nodeid] = figures
    return dict(sorted(found.items()))
