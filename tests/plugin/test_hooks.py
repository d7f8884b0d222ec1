"""The plugin for pytest: what its markers fail and pass, what is shown, stored and compared, also in processes."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch._dynamo  # noqa: F401  a run in this process forgets what it imports: no operator is registered twice
from places import ROOT

pytest_plugins = ["pytester"]
PLUGIN = "every_byte.plugin.hooks"
HEAD = """
import pytest
import torch
from torch import nn


def train(n_steps=3, kept=None, rows=4096, width=1024):
    model = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, 256)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(n_steps):
        loss = model(torch.randn(rows, 256, device="cuda")).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if kept is not None:
            kept.append(loss)  # the line that keeps

"""


@pytest.fixture
def runs(pytester, monkeypatch):
    """Runs pytest with the plugin on a file of tests; in a process of its own only where it starts others."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:cacheprovider -W error")

    def run(text, *options):
        pytester.makepyfile(test_it=HEAD + text)
        start = pytester.runpytest_subprocess if "-n" in options else pytester.runpytest_inprocess
        return start("-p", PLUGIN, *options)

    return run


def line_of(words):
    """The number of a line of the tests' head."""
    return next(n for n, line in enumerate(HEAD.strip().splitlines(), start=1) if words in line)


MODEL = line_of("loss = model")
LIMITS = """
@pytest.mark.limit_gpu_memory("1 GiB", gpu="rtx4080-16gb")
def test_below():
    train()


@pytest.mark.limit_gpu_memory("16 MiB", gpu="rtx4080-16gb")
def test_beyond():
    train()


@pytest.mark.limit_gpu_memory(gpu="t4-16gb")
def test_fits():
    train()
"""


def test_a_limit_fails_with_the_owner_and_the_line(runs):
    ran = runs(LIMITS)
    ran.assert_outcomes(passed=2, failed=1)
    text = ran.stdout.str()
    assert "on the simulated GPU rtx4080-16gb it needs" in text
    assert "more than limit_gpu_memory('16 MiB') allows; the largest owners at the peak, step 2, backward:" in text
    assert re.search(
        rf"16 MiB  [\w ]+ in \* ReLU \(.+, 4096×1024 float32\), test_it\.py:{line_of('loss = model')}", text
    )
    assert "Error" not in text.split("FAILURES")[1].split("short test summary")[0]  # no traceback of the plugin's


GROWTH = """
@pytest.mark.limit_gpu_growth("0 B")
def test_steady():
    train(4)


@pytest.mark.limit_gpu_growth(0)
def test_leaks():
    train(4, kept=[])


@pytest.mark.limit_gpu_growth("1 KiB")
def test_leaks_little():
    train(4, kept=[])


@pytest.mark.limit_gpu_growth(0)
def test_does_not_say():
    train(1)
"""


def test_growth_is_named_with_what_grew_and_its_line(runs):
    ran = runs(GROWTH)
    ran.assert_outcomes(passed=2, failed=2)
    text = ran.stdout.str()
    assert "step 4 left 512 bytes more than step 3, and limit_gpu_growth(0) allows 0 bytes: above all outputs" in text
    assert f"test_it.py:{line_of('loss = model')}" in text
    assert "limit_gpu_growth(0) compares the last 3 steps of an optimizer: the test made 1; let it make more" in text


def test_fixtures_have_the_gpu_and_the_report_and_others_may_be_on_it(runs):
    ran = runs(
        """
@pytest.fixture
def weight():
    return torch.ones(1024, 1024, device="cuda")


def test_gpu(weight, simulated_gpu):
    assert simulated_gpu.memory_allocated() == 4 * 2**20 == torch.cuda.memory_allocated()
    assert simulated_gpu.spec.name == "h100-80gb" and torch.cuda.is_available()


def test_report(gpu_report):
    train()
    assert gpu_report().peak.parts["parameters"] == 4 * (2 * 256 * 1024 + 1024 + 256)
    assert len(gpu_report().steps) == 3


def test_others_see_no_gpu():
    assert not torch.cuda.is_available()
""",
        "--every-byte-gpu",
        "h100-80gb",
    )
    ran.assert_outcomes(passed=3)


def test_what_fails_by_itself_tells_what_it_had(runs):
    ran = runs("""
@pytest.mark.limit_gpu_memory("1 GiB", gpu="t4-16gb")
def test_out_of_memory():
    torch.zeros(2**32, device="cuda")


@pytest.mark.limit_gpu_memory("1 GiB")
def test_wrong():
    train()
    assert torch.ones(2, device="cuda").shape == (3,)
""")
    ran.assert_outcomes(failed=2)
    text = ran.stdout.str()
    assert "OutOfMemoryError" in text
    assert "Out of memory on t4-16gb: needs at least 16.0 GiB" in text
    assert "Fits on a100-80gb: needs 0.1 of 78.7 GiB." in text


@pytest.mark.long
@pytest.mark.parametrize("processes", [(), ("-n", "2")])
def test_all_tests_are_shown_with_their_largest_owners(runs, processes):
    ran = runs(
        """
def test_one():
    train()


def test_other():
    pass
""",
        "--every-byte",
        *processes,
    )
    ran.assert_outcomes(passed=2)
    ran.stdout.fnmatch_lines(
        [
            "*the largest owners of each test, simulated*",
            "test_it.py::test_one: needs * MiB on a100-80gb",
            "*16 MiB*float32), test_it.py:*",
            "test_it.py::test_other: needs 0 B on a100-80gb",
        ]
    )


BASELINE = """
def test_it():
    train(rows=ROWS)
"""


def test_a_baseline_names_the_owner_that_grew(runs, pytester):
    stored = pytester.path / "baseline.json"
    assert runs(BASELINE.replace("ROWS", "4096"), "--every-byte-store", str(stored)).ret == 0
    figures = json.loads(stored.read_text())
    assert figures["schema"] == 1
    assert list(figures["tests"]) == ["test_it.py::test_it"]
    assert runs(BASELINE.replace("ROWS", "4096"), "--every-byte-against", str(stored)).ret == 0
    assert runs(BASELINE.replace("ROWS", "2048"), "--every-byte-against", str(stored)).ret == 0
    ran = runs(BASELINE.replace("ROWS", "8192"), "--every-byte-against", str(stored))
    ran.assert_outcomes(failed=1)
    text = ran.stdout.str()
    assert "more than in " in text
    assert re.search(
        rf"\+16 MiB  [\w ]+ in \* ReLU \(.+, 8192×1024 float32\), test_it.py:{line_of('loss = model')}", text
    )


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ('limit_gpu_memory("much")', "limit_gpu_memory takes bytes, or a size in B, KiB, MiB or GiB: got 'much'"),
        (
            "limit_gpu_growth()",
            'limit_gpu_growth takes a size and gpu="…": got no size; try limit_gpu_growth("16 MiB")',
        ),
        ('limit_gpu_memory("1 GiB", card="t4")', "limit_gpu_memory takes a size and gpu=\"…\": got '1 GiB', card"),
        ('limit_gpu_memory("1 GiB", gpu="h1000")', "name must be a known GPU: got 'h1000'"),
    ],
)
def test_markers_that_say_nothing_known(runs, marker, said):
    ran = runs(f"@pytest.mark.{marker}\ndef test_it():\n    train()\n")
    assert ran.ret != 0
    assert said in ran.stdout.str()


def test_a_baseline_that_is_none(runs, pytester):
    (pytester.path / "b.json").write_text("{}")
    ran = runs("def test_it(): pass", "--every-byte-against", "b.json")
    assert ran.ret == pytest.ExitCode.USAGE_ERROR
    assert "--every-byte-against must be a file that --every-byte-store wrote: got 'b.json'" in ran.stderr.str()


def test_it_brings_no_torch_to_tests_that_are_not_measured():
    code = f"import {PLUGIN}, sys; print('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert ran.stdout == "False\n"
