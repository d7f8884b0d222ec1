"""The names of a derived formula's terms: short, and different where the rows are."""

import pytest
import torch

from every_byte.closed_form.keys import Key
from every_byte.closed_form.terms import term_names

FLASH = "ScaledDotProductFlashAttentionBackward0"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (Key("parameters", "layers.3.up", "weight", (), torch.float32), "parameters"),
        (Key("activations", "layers.3.up", "mm", ("SiluBackward0.self",), None), "layers.*.up: mm → Silu.self"),
        (
            Key("activations", "attn", "clone", (f"{FLASH}.key", f"{FLASH}.query", "MmBackward0.self"), None),
            "attn: clone → ScaledDotProductFlashAttention.key/query, Mm.self",
        ),
        (
            Key("activations", "attn", "_scaled_dot_product_flash_attention", (f"{FLASH}.logsumexp",), None),
            "attn: ScaledDotProductFlashAttention.logsumexp",
        ),
        (Key("activations", "", "relu", ("ReluBackward0.result",), None), "Relu.result"),
        (Key("temporaries", "norm", "mm", (), None), "norm: temporaries: mm"),
        (Key("temporaries", "", "ones_like", (), None), "temporaries: ones_like"),
    ],
)
def test_a_name(key, name):
    assert term_names([key]) == {key: name}
