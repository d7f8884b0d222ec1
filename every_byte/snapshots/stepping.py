"""Where the steps of training end in a snapshot's history: by PyTorch's annotations, by call stacks, or by labels."""

from bisect import bisect_right
from dataclasses import dataclass

from .history import History

ANNOTATIONS, FRAMES = "PyTorch's annotations", "the call stacks of torch/optim"
_STEP = "Optimizer.step#"


@dataclass(frozen=True)
class Span:
    """One step: the events from `begin` up to `end`, without that; the first one begins with the history."""

    number: int
    begin: int
    end: int


@dataclass(frozen=True)
class Steps:
    """The steps that ended in a history, and by what they were found: "" if there is none."""

    spans: tuple[Span, ...] = ()
    found_by: str = ""

    def __len__(self) -> int:
        return len(self.spans)


def steps_of(history: History) -> Steps:
    """The steps of a history; several optimizers that step with nothing allocated between them make one."""
    for found_by, steps in ((ANNOTATIONS, _of_annotations(history)), (FRAMES, _of_frames(history))):
        joined = _joined(history, steps)
        if joined:
            begins = [0, *(end for _, end in joined)]
            spans = [Span(i + 1, begin, end) for i, (begin, (_, end)) in enumerate(zip(begins, joined))]
            return Steps(tuple(spans), found_by)
    return Steps()


def _of_annotations(history: History) -> list[tuple[int, int]]:
    """For each optimizer's step the numbers of the first event in it and of the first one behind it."""
    times: list[int] = [entry.get("time_us", -1) for entry in history.entries]
    if -1 in times or times != sorted(times):
        return []
    found, begun = [], {}
    for one in sorted(history.annotations, key=lambda one: one["time_us"]):
        if not one["name"].startswith(_STEP):
            continue
        if one["stage"] == "START":
            begun[one["name"]] = one["time_us"]
        elif (begin := begun.pop(one["name"], None)) is not None:
            found.append((bisect_right(times, begin), bisect_right(times, one["time_us"])))
    return [(begin, end) for begin, end in found if end > 0]


def _of_frames(history: History) -> list[tuple[int, int]]:
    """The same by the stretches of events below a `step` in torch/optim, or of a simulated GPU's phase "step"."""
    found: list[tuple[int, int]] = []
    for position, each in enumerate(history.of_entry):
        if each is None:
            continue
        stack, begin = history.stack_of(position), found[-1][0] if found else len(history)
        is_step = stack.label("phase") == "step" and each.made_at >= min(begin, position)
        if is_step or stack.passes("optim/*:step"):
            if found and not _makes(history, found[-1][1], position):
                found[-1] = found[-1][0], position + 1
            else:
                found.append((position, position + 1))
    return found


def _joined(history: History, steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for begin, end in steps:
        if joined and not _makes(history, joined[-1][1], begin):
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def _makes(history: History, begin: int, end: int) -> bool:
    """Whether something is allocated between two events."""
    return any(entry["action"] == "alloc" for entry in history.entries[begin:end])
