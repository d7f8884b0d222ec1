"""One test on a simulated GPU: opened before its fixtures, judged after its last line, closed after its fixtures."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch

from every_byte.gpu.cuda.frames import trim
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.report.finding import named
from every_byte.report.findings import findings_of
from every_byte.report.limit import Limit, beyond, in_words, needed_bytes, owners_in_lines
from every_byte.report.owners import owners_of
from every_byte.report.render.verdict import verdict
from every_byte.report.report import Report
from every_byte.step.training import Training
from every_byte.units import exact, short

from .limits import GROWTH, MEMORY, marked, refuse

MOST_OWNERS = 12
LEAST_STEPS = 3


class Measured:
    """The GPU of one test, and what the test took of it."""

    def __init__(self, name: str) -> None:
        try:
            self.gpu = SimulatedGPU(name, cuda=True, lines=True)
        except ValueError as error:
            refuse(str(error))
        self._training = Training(self.gpu)
        self._open = ExitStack()
        self._report: tuple[int, Report] | None = None

    def open(self) -> None:
        """Let the GPU be "cuda" from now on."""
        self._open.enter_context(self.gpu)
        self._open.enter_context(self._training)

    def close(self) -> None:
        """Let it be none any more."""
        self._open.close()

    def report(self) -> Report:
        """The report of what happened up to now."""
        gc.collect()
        state = len(self.gpu.trace)
        if self._report is None or self._report[0] != state:
            self._report = state, Report.of(self.gpu, steps=self._training.steps())
        return self._report[1]

    def head(self, error: Exception) -> str:
        """Of a test that failed, the verdict and the largest owners; its traceback ends at the test's own line."""
        trim(error)
        is_of_memory = isinstance(error, torch.OutOfMemoryError)
        report = self.report()
        said = verdict(report)
        first = [*said.first, *said.reasons] if is_of_memory else []
        return "\n".join([f"{said.headline}.", *first, "The largest owners:", *owners_in_lines(report)])

    def figures(self) -> dict[str, Any]:
        """What the test took: bytes in all, and of its largest owners, alike ones together."""
        report = self.report()
        needed = needed_bytes(report)
        owners = owners_of(report.account.rows)[:MOST_OWNERS] if report.holds_something else []
        return {
            "gpu": report.gpu,
            "needed_bytes": needed,
            "peak_bytes": report.account.allocated_bytes if report.holds_something else 0,
            "needs": short(needed),
            "owners": [
                {
                    "what": f"{owner.category} in {owner.module or 'no module'} ({owner.what})",
                    "n_bytes": n * owner.n_bytes,
                    "short": short(n * owner.n_bytes),
                    "in_words": in_words(report, owner),
                }
                for owner, n in owners
            ],
        }

    def beyond(self, item: pytest.Item) -> Iterator[str]:
        """What is to be said of the markers of a test that takes more than they allow."""
        report = self.report()
        if (limit := marked(item, MEMORY)) is not None:
            said = _of_room(report) if limit.n_bytes is None else beyond(report, Limit(limit.n_bytes, limit.said))
            if said:
                yield "\n".join([f"on the simulated GPU {report.gpu} it {said[0]}", *said[1:]])
        if (limit := marked(item, GROWTH)) is not None:
            yield from _of_growth(report, limit.n_bytes or 0, limit.said)


def _of_room(report: Report) -> list[str]:
    """What does not fit on the GPU."""
    if report.is_empty or report.fits.own.fits:
        return []
    own = report.fits.own
    needs = f"needs {exact(own.needed_bytes)}, and has {exact(own.room_bytes)}"
    return [needs, *owners_in_lines(report), *(f"  {finding.sentence}" for finding in findings_of(report))]


def _of_growth(report: Report, allowed: int, said: str) -> Iterator[str]:
    """That each step leaves more than is allowed, and whose it is."""
    n = len(report.steps)
    if n < LEAST_STEPS:
        yield f"{said} compares the last {LEAST_STEPS} steps of an optimizer: the test made {n}; let it make more"
        return
    growth = report.growth or report.slow_growth
    if growth is None or growth.n_bytes <= allowed:
        return
    owner = growth.largest
    inside = f" in {owner.module}" if owner.module else ""
    yield (
        f"step {growth.step} left {exact(growth.n_bytes)} more than step {growth.than_step}, and {said} allows "
        f"{exact(allowed)}: above all {owner.category}{inside} ({owner.what})"
        f"{named(report, growth.line, before=', ', after='')}"
    )
