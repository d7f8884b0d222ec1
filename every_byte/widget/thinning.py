"""A dense curve as few points: cut where it jumps, and thinned where the eye sees no difference."""

import heapq
import itertools
from collections.abc import Iterator, Sequence

import torch

from .curves import MOST_POINTS

JUMP = 1 / 50  # of the range: a step that long between two neighbours is no line
DEVIATION = 1 / 2000  # of the range: what is left out lies that near to the line that is drawn, half a pixel of 1000
ENOUGH = 4000  # points, evenly among those given, stand for all: a quarter of a pixel of 1000 apart


def pieces(
    x: Sequence[float] | torch.Tensor, y: Sequence[float] | torch.Tensor, *, most: int = MOST_POINTS
) -> list[tuple[list[float], list[float]]]:
    """The pieces of a curve through dense points, each (list of x, list of y), for `Curve(points=…)`.

    x and y are sequences or tensors in the order in which the pen goes; x need not grow, so a curve may fold back. Of
    each piece its two ends are kept, and then, again and again, the point that lies farthest from the line drawn so
    far, until none lies farther than DEVIATION of the ranges or `most` points are kept: kinks stay sharp.

    Shapes: x[n], y[n]
    Counts: `most` points at most, in all pieces together.
    Raises: ValueError for points that are not dense: more jumps than `most` points can show.
    """
    points = torch.stack([torch.as_tensor(x, dtype=torch.float64), torch.as_tensor(y, dtype=torch.float64)])
    low, high = points.amin(1, keepdim=True), points.amax(1, keepdim=True)
    scaled = (points - low) / (high - low).where(high > low, 1)
    jumps = (scaled.diff(dim=1).abs().amax(0) > JUMP).nonzero().flatten().tolist()
    starts, stops = [0, *(i + 1 for i in jumps)], [*jumps, points.shape[1] - 1]
    if 2 * len(starts) > most:
        raise ValueError(
            f"x and y must be dense, neighbours nearer than 1/{round(1 / JUMP)} of their range: got {len(jumps)} jumps "
            f"in {points.shape[1]} points; compute more points."
        )
    looked_at = sorted({*range(0, points.shape[1], points.shape[1] // ENOUGH + 1), *starts, *stops})
    place = {index: i for i, index in enumerate(looked_at)}
    ends = [(place[start], place[stop]) for start, stop in zip(starts, stops, strict=True)]
    points, scaled = points[:, looked_at], scaled[:, looked_at]
    kept = {end for pair in ends for end in pair}
    kept.update(itertools.islice(_farthest_first(scaled, ends), most - len(kept)))
    drawn = [points[:, [i for i in sorted(kept) if first <= i <= last]] for first, last in ends]
    return [(xs, ys) for xs, ys in (piece.unique_consecutive(dim=1).tolist() for piece in drawn)]


def _farthest_first(points: torch.Tensor, ends: list[tuple[int, int]]) -> Iterator[int]:
    """Indices of the points to keep, the most needed first (Ramer, Douglas and Peucker's way)."""
    waiting: list[tuple[float, int, int, int]] = []

    def examine(first: int, last: int) -> None:
        if last - first < 2:
            return
        x, y = points[:, first + 1 : last] - points[:, first, None]
        x_end, y_end = (points[:, last] - points[:, first]).tolist()
        along = (x * x_end + y * y_end).div_(max(x_end**2 + y_end**2, 1e-30)).clamp_(0, 1)
        squared, at = ((x - along * x_end) ** 2 + (y - along * y_end) ** 2).max(0)
        heapq.heappush(waiting, (-(float(squared) ** 0.5), first, first + 1 + int(at), last))

    for first, last in ends:
        examine(first, last)
    while waiting and -waiting[0][0] > DEVIATION:
        _, first, middle, last = heapq.heappop(waiting)
        yield middle
        examine(first, middle)
        examine(middle, last)
