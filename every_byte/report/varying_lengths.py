"""Batches of varying length, for which segments of one length are of little use to the next."""

from collections import Counter

from every_byte.ledger.source_lines import Line
from every_byte.palette import Category
from every_byte.units import in_gib

from .finding import Finding, named
from .run import Run

_LESS = 20  # one in so many of the bytes in segments is to be saved
_LEAST = 3  # lengths: a last, shorter batch is one of two
_MOST_SHOWN = 4


def varying_lengths(run: Run) -> Finding | None:
    """That batches vary in one dimension, where a replay with expandable segments reserves a twentieth less, or fits.

    Counts: inputs of modules that have as many dimensions as another step's, of the same type.
    """
    shapes = _shapes(run)
    if len(shapes) < _LEAST or (found := run.with_expandable_if_cut_up) is None:
        return None
    own = run.fits.own
    saved_bytes = own.needed_bytes - found.needed_bytes
    if own.fits and saved_bytes * _LESS < own.needed_bytes or not found.fits:
        return None
    line = _line_of(run, shapes)
    at = named(run, line, before="; ", after="")
    few = ", ".join("×".join(map(str, shape)) for shape in shapes[:_MOST_SHOWN])
    more = f" and {len(shapes) - _MOST_SHOWN:,d} more" * (len(shapes) > _MOST_SHOWN)
    return Finding(
        "varying lengths",
        max(saved_bytes, 0),
        f"Batches vary in length ({few}{more}{at}), and memory cut for one does not fit the next: PyTorch "
        f"reserves {in_gib(own.needed_bytes)} GiB for {in_gib(own.in_use_bytes)} in use. With "
        f"PYTORCH_ALLOC_CONF=expandable_segments:True it reserves {in_gib(found.needed_bytes)}, as a replay shows. "
        "Padding to a few lengths helps as well.",
        line,
    )


def _line_of(run: Run, shapes: list[tuple[int, ...]]) -> Line | None:
    """The line that made the most of the batches."""
    made, tensors = run.trace.attribution().made, run.trace.owners.tensors
    numbers = [number for number, tensor in tensors.items() if number in made and tensor[0] in shapes]
    lines = Counter(line for number in numbers if (line := made[number].stack.own) is not None)
    return lines.most_common(1)[0][0] if lines else None


def _shapes(run: Run) -> list[tuple[int, ...]]:
    """The shapes of the inputs that vary, as they came, each once: those that differ in one dimension alone."""
    trace = run.trace
    by_kind: dict[tuple[int, str], Counter[tuple[int, ...]]] = {}
    for number, roles in sorted(trace.owners.roles.items()):
        tensor = trace.owners.tensors.get(number)
        if tensor is None or tensor[0] is None or not any(role.category == Category.INPUTS for role in roles):
            continue
        shape = tuple(tensor[0])
        by_kind.setdefault((len(shape), str(tensor[1])), Counter())[shape] += 1
    families = (_family(list(shapes)) for (n, _), shapes in by_kind.items() if n)
    return max(families, key=len, default=[])


def _family(shapes: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The most shapes that differ in one dimension alone."""
    best: list[tuple[int, ...]] = []
    for dim in range(len(shapes[0])):
        alike: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for shape in shapes:
            alike.setdefault(shape[:dim] + shape[dim + 1 :], []).append(shape)
        best = max([best, *alike.values()], key=len)
    return best
