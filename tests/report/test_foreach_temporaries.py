"""A peak that the optimizer's foreach temporaries make is told, with what a run without them takes, to the byte."""

import pytest
from wrong_programs import found

RULE = "foreach temporaries"
LOOP = """
model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(8))).cuda()
optimizer = torch.optim.KIND
for i in range(3):
    model(torch.randn(ROWS, WIDTH, device="cuda")).pow(2).mean().backward()
    optimizer.step()  # here
    optimizer.zero_grad()
"""


def loop(kind: str = "AdamW(model.parameters())", rows: int = 8, width: int = 8192) -> str:
    return LOOP.replace("KIND", kind).replace("ROWS", str(rows)).replace("WIDTH", str(width))


def test_what_is_promised_is_what_a_fused_step_saves(run):
    finding, said = found(run, loop(), RULE, "--gpu", "t4-16gb")
    fused, other = found(run, loop("AdamW(model.parameters(), fused=True)"), RULE, "--gpu", "t4-16gb")
    assert fused is None
    peaks = [one.figures["peak"]["allocated_bytes"] for one in (said, other)]
    assert finding["n_bytes"] == peaks[0] - peaks[1] > 0
    assert finding["line"]["text"] == "optimizer.step() # here"
    assert "AdamW(…, fused=True)" in finding["sentence"]


RIGHT = {
    "one after the other": loop("AdamW(model.parameters(), foreach=False)"),
    "a peak in backward": loop(rows=30_000),
    "one that has room to spare": loop(width=1024),
    "an optimizer that makes none": loop("SGD(model.parameters(), lr=0.1)"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    assert found(run, RIGHT[name], RULE, "--gpu", "t4-16gb")[0] is None
