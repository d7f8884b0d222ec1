"""NumPy's float64 in a program of float32 is told, with the line that brings it; a model of float64 is not."""

import pytest
from wrong_programs import found

RULE = "float64"
DATA = """
import numpy
for i in range(3):
    target = torch.tensor(numpy.zeros((4096, 256)))TO.cuda()  # here
    (model(batch()) - target).pow(2).mean().backward()
    optimizer.step(); optimizer.zero_grad()
"""


def test_a_target_from_numpy(run):
    finding, said = found(run, DATA.replace("TO", ""), RULE)
    assert finding["n_bytes"] >= 3 * 4096 * 256 * 8  # the target, the difference, and what its square keeps
    assert finding["line"]["text"].endswith("# here")
    halved, other = found(run, DATA.replace("TO", ".float()"), RULE)
    assert halved is None
    assert other.figures["peak"]["allocated_bytes"] < said.figures["peak"]["allocated_bytes"] - 4096 * 256 * 4


RIGHT = {
    "a model of float64": """
        model.double()
        for i in range(3): model(batch().double()).pow(2).mean().backward(); optimizer.step(); optimizer.zero_grad()
        """,
    "a sum in float64": "total = torch.zeros((), dtype=torch.float64, device='cuda')\nfor i in range(3): step()",
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    assert found(run, RIGHT[name], RULE)[0] is None
