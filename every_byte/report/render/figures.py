"""A report's figures as plain JSON: what two runs of one program are compared by.

    {"schema": 1, of figures.schema.json,
     "origin": "simulated" or "measured", "gpu": its name, "device_name": as PyTorch has it,
     "torch_version": whose rules it follows, or which was measured,
     "command": [words], "ended": a sentence, "exit_code": int, "seconds": float, "n_events": int,
     "steps": [{"number", "allocated_bytes", "max_allocated_bytes", "reserved_bytes", "max_reserved_bytes"}, ...],
     "peak": {"allocated_bytes", "requested_bytes", "reserved_bytes", "step": 0 for none, "phase", "by_category": {},
         "line": the program's {"file", "line", "function", "text"}, null where it is not known},
     "lines": [of the peak, or when memory ran out, the largest first {"line", "n_allocations", "allocated_bytes",
         "by_category"}, ...], "modules": [of the same {"module", "n_allocations", "allocated_bytes"}, ...],
     "owners": [of the same, 20 at most {"category", "module", "what", "about",
         "n_allocations", "requested_bytes", "lines"}, ...],
     "allocated_at_end_bytes": int, "room_bytes": what segments may take,
     "ranks": null or {"rank", "of"}, "was_stopped": bool, by --steps, "allocator_settings": text, "" for the defaults,
     "growth": null or what the last step left more {"step", "than_step", "n_bytes", "runs_out_at_step",
         "largest": {"category", "module", "operation", "n_bytes"}, "line"}, "slow_growth": the same of a slow one,
     "findings": [what is wrong {"rule", "n_bytes", "sentence", "line"}, ...],
     "fits": null or where it fits {"basis", "gpus": [{"gpu", "device_name", "fits", "needed_bytes", "in_use_bytes",
         "room_bytes", "total_bytes", "context_bytes", "is_alike", "is_cut_up", "n_retries", "context_range_bytes":
         [least, most] that was published, "hangs_on_context": whether one of these turns it}, ...]},
     "n_survived": how often memory ran out and the program went on,
     "out_of_memory": null or of the last request that was refused {"asked_bytes", "allocated_bytes", "reserved_bytes",
         "step", "phase", "operation", "module", "line"},
     "unfused": [of attention that no fused kernel took {"gpu", "queries": shape, "of_type", "has_mask",
         "scores": shape, "scores_of_type", "n_bytes", "is_kept", "helps": in words, or ""}, ...],
     "unused_results": [bytes of each result that compiled code returns beside the loss],
     "level": "held", "elsewhere" or "unrecorded", how far the figures can be trusted; null where they were measured,
     "evidence": null or what recordings hold {"level", "torch_version", "architecture", "n_operators", "n_held",
         "elsewhere": [{"operator", "recorded_on": [{"torch_version", "architecture"}]}, ...], "unrecorded": [names]},
     "libraries": [that were imported {"name", "version", "recorded": [versions]}, ...],
     "unmodelled": [names], "values_read": [lines], "refused": [what, and its line],
     "notes": [{"what", "why", "way_out", "is_of_figures", "is_of_values"}, ...]}

The peak's `allocated_bytes` and `reserved_bytes` are the most there was of each, at two instants as a rule; its other
items are of the first. `fits` is null where nothing
was allocated, and where a program went on after memory ran out. All bytes are exact whole numbers.
"""

from collections import Counter
from dataclasses import asdict
from typing import Any

from every_byte.report.findings import findings_of
from every_byte.report.fits import Fits, settings_text
from every_byte.report.growth import Growth
from every_byte.report.lines import by_line
from every_byte.report.owners import kind_of, owners_of
from every_byte.report.run import Run
from every_byte.report.shortage import Shortage
from every_byte.report.unused_results import unused_results

from . import lines

SCHEMA = 1
"""The version of figures.schema.json, which has the same as a JSON schema."""
MOST_OWNERS = 20


def figures(report: Run) -> dict[str, Any]:
    """The figures of a report, under the names above."""
    return {
        "schema": SCHEMA,
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
            "line": lines.to_json(report.peak_place.line),
            "by_category": report.peak.parts,
        },
        "lines": lines.shares_to_json(by_line(report.account.rows)) if report.line_names else [],
        "modules": _modules(report),
        "owners": _owners(report),
        "allocated_at_end_bytes": report.allocated_at_end_bytes,
        "room_bytes": report.room_bytes,
        "ranks": report.rank and {"rank": report.rank[0], "of": report.rank[1]},
        "was_stopped": report.was_stopped,
        "allocator_settings": settings_text(report.trace),
        "growth": report.growth and _growth(report.growth),
        "slow_growth": report.slow_growth and _growth(report.slow_growth),
        "findings": [asdict(finding) | {"line": lines.to_json(finding.line)} for finding in findings_of(report)],
        "fits": None if report.is_empty or report.survived else _fits(report.fits),
        "n_survived": len(report.survived),
        "out_of_memory": report.shortage and _refusal(report.shortage),
        "unfused": [asdict(one) for one in report.trace.notes.unfused],
        "unused_results": [event.n_bytes for event in unused_results(report.trace)],
        "level": None if report.origin == "measured" else report.level,
        "libraries": [asdict(each) | {"recorded": list(each.recorded)} for each in report.libraries],
        "evidence": None if report.origin == "measured" else report.evidence.to_json(),
        "unmodelled": list(report.trace.notes.unmodelled),
        "values_read": list(report.trace.notes.values_read),
        "refused": list(report.trace.notes.refused),
        "notes": [asdict(note) for note in report.notes],
    }


def _growth(growth: Growth) -> dict[str, Any]:
    owner = growth.largest
    largest = {"category": owner.category, "module": owner.module, "operation": owner.what, "n_bytes": owner.n_bytes}
    return asdict(growth) | {"largest": largest, "line": lines.to_json(growth.line)}


def _modules(report: Run) -> list[dict[str, Any]]:
    """The modules, those alike as one, without what is in modules of their own; the largest first."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for row in report.account.rows if report.holds_something else ():
        sizes[kind_of(row.module)] += row.n_bytes + row.slack_bytes
        counts[kind_of(row.module)] += 1
    return [
        {"module": name, "n_allocations": counts[name], "allocated_bytes": n_bytes}
        for name, n_bytes in sizes.most_common()
    ]


def _owners(report: Run) -> list[dict[str, Any]]:
    """The largest owners, alike ones together."""
    return [
        {
            "category": owner.category,
            "module": owner.module,
            "what": owner.what,
            "about": owner.about,
            "n_allocations": n,
            "requested_bytes": n * owner.n_bytes,
            "lines": [lines.to_json(line) for line in report.lines_of_owners.get(owner, [])],
        }
        for owner, n in owners_of(report.account.rows)[:MOST_OWNERS]
    ]


def _fits(fits: Fits) -> dict[str, Any]:
    """Where it fits, by GPU."""
    gpus = [
        {name: item for name, item in asdict(one).items() if name != "runs_out"}
        | {
            "is_cut_up": one.is_cut_up,
            "context_range_bytes": list(one.context_range_bytes or (one.context_bytes, one.context_bytes)),
        }
        for one in fits.verdicts
    ]
    return {"basis": fits.basis, "gpus": gpus}


def _refusal(shortage: Shortage) -> dict[str, Any]:
    place = shortage.place
    return {
        "asked_bytes": shortage.asked_bytes,
        "allocated_bytes": shortage.allocated_bytes,
        "reserved_bytes": shortage.reserved_bytes,
        "step": place.step,
        "phase": place.phase,
        "operation": place.operation,
        "module": place.module,
        "line": lines.to_json(place.line),
    }
