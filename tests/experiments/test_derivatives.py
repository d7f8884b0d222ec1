"""What the table of derivatives says is what autograd keeps."""

import re

import pytest
import torch
import torch.nn.functional as F

from utils import SavedTensorContext
from utils.experiments.derivatives import backward_reads

OPERATIONS = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "exp": torch.exp,
    "asinh": torch.asinh,
    "gelu": F.gelu,
    "silu": F.silu,
    "mish": F.mish,
    "hardswish": F.hardswish,
    "hardtanh": F.hardtanh,
    "softplus": F.softplus,
    "softshrink": F.softshrink,
    "leaky_relu": F.leaky_relu,
    "leaky_relu_": lambda x: F.leaky_relu_(x),
    "elu": F.elu,
    "elu_": lambda x: F.elu_(x),
    "celu": F.celu,
    "celu_": lambda x: F.celu_(x),
    "_softmax": lambda x: F.softmax(x, -1),
    "_log_softmax": lambda x: F.log_softmax(x, -1),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_table_says_what_autograd_keeps(operation):
    x = torch.ones(3, requires_grad=True) * 1  # multiplied: a leaf may not be changed in place
    with SavedTensorContext() as saved:
        y = OPERATIONS[operation](x)
    rows = [row for row in saved.rows(y) if not row.node.startswith("MulBackward")]
    assert backward_reads(operation) == tuple(row.slot for row in rows)


def test_an_unknown_operation():
    message = "operation must have a derivative in derivatives.yaml: got 'swish'; try 'relu' or 'leaky_relu_'."
    with pytest.raises(ValueError, match=re.escape(message)):
        backward_reads("swish")


@pytest.mark.parametrize("operation", ["_prelu_kernel", "native_dropout", "native_layer_norm", "cat", "mulXTensor"])
def test_no_operation_is_given_the_line_of_the_next(operation):
    """The first four have entries without a line for `self` alone; a dot in a name is a dot."""
    with pytest.raises(ValueError, match=f"got '{operation}'"):
        backward_reads(operation)
