"""Runs a program once, in a process of its own, under changes that are made from outside, and writes what it took.

python -m every_byte.cli.trial REQUEST        as `every-byte advise` calls it; REQUEST is JSON
"""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch.optim.optimizer import register_optimizer_step_post_hook

from every_byte.advice.runs import spec_with_room
from every_byte.gpu.capacity import outcome_on
from every_byte.gpu.memory.specs import GPUSpec, spec_here, with_context
from every_byte.gpu.patches.replacing import all_of
from every_byte.gpu.protocol import GPU
from every_byte.gpu.requests import ROOMY_BYTES, Requests
from every_byte.report.fits import Verdict, fits_on, settings_of, settings_text
from every_byte.report.report import Report
from every_byte.step.training import Training
from every_byte.trials.changes import CHANGES, Changing
from every_byte.trials.flops import FlopsOfProgram
from every_byte.trials.heads import LookingForHead, chunked
from every_byte.trials.seen import Looking
from every_byte.whole_files import write_whole

from .options import gpu_of, program_of, understood
from .program import Ended
from .run import Reported, run

KNOWN = CHANGES | {"loss in chunks": chunked}


def main(argv: list[str]) -> int:
    """Run what the request says; returns the program's exit code."""
    request: dict[str, Any] = json.loads(argv[0])
    options = understood(request["words"])
    program = program_of(options)
    spec = with_context(spec_here(options.gpu, options.torch), options.context)
    options.gpu, options.torch, options.context = spec_with_room(spec), "", None
    return run(program, gpu_of(options), options, partial(_Trial, options=options, spec=spec, request=request))


class _Trial(Reported):
    """What a run took, written as JSON."""

    def __init__(
        self, gpu: GPU, training: Training, options: argparse.Namespace, spec: GPUSpec, request: dict[str, Any]
    ) -> None:
        super().__init__(gpu, training, options, command=[])
        self._spec, self._request = spec, request
        self._flops = FlopsOfProgram()
        self._flops_after = {0: 0}
        self._changing = Changing()
        self._looking = Looking(self._changing) if request["looks"] == "around" else None
        self._heads = LookingForHead(self._changing) if request["looks"] == "for the head" else None

    @contextmanager
    def before_exit(self) -> Iterator[None]:
        """As of any run; with the changes from here on, and FLOPs counted."""
        with super().before_exit(), self._changing.made(self._request["changes"], KNOWN):
            undo = [self._flops.open(), register_optimizer_step_post_hook(self._after_step).remove]
            try:
                yield
            finally:
                all_of(undo)()

    def _after_step(self, *_: Any) -> None:
        self._flops_after[self._training.n_steps] = self._flops.total  # several optimizers may make one step
        if self._looking is not None:
            self._looking.after_step()

    def do(self, ended: Ended) -> int:
        """Write it."""
        if self._heads is not None:
            write_whole(self._request["file"], json.dumps({"exit_code": ended.exit_code, "found": self._heads.found}))
            return ended.exit_code
        n_steps, flops = self._training.n_steps, self._flops.total
        if n_steps:
            flops = self._flops_after[n_steps] - self._flops_after[n_steps - 1]
        report = self.report_of(ended)
        own = fits_on(report.trace, report.steps, self._spec, None, settings_of(report.trace), others=()).own
        took = {
            "peak_bytes": report.peak.allocated_bytes if report.holds_something else 0,
            "reserved_bytes": reserved_on(self._spec, report, own),
            "needed_bytes": own.needed_bytes,
            "room_bytes": own.room_bytes,
            "fits": own.fits,
            "n_retries": own.n_retries,
            "flops": flops,
            "is_exact": report.is_exact,
            "n_steps": n_steps,
            "n_events": len(report.trace),
            "settings": settings_text(report.trace),
            "ended": ended.sentence,
            "exit_code": ended.exit_code,
            "seen": self._looking.seen.to_json() if self._looking else None,
        }
        write_whole(self._request["file"], json.dumps(took))
        return ended.exit_code


def reserved_on(spec: GPUSpec, report: Report, own: Verdict) -> int:
    """What segments take at most in this very run on that GPU, where it fits; else where there is room for all."""
    if not (own.fits and own.n_retries):
        return report.peak_reserved_bytes
    run_once = Requests.once(report.trace, settings_of(report.trace))
    return outcome_on(spec, run_once, run_once.replay(ROOMY_BYTES, ROOMY_BYTES)).max_reserved_bytes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
