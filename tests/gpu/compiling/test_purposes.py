"""What compiled code allocates is named by the operations that its kernel fuses, and by their module."""

import sys

import pytest
import torch
from torch import nn

from every_byte.gpu.compiling.purposes import _kernels
from every_byte.ledger.rows import rows_at
from utils import SimulatedGPU

CODE = """
buf0 = empty_strided_cuda((4, 1), (1, 1), torch.float32)
buf1 = empty_strided_cuda((4, 8), (8, 1), torch.float32)
# Topologically Sorted Source Nodes: [h, gelu], Original ATen: [aten.view, aten._to_copy, aten.add, aten.gelu]
raw_stream0 = get_raw_stream(0)
triton_poi_fused_add_gelu_0.run(arg0, buf0, buf1, 32, stream=raw_stream0)
buf2 = empty_strided_cuda((4, 8), (8, 1), torch.float32)
# Topologically Sorted Source Nodes: [linear], Original ATen: [aten.native_layer_norm, aten.t, aten.addmm]
extern_kernels.addmm(arg1, buf1, arg2, alpha=1, beta=1, out=buf2)
buf3 = empty_strided_cuda((4, 8), (8, 1), torch.bfloat16)
# Topologically Sorted Source Nodes: [], Original ATen: [aten._to_copy]
buf4 = empty_strided_cuda((4, 8), (8, 1), torch.float32)
# Topologically Sorted Source Nodes: [a, b], Original ATen: [aten.mul, aten.add, aten.exp, aten.sub, aten.div]
"""


def test_a_line_is_for_the_next_kernel(tmp_path):
    path = tmp_path / "compiled.py"
    path.write_text(CODE)
    first, second, third = ("add + gelu", ("h", "gelu")), ("addmm", ("linear",)), ("_to_copy", ("",))
    fourth = "mul + add + exp + 2 more", ("a", "b")
    assert _kernels(str(path)) == {2: first, 3: first, 7: second, 10: third, 12: fourth}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.act, self.down = nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)

    def forward(self, x):
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
@pytest.mark.parametrize("compiled", [whole, each_block])
def test_activations_of_a_compiled_model_have_their_modules(compiled):
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
    wide = {(f"{i}.{name}", operation) for i in "01" for name, operation in (("up", "addmm"), ("act", "gelu"))}
    assert wide <= kept
