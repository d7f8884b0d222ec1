"""What compiled code allocates is named by the operations that its kernel fuses, and by their module."""

import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte.gpu.compiling.purposes import _kernels
from every_byte.ledger.attribution import COMPILED
from every_byte.ledger.rows import rows_at
from utils import SimulatedGPU

CODE = """
buf0 = empty_strided_cuda((4, 1), (1, 1), torch.float32)
buf1 = empty_strided_cuda((4, 8), (8, 1), torch.float32)
# Sorted Source Nodes: [h], Original ATen: [aten.view, aten._to_copy, aten.add, aten.gelu], Module: blocks.0.mlp.act
raw_stream0 = get_raw_stream(0)
triton_poi_fused_add_gelu_0.run(arg0, buf0, buf1, 32, stream=raw_stream0)
buf2 = empty_strided_cuda((4, 8), (8, 1), torch.float32)
# Sorted Source Nodes: [linear], Original ATen: [aten.native_layer_norm, aten.t, aten.addmm], Module: blocks.0.mlp.down
extern_kernels.addmm(arg1, buf1, arg2, alpha=1, beta=1, out=buf2)
buf3 = empty_strided_cuda((4, 8), (8, 1), torch.bfloat16)
# Sorted Source Nodes: [], Original ATen: [aten._to_copy]
buf4 = empty_strided_cuda((4, 8), (8, 1), torch.float32)
# Sorted Source Nodes: [a, b], Original ATen: [aten.mul, aten.add, aten.exp, aten.sub, aten.div], Module:
# Sorted Source Nodes: [c], Original ATen: [aten._scaled_dot_product_flash_attention], Module: blocks.0.attention
buf5 = torch.ops.aten._scaled_dot_product_flash_attention.default(q, k, v)
buf6 = buf5[0]
assert_size_stride(buf6, (4, 8), (8, 1), 'torch.ops.aten._scaled_dot_product_flash_attention.default')
assert_size_stride(arg3, (4, 8), (8, 1))
"""


def test_a_line_is_for_the_next_kernel_or_for_the_operator_before_it(tmp_path):
    path = tmp_path / "compiled.py"
    path.write_text(CODE)
    first, second = ("add + gelu", "blocks.0.mlp.act"), ("addmm", "blocks.0.mlp.down")
    third, fourth, attention = ("_to_copy", None), ("mul + add + exp + 2 more", ""), ("", "blocks.0.attention")
    assert _kernels(str(path)) == {2: first, 3: first, 7: second, 10: third, 12: fourth, 17: attention}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)

    def forward(self, x):
        heads = x.view(4, 128, 2, 32).transpose(1, 2)
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            x = F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape(512, 64)
        return x + self.down(self.act(self.up(x)))


def whole(model):
    return torch.compile(model)


def each_block(model):
    for block in model:
        block.compile()
    return model


@pytest.mark.skipif(sys.platform != "linux", reason="Triton has wheels for Linux alone")
@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the compiler is known in PyTorch 2.13")
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cache", ["empty", "warm"])
@pytest.mark.parametrize("compiled", [whole, each_block])
def test_what_a_compiled_model_allocates_has_its_module(compiled, cache):
    torch._dynamo.reset()
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        model = nn.Sequential(Block(), Block()).cuda()
        run, x = compiled(model), torch.zeros(512, 64, device="cuda")
        for _ in range(2):
            run(x).pow(2).mean().backward()
            model.zero_grad()
        y = run(x)
        trace = gpu.look_around()
        rows = rows_at(trace, len(trace.events))
        assert sum(row.n_bytes + row.slack_bytes for row in rows) == gpu.memory_allocated()
        kept = {(row.module, row.operation) for row in rows if row.category == "activations"}
        del y
    attention = "", "_scaled_dot_product_efficient_attention"
    each = ("up", "addmm"), ("act", "gelu"), attention
    assert {(f"{i}.{name}".strip("."), operation) for i in "01" for name, operation in each} <= kept
    temporaries = [event for event in trace.events if event.node == COMPILED and event.n_bytes == 4 * 512 * 256]
    assert len(temporaries) in (2, 4)  # a whole model's are used again
    assert {event.module for event in temporaries} <= {f"{i}.{name}" for i in "01" for name in ("up", "act", "down")}


@pytest.mark.skipif(sys.platform != "linux", reason="Triton has wheels for Linux alone")
@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the compiler is known in PyTorch 2.13")
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_copy_of_a_weight_that_a_compiled_function_makes_is_no_input():
    torch._dynamo.reset()
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        model, x = nn.Linear(64, 256, bias=False).cuda(), torch.zeros(512, 64, device="cuda", requires_grad=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            y = torch.compile(lambda x: model(x))(x)
        trace = gpu.look_around()
        (copy,) = [row for row in rows_at(trace, len(trace.events)) if row.n_bytes == 2 * 64 * 256]
        del y
    assert (copy.category, copy.operation) == ("activations", "_to_copy")
