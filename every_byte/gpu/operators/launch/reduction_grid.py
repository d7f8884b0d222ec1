"""How CUDA cuts up a sum over a tensor, and the staging memory it needs when several blocks share one output.

PyTorch looks at a reduction as a loop nest (`TensorIterator`): dimensions sorted so that the reduced ones and the
shortest strides come first, neighbours merged where one stride continues the other. From that nest, the number of
multiprocessors and the threads that each can hold, it chooses a grid. If one output's inputs are spread over several
thread blocks, these meet in a staging buffer in global memory, and a semaphore for each output tells who came last.

Source: aten/src/ATen/native/cuda/Reduce.cuh (shipped with torch, setReduceConfig) and TensorIterator.cpp; held to the
CUDA build by tests/gpu/operators/test_takes.py.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from every_byte.gpu.memory.specs import GPUSpec

from .tensor_iterator import sorted_dims
from .units import WARP, div_up

MAX_THREADS = 512
MAX_OFFSET = 2**31 - 1
SEMAPHORE_BYTES = 4


@dataclass(frozen=True)
class Nest:
    """The loops of a reduction, innermost first: sizes, and strides in bytes of the output and the input."""

    shape: tuple[int, ...]
    output_strides: tuple[int, ...]
    input_strides: tuple[int, ...]
    output_bytes: int
    input_bytes: int
    input_offset: int = 0

    @property
    def reduced(self) -> int:
        """How many dimensions are reduced: they come first."""
        return sum(stride == 0 for stride in self.output_strides)

    @property
    def n_outputs(self) -> int:
        return prod(n for n, stride in zip(self.shape, self.output_strides, strict=True) if stride)

    def fits_32_bit(self) -> bool:
        extents = ([(n - 1) * s for n, s in zip(self.shape, strides, strict=True)] for strides in self._strides())
        return prod(self.shape) <= MAX_OFFSET and all(1 + sum(e) <= MAX_OFFSET for e in extents)

    def halves(self) -> tuple["Nest", "Nest"]:
        """Cut in two at the dimension that reaches farthest, as PyTorch does until 32-bit offsets suffice."""
        reach = [max((n - 1) * s[i] for s in self._strides()) for i, n in enumerate(self.shape)]
        dim = max(range(len(reach)), key=lambda i: (reach[i], i))
        first = self.shape[dim] // 2
        offset = self.input_offset + first * self.input_strides[dim]
        return self._narrow(dim, first), replace(self._narrow(dim, self.shape[dim] - first), input_offset=offset)

    def _strides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.output_strides, self.input_strides

    def _narrow(self, dim: int, size: int) -> "Nest":
        return replace(self, shape=(*self.shape[:dim], size, *self.shape[dim + 1 :]))


def loop_nest(
    shape: Sequence[int],
    strides: Sequence[int],
    dims: Collection[int],
    input_bytes: int,
    output_bytes: int,
    offset: int = 0,
) -> Nest:
    """The nest of a reduction of a tensor over `dims` into a contiguous output.

    Shapes: `shape` and `strides` (in elements) of the input; `dims` non-negative.
    Unit:   `input_bytes`, `output_bytes`: bytes per element; `offset`: the input's storage offset in elements.
    """
    out_strides, step = [0] * len(shape), output_bytes
    for dim in reversed(range(len(shape))):
        if dim not in dims:
            out_strides[dim], step = step, step * shape[dim]
    in_strides = [stride * input_bytes for stride in strides]
    order = _sorted_dims(shape, out_strides, in_strides)
    loops = _merged([[shape[i], out_strides[i], in_strides[i]] for i in order])
    sizes, of_output, of_input = (tuple(loop[i] for loop in loops) for i in range(3))
    return Nest(sizes, of_output, of_input, output_bytes, input_bytes, offset * input_bytes)


def _sorted_dims(shape: Sequence[int], out_strides: Sequence[int], in_strides: Sequence[int]) -> list[int]:
    """The reduced dimensions first, then by strides, the output's before the input's."""

    def compare(a: int, b: int) -> int:
        if (out_strides[a] == 0) != (out_strides[b] == 0):
            return 1 if out_strides[b] == 0 else -1
        for strides in (out_strides, in_strides):
            if strides[a] == 0 or strides[b] == 0:
                continue
            if strides[a] != strides[b]:
                return 1 if strides[a] > strides[b] else -1
            if shape[a] > shape[b]:
                return 1
        return 0

    return sorted_dims(len(shape), compare)


def _merged(loops: list[list[int]]) -> list[list[int]]:
    result: list[list[int]] = []
    for loop in loops:
        if result and _continues(result[-1], loop):
            if result[-1][0] == 1:
                result[-1][1:] = loop[1:]
            result[-1][0] *= loop[0]
        else:
            result.append(list(loop))
    return result


def _continues(inner: list[int], outer: list[int]) -> bool:
    if inner[0] == 1 or outer[0] == 1:
        return True
    return all(inner[0] * inner[k] == outer[k] for k in (1, 2))


def staging(nest: Nest, spec: GPUSpec, accumulator_bytes: int, input_vector: int) -> Iterator[tuple[int, int]]:
    """For each kernel launch, the bytes of its staging buffer and of its semaphores; (0, 0) if it needs none.

    `accumulator_bytes` is the size of the type in which it adds up; `input_vector` how many elements one load takes.
    """
    if nest.fits_32_bit():
        yield _launch(nest, spec, accumulator_bytes, input_vector)
        return
    for half in nest.halves():
        yield from staging(half, spec, accumulator_bytes, input_vector)


def _launch(nest: Nest, spec: GPUSpec, accumulator_bytes: int, input_vector: int) -> tuple[int, int]:
    n_outputs = nest.n_outputs
    n_inputs = prod(nest.shape) // n_outputs
    along_input, dim0, dim1, vector = _block_limits(nest, n_inputs, input_vector)
    width, height = _block(dim0, dim1, (MAX_THREADS if nest.input_bytes < 16 else MAX_THREADS // 2) // vector)
    step_input, step_output = (width, 1) if along_input else (1, width)
    per_thread = div_up(n_inputs, step_input)
    across_warps = per_thread >= min(height * 16, 256)
    if across_warps:
        step_input *= height
        per_thread = div_up(n_inputs, step_input)
    else:
        step_output *= height
    grid = div_up(n_outputs // vector, step_output)
    target = spec.multiprocessors * (spec.threads_per_multiprocessor // (width * height))
    if not across_warps or per_thread < 256 or grid > target:
        return 0, 0
    blocks = max(min(div_up(target, grid), div_up(per_thread, 16)), div_up(per_thread, 256))
    if blocks <= 1:
        return 0, 0
    buffer = accumulator_bytes * n_outputs * blocks
    return (buffer if along_input else buffer * width * vector), SEMAPHORE_BYTES * grid


def _block_limits(nest: Nest, n_inputs: int, input_vector: int) -> tuple[bool, int, int, int]:
    """Whether threads lie along the inputs of one output, the block's largest extents, and outputs per thread."""
    if not nest.shape:
        return True, 1, 1, 1
    reduced, strides = nest.reduced, nest.input_strides
    along_input = reduced == len(nest.shape) or strides[0] < strides[reduced]
    if along_input:
        dim0, dim1, fastest = n_inputs, nest.n_outputs, strides[0]
    else:
        dim0, dim1, fastest = nest.n_outputs, n_inputs, strides[reduced]
    vector = 1
    if fastest == nest.input_bytes:
        if along_input and dim0 >= 128 and reduced == 1:
            dim0 //= input_vector
        elif not along_input:
            vector = _output_vector(nest)
            dim0 //= vector
    return along_input, dim0, dim1, vector


def _output_vector(nest: Nest) -> int:
    """How many neighbouring outputs one thread can take: 4, 2 or 1, as alignment allows."""
    index = nest.reduced
    lengths = [nest.input_offset // nest.input_bytes, nest.shape[index]]
    lengths += [s // nest.input_bytes for i, s in enumerate(nest.input_strides) if i != index]
    return next(v for v in (4, 2, 1) if all(n % v == 0 for n in lengths))


def _block(dim0: int, dim1: int, max_threads: int) -> tuple[int, int]:
    dim0 = _power_below(dim0) if dim0 < max_threads else max_threads
    dim1 = _power_below(dim1) if dim1 < max_threads else max_threads
    height = min(dim1, max_threads // min(dim0, WARP))
    return min(dim0, max_threads // height), height


def _power_below(n: int) -> int:
    """The largest power of two that is at most n; 1 for 0."""
    return 1 << (max(n, 1).bit_length() - 1)
