"""What CUDA's autocast does with the arguments of each operator: PyTorch's lists. dispatch/autocast.py does it.

They stand in one table, not with the families: they are those of one header, and are compared with it list by list;
many of their operators (convolutions, cells of RNNs) belong to no family here; and what is cast to float32 no list
names, for that is all the rest that PyTorch registers.

Source: aten/src/ATen/autocast_mode.h and autocast_mode.cpp; tests/gpu/dispatch/test_autocast.py compares the
lists with that header.
"""

from enum import Enum

import torch


class Policy(Enum):
    """What autocast does where an operator is called, in words."""

    LOWER_PRECISION = "arguments are cast to autocast's type, float16 or bfloat16"
    FLOAT32 = "arguments are cast to float32"
    RESULT_IN_FLOAT32 = "arguments stay; the result is float32, unless the caller asks for another type"
    OTHER_OVERLOAD = "arguments stay; the overload that takes a type for the result is called, with float32"
    WIDEST = "arguments are cast to float32 if one of them is, else to autocast's type"
    REFUSED = "refused: not safe in half precision"


WITH_DTYPE = {"norm.Scalar": "ScalarOpt_dtype", "norm.ScalarOpt_dim": "ScalarOpt_dim_dtype"}
"""Norms without a type for the result, and the overload that has one and is called instead."""

_LISTED = {
    Policy.LOWER_PRECISION: """_convolution.deprecated _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d
        conv_transpose2d.input conv_transpose3d.input convolution cudnn_convolution cudnn_convolution_transpose prelu
        addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot
        _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
        _scaled_dot_product_flash_attention scaled_dot_product_attention""",
    Policy.RESULT_IN_FLOAT32: """prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm
        linalg_matrix_norm linalg_matrix_norm.str_ord sum sum.dim_IntList""",
    Policy.OTHER_OVERLOAD: " ".join(WITH_DTYPE),
    Policy.WIDEST: "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add",
    Policy.REFUSED: "binary_cross_entropy",
}
_OF_THE_CUDA_BUILD = "_cudnn_rnn"  # which a CPU build lacks; no simulated GPU's tensor gets there


def policies() -> dict[str, Policy]:
    """What autocast does with each operator that it knows, by names of ATen: "mm", "sum.dim_IntList"."""
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    names = {name.removeprefix("aten::") for name in registered} - {_OF_THE_CUDA_BUILD}
    known = dict.fromkeys(names, Policy.FLOAT32)
    return known | {name: policy for policy, listed in _LISTED.items() for name in listed.split() if name in known}
