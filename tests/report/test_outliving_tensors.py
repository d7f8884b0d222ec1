"""Results that a variable keeps after backward are told where they add to the peak, and nowhere else."""

import pytest
from wrong_programs import found

from every_byte.report.outliving_tensors import assigned

RULE = "tensors that outlive backward"
LARGE = """
model = nn.Sequential(nn.Linear(256, 2048), nn.Linear(2048, 30_000)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
"""
LOOP = (
    LARGE
    + """
for i in range(4):
    logits = model(batch(700))  # here
    loss = logits.logsumexp(-1).mean()
    loss.backward()
    MORE
    optimizer.step()
    optimizer.zero_grad()
"""
)


def test_logits_that_are_there_in_the_optimizers_step(run):
    finding, said = found(run, LOOP.replace("MORE", ""), RULE)
    assert said.figures["peak"]["phase"] == "step"
    assert 700 * 30_000 * 4 <= finding["n_bytes"] < 700 * 30_000 * 4 + 2048
    assert finding["line"]["text"] == "logits = model(batch(700)) # here"
    assert "logits keeps it (train.py:" in finding["sentence"]
    assert "Write del logits after backward()" in finding["sentence"]
    without, less = found(run, LOOP.replace("MORE", "del logits"), RULE)
    assert without is None
    assert less.figures["peak"]["allocated_bytes"] < said.figures["peak"]["allocated_bytes"] - 0.9 * finding["n_bytes"]


def test_outputs_of_the_step_before_that_are_there_in_the_next_forward(run):
    text = """
    model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(12)]).to("cuda")
    for i in range(4):
        result = [module(x := batch(40_000)) for module in model]  # here
        sum(part.sum() for part in result).backward()
    """
    finding, _ = found(run, text, RULE)
    assert finding is not None
    assert "result keeps them" in finding["sentence"]


RIGHT = {
    "a step that is a function": LARGE + "for i in range(4): step(700)",
    "a loss alone": LARGE + "for i in range(4):\n    loss = model(batch(700)).logsumexp(-1).mean()\n"
    "    loss.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n",
    "where the peak is in backward": """
        for i in range(4):
            y = model(batch(100_000))
            y.pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "evaluation": "with torch.no_grad():\n    for i in range(5): y = model(batch())",
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    assert found(run, RIGHT[name], RULE)[0] is None


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("logits = model(x)", "logits"),
        ("logits, loss = model(x, y)", "logits, loss"),
        ("if logits == model(x):", ""),
        ("kept.append(model(x))", ""),
        ("self.last = model(x)", ""),
        ("", ""),
    ],
)
def test_the_names_that_a_line_assigns(text, names):
    assert assigned(text) == names
