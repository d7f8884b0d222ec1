"""What CUDA has no kernel for, by the type of the numbers, stops a program here too, with PyTorch's own words."""

import pytest
import torch

from every_byte import SimulatedGPU

BOOL, INT, COMPLEX, HALF = torch.bool, torch.int64, torch.complex64, torch.float16
FLOAT8 = torch.float8_e4m3fn
REFUSED = {
    "floor of bool": (lambda f: f(BOOL, 9).floor(), "\"floor_cuda\" not implemented for 'Bool'"),
    "frac of int32": (lambda f: f(torch.int32, 9).frac(), "\"frac_cuda\" not implemented for 'Int'"),
    "median of bool": (lambda f: f(BOOL, 9, 2).median(0), "\"median_out_impl\" not implemented for 'Bool'"),
    "remainder of bool": (lambda f: f(BOOL, 9) % f(BOOL, 9), "\"remainder_cuda\" not implemented for 'Bool'"),
    "argmax of complex": (lambda f: f(COMPLEX, 9).argmax(), "argmax(): does not support complex input"),
    "angle of half": (lambda f: f(HALF, 9).angle(), "\"angle_cuda\" not implemented for 'Half'"),
    "histc of half": (lambda f: f(HALF, 9).histc(4, 0, 1), "HalfTensor is not supported"),
    "cdist of half": (lambda f: torch.cdist(f(HALF, 9, 4), f(HALF, 9, 4)), "\"cdist_cuda\" not implemented for 'Half'"),
    "bmm of integers": (lambda f: f(INT, 2, 3, 2) @ f(INT, 2, 2, 4), "\"baddbmm_cuda\" not implemented for 'Long'"),
    "bmm of float8": (
        lambda f: torch.bmm(f(FLOAT8, 2, 3, 2), f(FLOAT8, 2, 2, 4)),
        "\"baddbmm_cuda\" not implemented for 'Float8_e4m3fn'",
    ),
    "mv of integers": (lambda f: f(INT, 3, 2) @ f(INT, 2), "\"addmv_impl_cuda\" not implemented for 'Long'"),
    "a list's signs": (
        lambda f: torch._foreach_sign([f(torch.complex128, 3)]),
        "\"foreach_unary_op_cuda\" not implemented for 'ComplexDouble'",
    ),
    "topk of bool": (lambda f: f(BOOL, 9).topk(2), "topk does not support bool dtypes on CPU"),
    "var of integers": (lambda f: f(INT, 9).var(), "std and var only support floating point and complex dtypes"),
    "isin of complex": (
        lambda f: torch.isin(f(COMPLEX, 9), f(COMPLEX, 3)),
        "Unsupported input type encountered for isin(): ComplexFloat",
    ),
    "integers to -1": (lambda f: f(INT, 3) ** -1, "Integers to negative integer powers are not allowed."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_kernel_raises_as_on_a_card(name):
    run, words = REFUSED[name]
    with SimulatedGPU("h100-80gb") as gpu:

        def zeros(dtype, *shape):
            return torch.zeros(*shape, dtype=dtype, device=gpu.device)

        for _ in range(2):
            with pytest.raises(RuntimeError) as raised:
                run(zeros)
            assert str(raised.value) == words


def test_what_has_a_kernel_runs():
    with SimulatedGPU("h100-80gb") as gpu:
        of = {kind: torch.zeros(9, dtype=kind, device=gpu.device) for kind in (BOOL, INT, COMPLEX, torch.float32)}
        of[INT].floor()
        of[BOOL] % of[INT]
        of[BOOL][:0].floor()
        of[BOOL][0].logcumsumexp(0)
        assert (of[INT].new_zeros(0, 5) @ of[INT].new_zeros(5, 3)).shape == (0, 3)
        torch.zeros(9, dtype=FLOAT8, device=gpu.device).sum(dtype=torch.float32)
        torch.bmm(of[INT].view(1, 9, 1), of[INT].view(1, 1, 9))
