"""How results of elementwise operators lie: as PyTorch's TensorIterator lets them lie on the CPU."""

import random

import pytest
import torch

from every_byte.gpu.operators import families  # noqa: F401  (fills the registry)
from every_byte.gpu.operators.launch.tensor_iterator import result_strides
from every_byte.gpu.operators.registry import RETURNS

aten = torch.ops.aten
ACTIVATIONS = {
    aten.threshold_backward.default: (0,),
    aten.leaky_relu_backward.default: (0.1, False),
    aten.gelu_backward.default: (),
    aten.silu_backward.default: (),
    aten.tanh_backward.default: (),
    aten.softplus_backward.default: (1.0, 20.0),
    aten.hardtanh_backward.default: (-1.0, 1.0),
    aten.hardswish_backward.default: (),
    aten.hardsigmoid_backward.default: (),
}
FORMS = {
    "as it is": lambda shape: torch.empty(shape),
    "transposed": lambda shape: torch.empty(shape[::-1]).permute(*reversed(range(len(shape)))),
    "matrices transposed": lambda shape: torch.empty(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2),
    "slice": lambda shape: torch.empty(*shape[:-1], shape[-1] + 2)[..., : shape[-1]],
    "number": lambda shape: torch.empty(()).expand(shape),
    "row": lambda shape: torch.empty(shape[-1]).expand(shape),
    "column": lambda shape: torch.empty(*shape[:-1], 1).expand(shape),
    "row to broadcast": lambda shape: torch.empty(shape[-1]),
    "column to broadcast": lambda shape: torch.empty(*shape[:-1], 1),
}


def random_operands(rng: random.Random) -> list[torch.Tensor]:
    shape = [rng.choice([1, 2, 3, 4, 5]) for _ in range(rng.randint(2, 4))]
    return [FORMS[rng.choice(list(FORMS))](shape) for _ in range(2)]


@pytest.mark.parametrize("seed", range(10))
def test_strides_are_those_of_pytorch(seed):
    rng = random.Random(seed)
    for _ in range(200):
        one, other = random_operands(rng)
        expected = one * other
        assert result_strides(expected.shape, [one, other]) == expected.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("func", [aten.mul.Tensor, aten.gt.Tensor, aten.sigmoid_backward.default], ids=str)
def test_kernels_give_shape_type_and_strides(func, dtype):
    rng = random.Random(0)
    for _ in range(100):
        one, other = random_operands(rng)
        if func is aten.sigmoid_backward.default and one.shape != other.shape:
            continue
        expected = func(one.to(dtype), other.to(dtype)) if dtype == torch.float32 else func(one, other)
        result = RETURNS[func](*(_on_meta(x, dtype) for x in (one, other)))
        assert (result.shape, result.stride()) == (expected.shape, expected.stride())
        assert result.dtype == (torch.bool if func is aten.gt.Tensor else dtype)


@pytest.mark.parametrize("func", [aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor], ids=str)
def test_operands_of_two_types_give_the_common_one(func):
    rng = random.Random(0)
    for _ in range(100):
        one, other = (x.to(rng.choice([torch.float16, torch.bfloat16, torch.float32])) for x in random_operands(rng))
        expected = func(one, other)
        result = RETURNS[func](*(_on_meta(x, x.dtype) for x in (one, other)))
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        if one.shape == other.shape and one.is_contiguous() and other.is_contiguous():
            assert result.stride() == expected.stride()


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparison_with_a_number(name):
    func = getattr(aten, name).Scalar
    rng = random.Random(0)
    for _ in range(50):
        x, _ = random_operands(rng)
        expected = func(x, 0)
        result = RETURNS[func](_on_meta(x, torch.float32), 0)
        assert (result.shape, result.dtype) == (expected.shape, torch.bool)
        several = [dim for dim, n in enumerate(x.shape) if n > 1]
        assert [result.stride(dim) for dim in several] == [expected.stride(dim) for dim in several]


@pytest.mark.parametrize("seed", range(3))
def test_gradients_of_activations_lie_as_on_the_cpu(seed):
    rng = random.Random(seed)
    for func, more in ACTIVATIONS.items():
        for _ in range(50):
            shape = [rng.choice([1, 2, 3, 4, 5]) for _ in range(rng.randint(2, 4))]
            gradient, x = (FORMS[rng.choice(list(FORMS)[:7])](shape) for _ in range(2))
            result = RETURNS[func](_on_meta(gradient, torch.float32), _on_meta(x, torch.float32), *more)
            assert result.stride() == func(gradient, x, *more).stride(), func


def _on_meta(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=dtype, device="meta")


ONE_OPERAND = {
    "neg": (), "abs": (), "sqrt": (), "rsqrt": (), "exp": (), "clamp": (0.0, 1.0), "clamp_min": (0.0,),
    "clamp_max": (1.0,),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_OPERAND)
def test_what_one_operand_gives_lies_as_on_the_cpu_or_is_the_operand(name):
    rng, others = random.Random(0), ONE_OPERAND[name]
    func, in_place = (getattr(aten, each).default for each in (name, f"{name}_"))
    for _ in range(100):
        dtype = rng.choice([torch.float32, torch.bfloat16])
        x = random_operands(rng)[0].to(dtype)
        expected, result = func(x, *others), RETURNS[func](_on_meta(x, dtype), *others)
        assert (result.shape, result.dtype) == (expected.shape, dtype)
        assert [a for n, a in zip(x.shape, result.stride(), strict=True) if n > 1] == [
            a for n, a in zip(x.shape, expected.stride(), strict=True) if n > 1
        ]
        there = _on_meta(x, dtype)
        assert RETURNS[in_place](there, *others) is there


@pytest.mark.parametrize("func", [aten.addcmul.default, aten.addcdiv.default], ids=str)
def test_three_operands_give_what_lies_as_on_the_cpu(func):
    rng = random.Random(0)
    for _ in range(100):
        shape = [rng.choice([1, 2, 3, 4]) for _ in range(3)]
        operands = [FORMS[rng.choice(list(FORMS))](shape) for _ in range(3)]
        expected = func(*operands, value=2.0)
        result = RETURNS[func](*(_on_meta(x, torch.float32) for x in operands), value=2.0)
        assert (result.shape, result.stride()) == (expected.shape, expected.stride())


@pytest.mark.parametrize(
    ("func", "others", "options"),
    [
        (aten.clamp.default, (), {}),
        (aten.clamp_.default, (None, None), {}),
        (aten.add.Tensor, (torch.ones(3, dtype=torch.float16, device="meta"),), {"alpha": 1j}),
        (aten.linalg_vector_norm.default, (1j,), {}),
    ],
    ids=str,
)
def test_what_pytorch_refuses_is_refused(func, others, options):
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        RETURNS[func](torch.ones(3, device="meta"), *others, **options)
