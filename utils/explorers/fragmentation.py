"""The explorer of fragmentation: a training run under any allocator setting, and the map after each request."""

from typing import Any

from every_byte.formula.formula import Formula
from every_byte.ledger.rows import rows_at
from every_byte.widget import Account, Control, Explorer
from every_byte.widget.gpus import origin_of
from every_byte.widget.moving_map import MovingMap
from utils.experiments.varying_lengths import GIB_GPU, SETTINGS, D, replayed, trace_of
from utils.formulas.varying_lengths import lengths_peak


def predicted(settings: dict[str, Any]) -> Formula:
    """What the run requests, under any setting."""
    return lengths_peak(d=D, workspace_bytes=GIB_GPU.cublas_workspace_bytes)


def account(settings: dict[str, Any]) -> Account:
    """What the run requests at its peak, by category, and its requests replayed under a setting."""
    trace, replay = trace_of(settings["s"]), replayed(settings["s"], settings["conf"])
    terms = {term.name: 0 for term in predicted(settings).terms}
    for row in rows_at(trace, trace.peak_position()):
        terms[row.category] = terms.get(row.category, 0) + row.n_bytes
    return Account(
        terms,
        **origin_of("simulated", GIB_GPU.name, GIB_GPU),
        moving_map=MovingMap.of(replay, trace),
        fit=replay,
        remark="The table shows what the program requests at its peak, which no setting changes.",
    )


def fragmentation_explorer() -> Explorer:
    """A run on batches of s, s/2 and 3/4 s tokens on a card with room for 1 GiB, request by request."""
    return Explorer(
        title="A training run that dies with memory free",
        controls=[
            Control.choice(
                "conf", "PYTORCH_ALLOC_CONF", {text or "not set": text for text in SETTINGS.values()}, selects=False
            ),
            Control.range("s", "longest batch", 3840, 6720, value=5760, step=960, unit="tokens"),
        ],
        formula=predicted,
        measure=account,
        capacity=GIB_GPU.allocator_bytes,
    )
