"""Runs programs that have one thing wrong, and those that look like them and have not; what the report says of each."""

import textwrap

from forked_runs import Run, Runs

HEAD = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
kept = []
def batch(n=4096):
    return torch.randn(n, 256, device="cuda")
def step(n=4096):
    model(batch(n)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def program(text: str) -> str:
    """A program that begins with a small model, its optimizer and a step."""
    return HEAD + textwrap.dedent(text)


def found(runs: Runs, text: str, rule: str, *options: str) -> tuple[dict | None, Run]:
    """What a rule found of a program that runs to its end, None if nothing; and the run."""
    run = runs(program(text), "--steps", "0", *options)
    named = [finding for finding in run.figures["findings"] if finding["rule"] == rule]
    assert len(named) <= 1
    for finding in run.figures["findings"]:
        assert " ".join(finding["sentence"].split()) in " ".join(run.report.split())
    return (named[0] if named else None), run
