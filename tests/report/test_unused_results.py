"""What compiled code returns beside the loss: its zeros are found, told with a way out, and in JSON."""

import sys

import pytest
import torch
from torch import nn

from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.attribution import COMPILED
from every_byte.ledger.events import Event
from every_byte.ledger.trace import Trace
from every_byte.report.render.figures import figures
from every_byte.report.report import Report
from every_byte.report.unused_results import ZEROS, unused_results


def zeros(n_bytes: int, **fields: str) -> Event:
    return Event("alloc", n_bytes, **{"node": COMPILED, "operation": ZEROS} | fields)


def test_zeros_of_a_compiled_backward_are_found_once_for_each_size():
    first, again, larger = zeros(512), zeros(512), zeros(1024)
    others = zeros(2048, node="AddmmBackward0"), zeros(2048, operation="mm"), Event("free", 2048, node=COMPILED)
    trace = Trace("simulated", "a100-80gb")
    trace.events.extend([first, *others, again, larger])
    found = unused_results(trace)
    assert [one.n_bytes for one in found] == [1024, 512]
    assert found[1] is first


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 5_000)

    def forward(self, x):
        logits = self.head(x)
        return logits, logits.logsumexp(-1).mean()


@pytest.mark.skipif(sys.platform != "linux", reason="Triton has wheels for Linux alone")
@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the compiler is known in PyTorch 2.13")
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("returns_logits", [True, False])
def test_a_model_that_returns_its_logits_is_told_of_them(returns_logits):
    torch._dynamo.reset()
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        model = Model().cuda()
        run = torch.compile(model if returns_logits else lambda x: model(x)[1])
        results = run(torch.zeros(256, 64, device="cuda"))
        (results[1] if returns_logits else results).backward()
        report = Report.of(gpu)
    said = " ".join(str(report).split())
    assert ("What is compiled returns 5,120,000 bytes (4.88 MiB) beside the loss" in said) == returns_logits
    assert figures(report)["unused_results"] == ([5_120_000] if returns_logits else [])
