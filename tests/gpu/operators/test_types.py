"""What depends on the type of numbers, or on the card's: figures of the CUDA build, on the card that is named."""

from contextlib import nullcontext

import pytest
import torch

from utils import SimulatedGPU

WORKSPACE = 8_519_680


def test_an_outer_product_of_complex_numbers_is_cublass():
    with SimulatedGPU("a100-80gb") as gpu:
        left = torch.randn(4, 300, 1, device=gpu.device, dtype=torch.complex64)
        right = torch.randn(4, 1, 200, device=gpu.device, dtype=torch.complex64)
        kept = torch.bmm(left, right)
        assert gpu.memory_allocated() == 10_456_064
        del kept


def test_an_outer_product_of_real_numbers_needs_no_workspace():
    with SimulatedGPU("a100-80gb") as gpu:
        for dtype in (torch.float64, torch.float16):
            torch.bmm(
                torch.empty(4, 300, 1, device=gpu.device, dtype=dtype),
                torch.empty(4, 1, 200, device=gpu.device, dtype=dtype),
            )
        assert gpu.memory_allocated() == 0


def test_the_largest_of_several_tensors_need_a_buffer():
    with SimulatedGPU("a100-80gb") as gpu:
        tensors = [torch.zeros(9, device=gpu.device) for _ in range(7)]
        torch._foreach_max(tensors)
        assert [e.n_bytes for e in gpu.trace if e.action == "alloc"][7:] == [28, *[4] * 7]
        assert not gpu.unmodelled


def _float8(gpu):
    x = torch.empty(64, 64, device=gpu.device, dtype=torch.float8_e4m3fn)
    return x, torch.empty(64, 64, device=gpu.device, dtype=torch.float8_e4m3fn).t(), torch.ones((), device=gpu.device)


@pytest.mark.parametrize("name", ["t4-16gb", "a100-80gb", "rtx3090-24gb"])
def test_float8_is_not_multiplied_before_ada(name):
    with SimulatedGPU(name) as gpu:
        left, right, scale = _float8(gpu)
        with pytest.raises(RuntimeError, match="only supported .* 9.0 or 8.9.* has [78]"):
            torch._scaled_mm(left, right, scale, scale, out_dtype=torch.bfloat16)


@pytest.mark.parametrize(("name", "workspace"), [("l40s-48gb", WORKSPACE), ("h100-80gb", 33_554_432)])
def test_a_product_of_float8_leaves_the_workspace(name, workspace):
    with SimulatedGPU(name) as gpu:
        left, right, scale = _float8(gpu)
        for _ in range(2):
            kept = torch._scaled_mm(left, right, scale, scale, out_dtype=torch.bfloat16)
        assert gpu.memory_allocated() == 2 * 4096 + 512 + 8192 + workspace
        assert not gpu.unmodelled
        del kept


def _taken(gpu, run):
    """The sizes that a call asks for, in order."""
    before = len(gpu.trace)
    kept = run()
    sizes = [event.n_bytes for event in list(gpu.trace)[before:] if event.action == "alloc"]
    assert not gpu.unmodelled
    del kept
    return sizes


TAKEN = {  # recorded over the CUDA build for an h100
    "a truth squared": (lambda z: z(torch.bool, 1000).square(), [8000, 8000]),
    "an integer to a half": (lambda z: z(torch.int64, 1000) ** 0.5, [4000, 4000]),
    "truths counted": (lambda z: z(torch.bool, 30, 70).count_nonzero(), [8, 16800]),
    "logsumexp of integers": (lambda z: z(torch.uint8, 30, 70).logsumexp(1), [8400, 120, 120, 30, 8400, 120]),
    "logsumexp of complex numbers": (lambda z: z(torch.complex64, 30, 70).logsumexp(1), [120, 120, 30, 16800, 240]),
    "a list's magnitudes": (
        lambda z: torch._foreach_abs([z(torch.complex64, 5), z(torch.complex64, 70)]),
        [20, 40, 280, 560],
    ),
    "a list's roots": (lambda z: torch._foreach_sqrt([z(torch.complex64, 5)]), [40]),
    "a list's norms with gaps": (lambda z: torch._foreach_norm([z(torch.float32, 4, 6)[:, ::2]]), [4]),
    "sums of powers": (
        lambda z: torch._foreach_powsum([z(torch.float16, n) for n in (5, 70, 70000)], 2),
        [24, 2, 2, 2],
    ),
    "norms in float64": (
        lambda z: torch._foreach_norm([z(torch.float32, 4), z(torch.float32, 900_000)], dtype=torch.float64),
        [224, 8, 8],
    ),
    "a list's norms of complex numbers": (lambda z: torch._foreach_norm([z(torch.complex64, 1)]), [4, 8]),
    "a power written to another type": (
        lambda z: torch.pow(z(torch.uint8, 9), 2.0, out=z(torch.float64, 9)),
        [36],
    ),
    "the most frequent of one": (lambda z: torch.mode(z(torch.float32, 8, 8)[:, :1], 1), [32, 64]),
    "an outer product of two types": (
        lambda z: torch.bmm(z(torch.float32, 2, 3, 1), z(torch.float16, 3, 1, 4)),
        [96],
    ),
    "rrelu of a transposed one": (
        lambda z: torch.nn.functional.rrelu(z(torch.float32, 7, 300).t(), training=True),
        [8400, 8400, 8400],
    ),
    "the place of the largest of an expanded one": (lambda z: z(torch.uint8, 1, 1).expand(2, 1).argmax(), [8]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken_by_type(name):
    run, sizes = TAKEN[name]
    with SimulatedGPU("h100-80gb") as gpu:
        given = []

        def zeros(dtype, *shape):
            given.append(torch.zeros(*shape, dtype=dtype, device=gpu.device))
            return given[-1]

        assert _taken(gpu, lambda: run(zeros))[len(given) :] == sizes


@pytest.mark.parametrize(("weight", "bias"), [(torch.float16, torch.float32), (torch.float32, torch.float16)])
def test_a_group_norm_of_two_types_names_the_other_one(gpu, weight, bias):
    """A kernel on CUDA refuses both."""
    x = torch.ones(2, 4, 3, device=gpu.device)
    of_each = (torch.ones(4, device=gpu.device, dtype=dtype) for dtype in (weight, bias))
    with pytest.raises(RuntimeError, match="got torch.float32 and torch.float16; convert one"):
        torch.nn.functional.group_norm(x, 2, *of_each)


@pytest.mark.parametrize(("name", "is_refused"), [("t4-16gb", True), ("a100-80gb", False)])
def test_bfloat16_is_multiplied_to_float32_from_ampere_on(name, is_refused):
    with SimulatedGPU(name) as gpu:
        x, wide = (torch.empty(1, 4, 4, device=gpu.device, dtype=dtype) for dtype in (torch.bfloat16, torch.float32))
        words = "BFloat16 and output type float is only supported"
        for product in (
            lambda: torch.mm(x[0], x[0], out_dtype=torch.float32),
            lambda: torch.addmm(wide[0], x[0], x[0], out_dtype=torch.float32),
            lambda: torch.bmm(x, x, out_dtype=torch.float32),
            lambda: torch.baddbmm(wide, x, x, out_dtype=torch.float32),
        ):
            with pytest.raises(RuntimeError, match=words) if is_refused else nullcontext():
                assert product().dtype == torch.float32
        torch.mm(x[0], x[0], out_dtype=torch.bfloat16)
