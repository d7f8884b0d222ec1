"""What changed between two runs, by category, module and line; and what is no figures of a run is refused in words."""

import json

import pytest
from forked_runs import Runs

from every_byte.__main__ import main

PROGRAM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x):
        h = self.up(x)
        return self.down(h.relu())

model = Net().to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for i in range(3):
    x = torch.randn(N, 256, device="cuda")
    model(x).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """The figures of a large batch and of half of it, by name; the latter has a line more above its model."""
    folder = tmp_path_factory.mktemp("programs")
    runs = Runs(folder)
    large = runs(PROGRAM.replace("N,", "400_000,")).figures
    small = runs(PROGRAM.replace("N,", "200_000,").replace("model = ", "\nmodel = ")).figures
    runs.close()
    paths = {}
    for name, found in (("large", large), ("small", small), ("old", {"schema": 1})):
        paths[name] = folder / f"{name}.json"
        paths[name].write_text(json.dumps(found), encoding="utf-8")
    return {"large": large, "small": small, "paths": paths}


def compared(figures, capsys, before: str, after: str) -> str:
    assert main(["compare", str(figures["paths"][before]), str(figures["paths"][after])]) == 0
    return capsys.readouterr().out


def row(text: str, name: str) -> list[str]:
    line = next(line for line in text.splitlines() if line.startswith(name))
    return line.split()[-3:]


def test_it_says_what_each_needs_and_what_changed(figures, capsys):
    text = compared(figures, capsys, "large", "small")
    large, small = (figures[name]["peak"] for name in ("large", "small"))
    assert text.startswith("large.json needs 5.")
    assert "; small.json needs " in text.splitlines()[0]
    both = large["allocated_bytes"], small["allocated_bytes"]
    assert row(text, "allocated") == [f"{both[0]:,d}", f"{both[1]:,d}", f"{both[1] - both[0]:+,d}"]
    for category in ("activations", "inputs"):
        sizes = [
            sum(share["by_category"].get(category, 0) for share in figures[name]["lines"])
            for name in ("large", "small")
        ]
        assert row(text, category) == [f"{sizes[0]:,d}", f"{sizes[1]:,d}", f"{sizes[1] - sizes[0]:+,d}"]
    assert "parameters" not in text


def test_a_line_is_the_same_where_others_were_added_above_it(figures, capsys):
    text = compared(figures, capsys, "large", "small")
    before, after, _ = row(text, "train.py, forward: return self.down(h.relu())")
    assert before != "0"
    assert after != "0"
    assert "train.py, <module>: model = Net" not in text


def test_two_alike_have_nothing_to_tell(figures, capsys):
    text = compared(figures, capsys, "large", "large")
    assert text.endswith("No category has changed.\n")
    assert "difference" not in text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("old", "old.json must be figures that every-byte run --json wrote: it has no 'peak'; write it anew."),
        ("none", "No such file or directory"),
        ("text", "must be JSON that every-byte run --json wrote: "),
        ("list", "must be JSON that every-byte run --json wrote: it has no names."),
    ],
)
def test_what_cannot_be_compared_is_refused(figures, capsys, tmp_path, name, said):
    (tmp_path / "text.json").write_text("not JSON", encoding="utf-8")
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    path = figures["paths"].get(name, tmp_path / f"{name}.json")
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(figures["paths"]["large"]), str(path)])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
