"""What a report says of the card itself: whether a build of PyTorch runs on it, and by which kernels."""

from every_byte.gpu.evidence import is_recorded
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.memory.versions import BY_THE_RULES
from every_byte.ledger.trace import Trace

from .notes import Note


def of_card(trace: Trace, spec: GPUSpec) -> list[Note]:
    """That no build of PyTorch on PyPI runs on a simulated card; nothing of others."""
    if trace.origin != "simulated" or not spec.has_no_kernels:
        return []
    what, _, instead = spec.has_no_kernels.partition(": ")
    why, _, way_out = instead.partition(". ")
    return [Note(what, f"{why}. {BY_THE_RULES.format(spec.torch_version).rstrip('.')}", way_out)]


def kernels(spec: GPUSpec) -> str:
    """Behind the name of the rules: that no build runs there, or for which older architecture kernels are compiled.

    Nothing where a card of the same architecture was recorded.
    """
    if spec.compiled_for is None:
        return ", which no build on PyPI runs on this card"
    if spec.compiled_for == spec.capability or is_recorded(spec):
        return ""
    capability, older = (".".join(map(str, one)) for one in (spec.capability, spec.compiled_for))
    return f" with the kernels for compute capability {older}, the nearest to its {capability}"
