"""How far a report's figures can be trusted: derived from what recordings hold, and from what was not followed."""

from collections.abc import Iterable, Sized

from every_byte.gpu.evidence import HELD, Evidence, Place
from every_byte.report.libraries import sentence
from every_byte.report.run import Run

_MOST_OPERATORS, _MOST_PLACES = 4, 5


def sentences(report: Run, where: str = "above") -> str:
    """The level in words, with what it rests on; `where` are the notes that it speaks of."""
    if report.origin == "measured":
        return f"Measured: every figure is what PyTorch {report.torch_version} counted on this GPU.{_nccl(report)}"
    if report.is_empty:
        return "Nothing was asked of the simulated GPU: there is no figure that could be exact."
    said = [_headline(report, where), *_of_operators(report.evidence), *filter(None, [sentence(report.libraries)])]
    if report.ended_early:
        said.append(
            "The program ended by an error: what it would have allocated after that is in no figure, and a card may "
            "not have stopped there."
        )
    context = f"The size of the CUDA context is {report.spec.context_said}"
    placed = "where the driver puts segments is not known, and reserved, rarely allocated, bytes can depend on it"
    return f"{' '.join(said)} {context}; {placed}.{_nccl(report)}"


def _headline(report: Run, where: str) -> str:
    rules = f"by the rules of PyTorch {report.torch_version}'s CUDA build"
    evidence = report.evidence
    if report.unfollowed:
        return f"Simulated {rules}, and not exact: what is named {where} is not known."
    if evidence.level != HELD:
        return f"Simulated {rules}."
    until = " up to the error" if report.ended_early else ""
    only = ""
    if report.trace.notes.values_read:
        only = f", for a program whose allocations do not depend on the values named {where}"
    if not len(evidence):
        return f"Simulated, to the byte{until} {rules}{only}: no operator ran."
    each = "every operator that ran" if len(evidence) == 1 else f"all {len(evidence):,d} operators that ran"
    return (
        f"Simulated, to the byte{until} {rules}{only}: recordings of that build on compute capability "
        f"{evidence.architecture} hold {each}."
    )


def _of_operators(evidence: Evidence) -> Iterable[str]:
    """Which operators no recording of this architecture holds, and which no recording at all."""
    here, n = f"compute capability {evidence.architecture}", len(evidence)
    if any(architecture == evidence.architecture for _, architecture in evidence.recorded_on):
        here += f" under PyTorch {evidence.torch_version}"
    if evidence.elsewhere:
        few = operators(evidence.elsewhere)
        where = places(evidence.recorded_on, evidence)
        if len(evidence.elsewhere) == n:
            each = "The operator that ran is not" if n == 1 else f"None of the {n:,d} operators that ran is"
            yield (
                f"{each} recorded on {here}: recordings {where} hold {'it' if n == 1 else 'them'}. What "
                f"{'it allocates while it runs' if n == 1 else 'they allocate while they run'} may differ here."
            )
        else:
            yield (
                f"Of the {n:,d} operators that ran, {_counted(evidence.elsewhere)} held to recordings {where} only, "
                f"not on {here}: {few}. What they allocate while they run may differ here."
            )
    if evidence.unrecorded:
        are = _counted(evidence.unrecorded)
        those = "The operator that ran is" if n == 1 else f"Of the {n:,d} operators that ran, {are}"
        they = (
            "it allocates besides its outputs"
            if len(evidence.unrecorded) == 1
            else "they allocate besides their outputs"
        )
        yield f"{those} held by no recording: {operators(evidence.unrecorded)}. What {they} may differ on a card."


def _counted(names: Sized) -> str:
    return "1 is" if len(names) == 1 else f"{len(names):,d} are"


def operators(names: Iterable[str]) -> str:
    """The first few operators: `sort (float32), cumsum (integer) and 7 more`."""
    names = list(names)
    shown = [_shown(name) for name in names[:_MOST_OPERATORS]]
    if more := len(names) - len(shown):
        return f"{', '.join(shown)} and {more:,d} more"
    *most, last = shown
    return f"{', '.join(most)} and {last}" if most else last


def _shown(name: str) -> str:
    operator, _, kind = name.removeprefix("aten::").partition(" ")
    return f"{operator} ({kind})" if kind else operator


def places(found: Iterable[Place], evidence: Evidence) -> str:
    """Where something was recorded: `on 8.0 and 9.0`, `of PyTorch 2.13 on 8.0`."""
    by_version: dict[str, list[str]] = {}
    for version, architecture in found:
        by_version.setdefault(version, []).append(architecture)
    parts = []
    for version, architectures in by_version.items():
        *most, last = architectures
        on = f"on {', '.join(most)} and {last}" if most else f"on {last}"
        parts.append(on if version == evidence.torch_version else f"of PyTorch {version} {on}")
    more = f"; and {len(parts) - _MOST_PLACES:,d} more" * (len(parts) > _MOST_PLACES)
    return "; ".join(parts[:_MOST_PLACES]) + more


def _nccl(report: Run) -> str:
    """That the memory of collectives is not in the figures of one rank of several."""
    is_one_of_several = report.rank and report.rank[1] > 1
    return " NCCL's own memory is outside of PyTorch's allocator, and is not counted." if is_one_of_several else ""
