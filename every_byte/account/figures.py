"""A report's figures as plain JSON: what two runs of one program are compared by.

    {"format": 1,
     "origin": "simulated" or "measured", "gpu": its name, "device_name": as PyTorch has it,
     "torch_version": whose rules it follows, or which was measured,
     "command": [words], "ended": a sentence, "exit_code": int, "seconds": float, "n_events": int,
     "steps": [{"number", "allocated_bytes", "max_allocated_bytes", "reserved_bytes", "max_reserved_bytes"}, ...],
     "peak": {"allocated_bytes", "requested_bytes", "reserved_bytes", "step": 0 for none, "phase", "by_category": {}},
     "allocated_at_end_bytes": int, "room_bytes": what segments may take,
     "out_of_memory": null or of the last request that was refused {"asked_bytes", "allocated_bytes", "reserved_bytes",
         "step", "phase", "operation", "module"},
     "unmodelled": [names], "values_read": [lines], "notes": [{"what", "why", "way_out"}, ...]}

The peak's `allocated_bytes` and `reserved_bytes` are the most there was of each, at two instants as a rule; its other
items are of the first. All bytes are exact whole numbers.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .report import Report
    from .shortage import Shortage

FORMAT = 1


def figures(report: "Report") -> dict:
    """The figures of a report, under the names above."""
    return {
        "format": FORMAT,
        "origin": report.origin,
        "gpu": report.gpu,
        "device_name": report.spec.device_name,
        "torch_version": report.torch_version,
        "command": list(report.command),
        "ended": report.ended,
        "exit_code": report.exit_code,
        "seconds": report.seconds,
        "n_events": len(report.trace),
        "steps": [
            {name: item for name, item in asdict(step).items() if name not in ("begin", "end", "optimizers")}
            for step in report.steps
        ],
        "peak": {
            "allocated_bytes": report.peak.allocated_bytes,
            "requested_bytes": report.peak.requested_bytes,
            "reserved_bytes": report.peak_reserved_bytes,
            "step": report.peak_place.step,
            "phase": report.peak_place.phase,
            "by_category": report.peak.parts,
        },
        "allocated_at_end_bytes": report.allocated_at_end_bytes,
        "room_bytes": report.room_bytes,
        "out_of_memory": report.shortage and _refusal(report.shortage),
        "unmodelled": list(report.trace.unmodelled),
        "values_read": list(report.trace.values_read),
        "notes": [asdict(note) for note in report.notes],
    }


def _refusal(shortage: "Shortage") -> dict:
    place = shortage.place
    return {
        "asked_bytes": shortage.asked_bytes,
        "allocated_bytes": shortage.allocated_bytes,
        "reserved_bytes": shortage.reserved_bytes,
        "step": place.step,
        "phase": place.phase,
        "operation": place.operation,
        "module": place.module,
    }
