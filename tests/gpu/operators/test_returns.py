"""What plain cases of slow operations return on meta tensors: as PyTorch says, there or on the CPU."""

import math
import random
import re

import pytest
import torch

from every_byte.gpu.operators.registry import RETURNS
from utils import SimulatedGPU

aten = torch.ops.aten
TYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def described(results):
    """Of each result, or of the one that there is, what an allocation and what follows depend on."""
    results = results if isinstance(results, tuple) else (results,)
    return [x if x is None else (x.dtype, tuple(x.shape), steps_of(x)) for x in results]


def steps_of(x):
    """The strides that say where an element is: of dimensions of several elements, in a tensor that has any."""
    return [step for n, step in zip(x.shape, x.stride(), strict=True) if n > 1 and x.numel()]


def both(func, *args, theirs=lambda x: x, **options):
    """By the kernel and by PyTorch, whose first argument is `theirs` of it, each described, or the error."""
    found = []
    for run, first in ((RETURNS[func], args[0]), (func, theirs(args[0]))):
        try:
            found.append(described(run(first, *args[1:], **options)))
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            found.append(type(error))
    return found


def on_cpu(x):
    """One with memory, that lies as the tensor does."""
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)


def norm_of(rng):
    """Arguments of layer_norm: x[..., *shape], with what a reader may do wrong now and then."""
    shape = [rng.randint(1, 4) for _ in range(rng.randint(1, 2))]
    dtype = rng.choice(TYPES)
    x = torch.empty(*(rng.randint(0, 3) for _ in range(rng.randint(0, 2))), *shape, dtype=dtype, device="meta")
    if rng.random() < 0.2:  # every second element of what is twice as long
        x = torch.cat([x, x], -1)[..., ::2]
    of_elements = [
        rng.choice([None, torch.empty(shape, dtype=rng.choice([dtype, torch.float32]), device="meta")]) for _ in "wb"
    ]
    return x, shape, *of_elements


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_layer_norm(seed):
    rng = random.Random(seed)
    for _ in range(20):
        x, shape, weight, bias = norm_of(rng)
        mine, theirs = both(aten.native_layer_norm.default, x, shape, weight, bias, 1e-5)
        assert mine == theirs
        if isinstance(mine, type):
            continue
        y, mean, deviation = aten.native_layer_norm.default(x, shape, weight, bias, 1e-5)
        mask = [True, rng.random() < 0.7 and weight is not None, rng.random() < 0.7 and bias is not None]
        gradient = torch.empty_like(y) if rng.random() < 0.8 else torch.empty_like(y, dtype=torch.float32)
        args = (gradient, x, shape, mean, deviation, weight, bias, mask)
        mine, theirs = both(aten.native_layer_norm_backward.default, *args)
        assert mine == theirs


def test_a_norm_of_the_wrong_shape_is_refused_as_before():
    with SimulatedGPU("a100-80gb") as gpu:
        x = torch.empty(2, 4, device=gpu.device)
        with pytest.raises(RuntimeError, match="normalized_shape"):
            torch.nn.functional.layer_norm(x, (3,))


@pytest.mark.parametrize("eps", [None, 1e-5])
def test_an_rms_norm_takes_the_same_with_an_epsilon_of_ones_own(eps):
    with SimulatedGPU("a100-80gb") as gpu:
        x, weight = torch.empty(6, 4, device=gpu.device).t(), torch.ones(6, device=gpu.device)
        y = torch.nn.functional.rms_norm(x, (6,), weight, eps)
        taken = [event.n_bytes for event in gpu.trace if event.action == "alloc"][-3:]
    assert y.is_contiguous()
    assert taken == [4 * 6 * 4, 4 * 6 * 4, 4 * 4]  # a contiguous copy of the input, the result, a number a row


LIES = {
    "as it is": lambda shape, dtype: torch.empty(shape, dtype=dtype, device="meta"),
    "turned": lambda shape, dtype: torch.empty(shape[::-1], dtype=dtype, device="meta").permute(
        tuple(reversed(range(len(shape))))
    ),
    "channels last": lambda shape, dtype: torch.empty(shape, dtype=dtype, device="meta").to(
        memory_format={4: torch.channels_last, 5: torch.channels_last_3d}.get(len(shape), torch.preserve_format)
    ),
}


def tensor_of(rng, fewest_dims, smallest):
    """Of up to five dimensions, of any type, and however it lies."""
    sizes = [rng.randint(smallest, 3) for _ in range(rng.randint(fewest_dims, 5))]
    return LIES[rng.choice(list(LIES))](sizes, rng.choice([*TYPES, torch.int64]))


@pytest.mark.parametrize("seed", range(10))
def test_cat(seed):
    rng = random.Random(seed)
    for _ in range(40):
        sizes = [rng.randint(0, 3) for _ in range(rng.randint(1, 5))]
        dim = rng.randint(-len(sizes) - 1, len(sizes))
        parts = []
        form = rng.choice(list(LIES))
        for _ in range(rng.randint(0, 4)):
            own = list(sizes)
            own[rng.randrange(len(own)) if rng.random() < 0.1 else dim % len(own)] = rng.randint(0, 3)
            dtype = torch.float32 if rng.random() < 0.9 else torch.bfloat16
            parts.append(LIES[form if rng.random() < 0.8 else "as it is"](own, dtype))
        mine, theirs = both(aten.cat.default, parts, dim)
        assert mine == theirs, (parts, dim)


@pytest.mark.parametrize("seed", range(10))
def test_norms_over_some_dimensions(seed):
    rng = random.Random(seed)
    for _ in range(40):
        x = tensor_of(rng, fewest_dims=0, smallest=0)
        order = rng.choice([2, 1, 0, -1, math.inf, 2.5])
        dim = rng.choice([None, [], rng.randint(-6, 5), [rng.randint(-6, 5) for _ in range(2)]])
        args, wishes = (order, dim, rng.choice([True, False])), {"dtype": rng.choice([None, None, torch.float32])}
        mine, theirs = both(aten.linalg_vector_norm.default, x, *args, theirs=on_cpu, **wishes)
        both_refuse = isinstance(mine, type) and isinstance(theirs, type)  # what is wrong twice, in either's words
        assert mine == theirs or both_refuse, (x.shape, x.dtype, args, wishes)


@pytest.mark.parametrize("seed", range(10))
def test_masked_fill_and_dropout(seed):
    rng = random.Random(seed)
    for _ in range(40):
        x = tensor_of(rng, fewest_dims=1, smallest=1)
        mask = torch.empty(x.shape[rng.randint(0, x.dim()) :], dtype=torch.bool, device="meta")
        number = rng.choice([0, 0.0, -3.5, *([-math.inf, math.nan] if x.dtype.is_floating_point else [])])
        mine = described(RETURNS[aten.masked_fill.Scalar](x, mask, number))
        theirs = described(aten.masked_fill.Scalar(on_cpu(x), on_cpu(mask), number))
        assert mine == theirs, (x.shape, x.stride(), mask.shape, number)
        if x.dtype.is_floating_point:
            args = (x, rng.choice([0.0, 0.1, 1.0]), rng.choice([True, False]))
            mine, theirs = both(aten.native_dropout.default, *args)
            assert mine == theirs, args


@pytest.mark.parametrize("form", LIES)
@pytest.mark.parametrize("n_dims", [2, 3, 4, 5])
def test_the_gradient_of_dropout_is_contiguous_unless_channels_last(n_dims, form):
    gradient = LIES[form]([2, 3, 4, 5, 6][:n_dims], torch.float32)
    (found,) = described(RETURNS[aten.native_dropout_backward.default](gradient, gradient, 2.0))
    expected = torch.empty(gradient.shape)
    if form == "channels last" and n_dims > 3:
        expected = LIES[form](gradient.shape, torch.float32)
    assert found[2] == steps_of(expected)


@pytest.mark.parametrize("seed", range(10))
def test_zeros_like_and_what_is_filled_in_place(seed):
    rng = random.Random(seed)
    for _ in range(40):
        x = tensor_of(rng, fewest_dims=0, smallest=0)
        dtype, layout = rng.choice([None, *TYPES]), rng.choice([None, torch.strided])
        memory_format = rng.choice([None, torch.preserve_format, torch.contiguous_format, torch.channels_last])
        wishes = dict(dtype=dtype, layout=layout, pin_memory=rng.choice([None, False]), memory_format=memory_format)
        mine, theirs = both(aten.zeros_like.default, x, **wishes)
        assert mine == theirs, (x.shape, x.stride(), wishes)
        for func, args in (
            (aten.normal_.default, (0.0, rng.choice([1.0, 0.02, -1.0]))),
            (aten.tril_.default, (rng.randint(-2, 2),)),
            (aten.triu_.default, (rng.randint(-2, 2),)),
        ):
            mine, theirs = both(func, x, *args)
            assert mine == theirs, (func, x.shape, args)
            assert isinstance(mine, type) or RETURNS[func](x, *args) is x


@pytest.mark.parametrize("seed", range(10))
def test_loss_of_classes(seed):
    rng = random.Random(seed)
    for _ in range(20):
        rows, classes = rng.randint(1, 4), rng.randint(1, 4)
        x = LIES[rng.choice(["as it is", "turned"])]([rows, classes], rng.choice(TYPES))
        target = torch.empty(rows + (rng.random() < 0.1), dtype=torch.int64, device="meta")
        weight = rng.choice([None, None, torch.empty(classes, dtype=x.dtype, device="meta")])
        reduction = rng.randint(0, 2)
        args = (x, target, weight, reduction, -100)
        mine, theirs = both(aten.nll_loss_forward.default, *args)
        assert mine == theirs, args
        if isinstance(mine, type):
            continue
        loss, total = aten.nll_loss_forward.default(*args)
        dtype = x.dtype if rng.random() < 0.9 else torch.float32
        args = (torch.empty_like(loss, dtype=dtype), x, target, weight, reduction, -100, total)
        mine, theirs = both(aten.nll_loss_backward.default, *args)
        assert mine == theirs, args


FILL = {
    "fill_": lambda x, mask, value: x.fill_(value),
    "masked_fill": lambda x, mask, value: x.masked_fill(mask, value),
    "masked_fill_": lambda x, mask, value: x.masked_fill_(mask, value),
}


@pytest.mark.parametrize("fill", FILL.values(), ids=FILL)
@pytest.mark.parametrize(
    ("dtype", "value", "way_out"),
    [(torch.float16, -1e9, "-torch.inf"), (torch.bfloat16, 1e39, "torch.inf"), (torch.float32, -1e300, "-torch.inf")],
)
def test_a_number_too_large_to_fill_with_is_refused_as_where_pytorch_has_numbers(fill, dtype, value, way_out):
    with pytest.raises(RuntimeError, match="overflow"):
        fill(torch.zeros(2, dtype=dtype), torch.tensor([True, False]), value)
    with SimulatedGPU("a100-80gb") as gpu:
        x, mask = torch.empty(2, dtype=dtype, device=gpu.device), torch.ones(2, dtype=torch.bool, device=gpu.device)
        message = f"got value={value:g} for {dtype}, whose largest is {torch.finfo(dtype).max:g}; take {way_out} or "
        with pytest.raises(RuntimeError, match=re.escape(message)):
            fill(x, mask, value)
        for fits in (torch.finfo(dtype).min, torch.inf, -torch.inf, torch.nan):
            assert fill(x, mask, fits).dtype == dtype
