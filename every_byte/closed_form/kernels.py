"""What a kernel takes for itself, where its grid decides and no polynomial says it: the operator is called again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from every_byte.gpu.memory.calls import Called, called_again
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.simulated import SimulatedGPU

from .forms import Form, guessed, is_met
from .polynomials import Point


@dataclass(frozen=True)
class KernelForm:
    """The bytes that an operator takes beside its results, with shapes that are forms of the letters.

    Evaluated by a call of it, with empty tensors, on a simulated GPU of the kind.
    """

    call: Called
    numbers: tuple[Form, ...]
    spec: GPUSpec

    def at(self, point: Point) -> Fraction:
        """What it takes there for itself."""
        numbers = [form.at(point) for form in self.numbers]
        if any(n.denominator != 1 for n in numbers):
            raise ValueError(f"sizes of {self.call.func} must be whole numbers: they are not at {point}.")
        return Fraction(taken_by(self.call, tuple(map(int, numbers)), self.spec))

    @property
    def is_zero(self) -> bool:
        """Never: where it takes nothing is not known beforehand."""
        return False


@lru_cache(maxsize=4096)
def taken_by(call: Called, numbers: tuple[int, ...], spec: GPUSpec) -> int:
    """The bytes that a call takes beside its results, at the instant at which it holds most; 0 if nothing."""
    with SimulatedGPU(spec) as gpu:
        trace = gpu.trace
        begin = len(trace)
        result = called_again(call, numbers, gpu.device)
        events = trace.events[begin:]
        begin_of_call = max((i for i, e in enumerate(events) if e.operation == "aten::empty.memory_format"), default=-1)
        del result
    ends = {event.allocation for event in events if event.action == "free"}
    now = most = own = taken = 0
    sizes: dict[int, int] = {}
    for event in events[begin_of_call + 1 :]:
        if event.action == "alloc":
            sizes[event.allocation] = event.n_bytes
            now += event.n_bytes
            own += event.n_bytes * (event.allocation in ends)
        elif event.action == "free" and event.allocation in sizes:
            now -= sizes[event.allocation]
            own -= sizes[event.allocation]
        if now > most:
            most, taken = now, own
    return taken


def kernel_form(
    letters: Sequence[str], calls: Mapping[Point, Called], polynomials: Mapping[int, Form], spec: GPUSpec
) -> KernelForm | None:
    """The form of calls that differ in sizes alone; None where they differ in more, or where a size has no form.

    `polynomials` has what the sizes may be, by their places: where one is not met, a form is guessed.
    """
    first = next(iter(calls.values()), None)
    if first is None or any(call[:2] != first[:2] for call in calls.values()):
        return None
    points, forms = list(calls), []
    for i in range(len(first.numbers)):
        values = [call.numbers[i] for call in calls.values()]
        form = polynomials.get(i)
        if form is None or not is_met(form, points, values):
            form = guessed(letters, points, values)
        if form is None:
            return None
        forms.append(form)
    return KernelForm(first._replace(numbers=()), tuple(forms), spec)
