"""The command `every-byte advise`: the answer first, what could not be run and why, and what was found when it ends."""

import json
import os
import signal
import subprocess
import sys

import pytest
from places import ROOT

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
print("printed by the program")
model = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(6))).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for (x,) in DataLoader(TensorDataset(torch.zeros(9000, 512)), batch_size=1000):
    model(x.to("cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def started(folder, *words: str, program: str = SCRIPT) -> subprocess.Popen:
    (folder / "train.py").write_text(program, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-m", "every_byte", "advise", *words, "train.py"], cwd=folder, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(process: subprocess.Popen) -> tuple[int, str, str]:
    out, err = process.communicate()
    return process.returncode, out, err


@pytest.fixture(scope="module")
def advised(tmp_path_factory):
    """A script that does not fit as it is: such a context leaves an A100 66 MiB, and its segments need 74."""
    folder = tmp_path_factory.mktemp("advised")
    code, out, err = ended(started(folder, "--context", "81090MiB", "--steps", "2", "--json", "advice.json"))
    assert code == 0, err
    return out, err, json.loads((folder / "advice.json").read_text(encoding="utf-8"))


@pytest.mark.nightly
def test_the_answer_comes_first_and_then_its_lines(advised):
    out, err, figures = advised
    assert out.startswith(figures["answer"])
    assert figures["answer"].startswith("The cheapest that fits in ")
    best = next(run for run in figures["runs"] if run["name"] == figures["best"])
    lines = "\n".join(f"    {line}".rstrip() for line in best["lines"].splitlines())
    assert out.split("\n\n", 1)[1].startswith(lines)
    assert "printed by the program" not in out + err


@pytest.mark.nightly
def test_the_table_has_each_run_and_what_was_not_run_its_reason(advised):
    out, err, figures = advised
    plain = figures["runs"][0]
    assert (plain["name"], plain["fits"]) == ("plain", False)
    for run in figures["runs"]:
        assert f"{run['peak_bytes']:,d}" in out
        assert run["fits"] == (run["needed_bytes"] <= figures["room_bytes"])
        assert f"  {run['name']}: peak " in err
    assert err.startswith("  plain: peak ")
    assert {"optimizer in 8 bits", "attention by SDPA"} <= {one["name"] for one in figures["left"]}
    assert any(len(run["remedies"]) > 1 for run in figures["runs"])


@pytest.mark.nightly
def test_the_largest_batch_fits_and_the_next_one_does_not(advised):
    out, _, figures = advised
    names = [one["name"] for one in figures["sizes"]]
    assert names == ["plain", figures["best"]]
    for one in figures["sizes"]:
        assert one["letter"] == "batch_size"
        assert one["next_value"] == one["value"] + 1
        assert f"batch_size={one['value']:,d} fits, batch_size={one['next_value']:,d} does not" in out
    plain, best = (one["value"] for one in figures["sizes"])
    assert 0 < plain < 1000 <= best


@pytest.mark.long
def test_a_program_that_fails_by_itself_says_how(tmp_path):
    code, out, err = ended(started(tmp_path, program="raise ValueError('no such file')"))
    assert (code, out) == (1, "")
    said = "the program itself ends by an error, without any remedy: ValueError: no such file"
    assert err == f"every-byte advise: {said}\n"


@pytest.mark.long
def test_time_that_does_not_do_for_one_run(tmp_path):
    code, out, err = ended(started(tmp_path, "--seconds", "0"))
    assert (code, out, err) == (1, "", "every-byte advise: 0 seconds are not enough to run the program once.\n")


@pytest.mark.long
def test_ctrl_c_keeps_what_was_found(tmp_path):
    process = started(tmp_path, "--json", "advice.json")
    lines = iter(process.stderr.readline, "")  # among them, on a busy machine, how long it has been at work
    assert any(line.startswith("  plain: peak ") for line in lines)
    assert any(line.startswith("  expandable segments: peak") for line in lines)
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert code == 0, err
    assert "Traceback" not in err
    assert out.startswith("It fits in ")
    assert "Ctrl-C was pressed" in out
    figures = json.loads((tmp_path / "advice.json").read_text(encoding="utf-8"))
    assert not figures["is_whole"]
    assert {"plain", "expandable segments"} <= {run["name"] for run in figures["runs"]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gpu", "live"), "--gpu must be one that is simulated: got 'live'"),
        (("--seconds", "x"), "argument --seconds: must be a whole number, 0 or more: got 'x'; try 3"),
        (("--html", "x"), "an option before the program must be one of this command's: got '--html'"),
    ],
)
def test_what_it_does_not_understand(tmp_path, words, said):
    code, out, err = ended(started(tmp_path, *words))
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())
