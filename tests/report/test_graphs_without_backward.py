"""Graphs for which no backward comes: of evaluation without `no_grad`, and never of a step of training."""

import pytest
from wrong_programs import found, program

RULE = "graphs without backward"
KEEPS_OUTPUTS = """
model.eval()
for i in range(5):
    kept.append(model(batch()))  # here
"""


def test_evaluation_that_keeps_its_outputs_keeps_their_graphs(run):
    finding, said = found(run, KEEPS_OUTPUTS, RULE)
    assert finding["n_bytes"] == said.figures["peak"]["by_category"]["activations"] == 5 * 4096 * 1024 * 4
    assert finding["line"]["text"] == "kept.append(model(batch())) # here"
    assert (
        "5 forward passes keep 83,886,080 bytes (80 MiB) for a backward that never comes (train.py:"
        in (finding["sentence"])
    )
    assert "under torch.no_grad()" in finding["sentence"]


WRONG = {
    "after training": "for i in range(3): step()\n" + KEEPS_OUTPUTS.replace("batch()", "batch(20_000)"),
    "without eval()": KEEPS_OUTPUTS.replace("model.eval()\n", ""),
    "a teacher, whose result is detached": """
        teacher = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 256)).to("cuda")
        for i in range(3):
            x = batch()
            target = teacher(x)
            (model(x) - target.detach()).pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "until memory runs out": KEEPS_OUTPUTS.replace("range(5)", "range(90)").replace("batch()", "batch(60_000)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_it_is_found(run, name):
    finding, said = found(run, WRONG[name], RULE, "--gpu", "t4-16gb")
    assert finding is not None
    assert bool(said.figures["out_of_memory"]) == (name == "until memory runs out")


RIGHT = {
    "under no_grad": "with torch.no_grad():\n    for i in range(5): kept.append(model(batch()))",
    "what is kept is detached": "for i in range(5): kept.append(model(batch()).detach())\nstep()",
    "training": "for i in range(3): step()",
    "evaluation with a backward": "model.eval()\nfor i in range(3):\n    model(batch()).sum().backward()",
    "several forwards, one backward": """
        for i in range(3):
            loss = sum(model(batch()).pow(2).mean() for _ in range(4))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "a checkpoint": """
        from torch.utils.checkpoint import checkpoint
        for i in range(3):
            checkpoint(model, batch(), use_reentrant=False).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    "two models that train each other": """
        other = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)).to("cuda")
        two = torch.optim.AdamW(other.parameters())
        for i in range(3):
            fake = model(batch())
            other(fake.detach()).mean().backward()
            two.step()
            other(fake).mean().backward()
            optimizer.step()
            optimizer.zero_grad(); two.zero_grad()
        """,
    "memory that runs out in the first forward": "model(batch(8_000_000)).sum().backward()",
    "memory that runs out in the second step": "step()\nstep(3_000_000)",
    "memory that runs out in a backward": "x = model(batch(2_200_000)); x.pow(2).mean().backward()",
    "memory that runs out in evaluation mode, in a step of two forwards": """
        model.eval()
        (model(batch(1_500_000)) - model(batch(1_500_000))).pow(2).mean().backward()
        """,
    "a metric of the output that keeps a graph of its own": """
        for i in range(3):
            y = model(batch())
            kept.append((y * y + y).mean())
            y.pow(2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_looks_like_it_is_not(run, name):
    finding, said = found(run, RIGHT[name], RULE, "--gpu", "t4-16gb")
    assert finding is None
    assert bool(said.figures["out_of_memory"]) == name.startswith("memory that runs out")


def test_it_is_said_without_lines_too(run):
    said = run(program(KEEPS_OUTPUTS), "--steps", "0", "--no-lines")
    (finding,) = said.figures["findings"]
    assert finding["line"] is None
    assert "for a backward that never comes: run them under" in finding["sentence"]
