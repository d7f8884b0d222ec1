"""The order of dimensions that PyTorch's TensorIterator chooses, for elementwise operators and for reductions."""

from collections.abc import Callable


def sorted_dims(n_dims: int, compare: Callable[[int, int], int]) -> list[int]:
    """Dimensions, the fastest first, by an insertion sort that leaves in place what `compare` does not decide.

    `compare(a, b)` is positive if a should come after b, negative if before, 0 if it cannot tell.
    Source: reorder_dimensions in aten/src/ATen/TensorIterator.cpp.
    """
    order = list(reversed(range(n_dims)))
    for i in range(1, n_dims):
        right = i
        for left in range(i - 1, -1, -1):
            comparison = compare(order[left], order[right])
            if comparison > 0:
                order[left], order[right] = order[right], order[left]
                right = left
            elif comparison < 0:
                break
    return order
