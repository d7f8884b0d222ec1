"""Gradients that stay through an evaluation are told, where it sets the peak; those of a model in training are not."""

import pytest
from wrong_programs import found

RULE = "gradients through evaluation"
EVALUATION = """
optimizer.zero_grad()
for i in range(2):
    optimizer.zero_grad()
    model(batch(8)).pow(2).mean().backward()
    optimizer.step()
GO
model.eval()
with torch.no_grad():
    for i in range(2): model(batch(1024))  # here
"""


def test_gradients_that_nobody_set_to_none(run):
    finding, said = found(run, EVALUATION.replace("GO", ""), RULE)
    assert finding["n_bytes"] == said.figures["peak"]["by_category"]["parameters"]
    assert finding["line"]["text"].endswith("# here")
    assert "call optimizer.zero_grad() before it" in finding["sentence"]


RIGHT = {
    "set to none before": EVALUATION.replace("GO", "optimizer.zero_grad()"),
    "a peak in training": EVALUATION.replace("GO", "").replace("batch(8)", "batch(9000)"),
    "a model that is trained in this mode": """
        model.eval()
        for i in range(3):
            model(batch(4096)).pow(2).mean().backward()
            if i % 2: optimizer.step(); optimizer.zero_grad()
        """,
    "a teacher between micro-batches": """
        teacher = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 256)).cuda().eval()
        step(8)
        for i in range(4):
            x = batch(8192)
            with torch.no_grad(): y = teacher(x)
            (model(x[:8]) - y[:8]).pow(2).mean().backward()
            if i % 2: optimizer.step(); optimizer.zero_grad()
        """,
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    assert found(run, RIGHT[name], RULE)[0] is None
