"""What a verdict says beside "fits": what was survived, what was not run, what is not counted, and how it ended."""

import re
import textwrap

import pytest
from forked_runs import Runs, in_lines
from reported import of_a_gpt, of_an_mlp, out_of_memory

from every_byte.gpu.memory.specs import SPECS
from every_byte.ledger.notes import Notes
from every_byte.ledger.trace import Trace
from every_byte.report.notes import not_counted
from every_byte.report.render.facts import GOES_ON
from every_byte.units import exact, in_gib, short

HEAD = """
import sys
import torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
def step(b=64):
    model(torch.randn(b, 256, device="cuda")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
LOOP = HEAD + "for i in range(9): step()"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = Runs(tmp_path_factory.mktemp("programs"))
    yield runs
    runs.close()


def page(runs: Runs, text: str, *options: str) -> str:
    path = runs.folder / "report.html"
    runs(text, "--html", str(path), *options)
    return path.read_text(encoding="utf-8")


# ---- memory ran out in the second step, for want of what the first one made

AGAIN = """
import torch
from torch import nn
model = nn.Sequential(*[nn.Linear(4096, 4096, device="cuda") for _ in range(N)])
optimizer = torch.optim.AdamW(model.parameters())
for i in range(2):
    model(torch.randn(B, 4096, device="cuda")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.nightly
def test_a_second_step_that_lacks_more_than_pieces_is_told_what_it_needs(run):
    text = AGAIN.replace("N", "20").replace("B", "32_000")
    found = run(text, "--gpu", "t4-16gb")
    (needed,) = re.findall(r"A second step like it needs some (.* GiB), and there are ", in_lines(found))
    enough = run(text, "--gpu", "l40s-48gb").figures["peak"]["allocated_bytes"]
    assert needed == short(enough)
    assert enough > SPECS["t4-16gb"].total_bytes
    assert "expandable_segments" not in found.report


@pytest.mark.long
def test_what_there_was_once_before_training_is_not_the_first_steps(run):
    once = "once = torch.empty(12 << 30, dtype=torch.uint8, device='cuda'); del once\ntorch.cuda.empty_cache()\n"
    text = AGAIN.replace("N", "30").replace("B", "2 if i == 0 else 30_000").replace("model = nn", f"{once}model = nn")
    found = run(text, "--gpu", "t4-16gb")
    assert "Out of memory" in found.report
    assert "A second step like it" not in found.report


@pytest.mark.long
def test_where_the_first_step_had_its_state_at_the_peak_no_more_is_asked_for(run):
    found = run(AGAIN.replace("N", "90").replace("B", "2 if i == 0 else 40_000"), "--gpu", "t4-16gb")
    assert "Out of memory" in found.report
    assert "A second step like it" not in found.report


# ---- memory ran out, and the program went on

HALVING = """
b = 8_000_000
for i in range(9):
    try:
        step(b)
    except torch.OutOfMemoryError:
        b //= 2
"""


@pytest.mark.long
def test_where_else_a_program_fits_that_halves_its_batch_is_not_told(run):
    found = run(HEAD + HALVING, "--gpu", "t4-16gb")
    assert found.figures["n_survived"] == 4
    assert found.figures["fits"] is None
    assert GOES_ON in in_lines(found)
    assert "Replayed" not in found.report
    assert not any(name in found.report for name in SPECS if name != "t4-16gb")
    shown = page(run, HEAD + HALVING, "--gpu", "t4-16gb").split("<script")[0]
    assert GOES_ON in shown
    assert "The GPUs that are known" not in shown


# ---- what was not run

NOT_RUN = "What comes after step 3, as an evaluation, was not run: --steps 0 runs all of it."


@pytest.mark.long
def test_what_was_stopped_says_so_beside_fits(run):
    found = run(LOOP)
    assert NOT_RUN in in_lines(found)
    assert found.figures["was_stopped"] is True
    assert NOT_RUN in page(run, LOOP)


@pytest.mark.parametrize(("dumped_at", "is_named"), [(8, True), (1, False)])
def test_a_snapshot_that_was_not_dumped_is_named(run, tmp_path, dumped_at, is_named):
    dump = f"torch.cuda.memory._dump_snapshot({str(tmp_path / 'a.pickle')!r})"
    loop = f"for i in range(9):\n    step()\n    if i == {dumped_at}:\n        {dump}\n"
    found = run(f"{HEAD}torch.cuda.memory._record_memory_history()\n{loop}")
    said = "the program records a memory history, and has dumped no snapshot of it since"
    assert (said in in_lines(found)) == is_named
    assert (tmp_path / "a.pickle").exists() != is_named


@pytest.mark.long
@pytest.mark.parametrize("text", ["step()", "step(); sys.exit(0)", "step(); raise ValueError"])
def test_what_ended_by_itself_does_not(run, text):
    found = run(f"{HEAD}{text}")
    assert "was not run" not in found.report
    assert found.figures["was_stopped"] is False


def test_a_program_that_catches_what_stops_it_was_stopped(run):
    text = "while True:\n    try:\n        step()\n    except BaseException:\n        pass"
    assert run(HEAD + text).figures["was_stopped"] is True


# ---- one figure of what is needed


@pytest.mark.parametrize("n_steps", [0, 2])
def test_what_is_needed_is_one_figure(n_steps):
    report = out_of_memory(n_steps)
    own = report.fits.own
    text = " ".join(repr(report).split())
    slack_bytes = report.shortage.allocated_bytes + report.shortage.asked_bytes - own.in_use_bytes
    assert 0 <= slack_bytes <= report.shortage.ledger.slack_bytes
    assert f"needs at least {in_gib(own.in_use_bytes)} GiB, has {in_gib(own.room_bytes)} GiB." in text
    needs = (
        f"{exact(own.in_use_bytes)} up to this request, without slack",
        f"{exact(own.needed_bytes)} where there is room for all",
    )
    assert all(words in text for words in needs)
    ends = own.in_use_bytes - own.room_bytes, own.needed_bytes - own.room_bytes
    assert f"Does not fit on t4-16gb ({' to '.join(dict.fromkeys(map(short, ends)))} short)" in text
    page = report.html()
    assert all(f"{n_bytes:,d}<small>" in page for n_bytes in (own.in_use_bytes, own.needed_bytes))
    figures = report.to_json()["fits"]["gpus"]
    assert {one["needed_bytes"] for one in figures if not one["n_retries"]} == {own.needed_bytes}


# ---- what is not counted


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], ""),
        (["torch.compile"], ""),
        (["nn.LSTM (cuDNN's reserve and workspace)"], "without what cuDNN takes for nn.LSTM"),
        (["aten::convolution (cuDNN's x)", "aten::cudnn_batch_norm (cuDNN's x)",
          "aten::convolution_backward (cuDNN's x)", "nn.GRU (cuDNN's x)"],
         "without what cuDNN takes for convolution, batch_norm and nn.GRU"),
        (["aten::poisson"], "without what poisson takes meanwhile"),
        (["aten::a", "aten::b", "aten::c", "aten::d", "aten::e"], "without what a, b, c and 2 more take meanwhile"),
        (["aten::poisson", "nn.LSTM (cuDNN's reserve and workspace)"],
         "without what cuDNN takes for nn.LSTM and what poisson takes meanwhile"),
    ],
)  # fmt: skip
def test_what_is_not_counted_in_a_clause(names, said):
    assert not_counted(Trace("simulated", "a100-80gb", notes=Notes(unmodelled=dict.fromkeys(names, 0)))) == said


@pytest.mark.long
def test_the_headline_says_so_of_an_lstm(run):
    text = """
    model = nn.LSTM(64, 128, batch_first=True).to("cuda")
    optimizer = torch.optim.SGD(model.parameters())
    for i in range(9):
        model(torch.randn(8, 20, 64, device="cuda"))[0].sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    found = run(HEAD + textwrap.dedent(text))
    assert " of 78.7 GiB, without what cuDNN takes for nn.LSTM, which is not known." in in_lines(found)
    assert " of 78.7 GiB." in in_lines(run(LOOP))


# ---- ranks


def test_a_rank_is_named(run):
    of_rank = LOOP.replace("import torch\n", "import torch\ntorch.cuda.set_device(1)\n", 1)
    found = run(of_rank, "--ranks", "4", "--rank", "1")
    assert "on a100-80gb (NVIDIA A100-SXM4-80GB), rank 1 of 4, PyTorch 2.13's rules" in in_lines(found)
    assert found.figures["ranks"] == {"rank": 1, "of": 4}
    nccl = "NCCL's own memory is outside of PyTorch's allocator, and is not counted."
    assert in_lines(found).count(nccl) == 1
    shown = page(run, LOOP, "--ranks", "4").split("<script")[0]
    assert "rank 0 of 4" in shown
    assert shown.count(nccl.replace("'", "&#x27;")) == 1


@pytest.mark.parametrize("options", [(), ("--ranks", "1")])
def test_where_there_is_one_nccl_is_not_named(run, options):
    found = run(LOOP, *options)
    assert "NCCL" not in found.report
    assert found.figures["ranks"] == ({"rank": 0, "of": 1} if options else None)


# ---- ended before anything was allocated


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "ended"),
    [
        (
            "from argparse import ArgumentParser as A; A().parse_args(['-n'])",
            "the program called sys.exit(2) (exit code 2)",
        ),
        ("input()", "EOFError: EOF when reading a line (exit code 1)"),
        ("import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that_name' (exit code 1)"),
        ("import os; os._exit(3)", "the program called os._exit(3) (exit code 3)"),
    ],
)  # fmt: skip
def test_what_ended_before_it_began_is_told_by_what(run, text, ended):
    text = f"import sys, os\nsys.stdin = open(os.devnull)\n{text}"
    found = run(text)
    said = f"It ended before anything was allocated on a100-80gb. What ended it: {ended}."
    assert said in in_lines(found)
    assert "chose the CPU" not in found.report
    assert "to the byte" not in found.report
    shown = page(run, text).split("<script")[0]
    assert "It ended before anything was allocated on a100-80gb." in shown
    assert "to the byte" not in shown


def test_what_ended_well_without_the_gpu_chose_the_cpu(run):
    assert "As a rule the program chose the CPU" in in_lines(run("import torch"))


# ---- JSON


def test_json_has_what_the_verdict_is_made_of():
    report = of_a_gpt()
    found = report.to_json()
    assert (found["growth"], found["n_survived"], found["ranks"], found["was_stopped"]) == (None, 0, None, False)
    assert found["allocator_settings"] == ""
    assert found["fits"]["basis"] == report.fits.basis
    assert [one["gpu"] for one in found["fits"]["gpus"]] == [one.gpu for one in report.fits.verdicts]
    for one, verdict in zip(found["fits"]["gpus"], report.fits.verdicts, strict=True):
        assert (one["fits"], one["needed_bytes"], one["room_bytes"]) == (
            verdict.fits, verdict.needed_bytes, verdict.room_bytes,
        )  # fmt: skip
    assert of_an_mlp().to_json()["fits"]["gpus"]


def test_json_has_the_settings(run):
    found = run(LOOP, "--settings", "expandable_segments:True").figures
    assert found["allocator_settings"] == "expandable_segments:True"


# ---- the CUDA context, whose size is assumed


TIGHT = """
import torch
kept = [torch.empty(25_600_000, device="cuda") for _ in range(N)]  # 102,400,000 bytes in segments of 98 MiB
"""


@pytest.mark.long
@pytest.mark.parametrize(("n", "fits"), [(146, True), (147, False)])
def test_a_verdict_that_hangs_on_the_context_says_so(run, n, fits):
    found = run(TIGHT.replace("N", str(n)), "--gpu", "t4")
    text = in_lines(found)
    own = found.figures["fits"]["gpus"][0]
    assert (own["fits"], own["hangs_on_context"]) == (fits, True)
    assert own["context_range_bytes"] == [300 * 2**20, 1008 * 2**20]
    said = "It does not fit with one of 1,008 MiB, and" if fits else "With a CUDA context of 300 MiB it would fit, and"
    assert said in text
    shown = page(run, TIGHT.replace("N", str(n)), "--gpu", "t4")
    assert said in shown
    if fits:
        assert " to spare, if the CUDA context is 560 MiB." in text
        assert "MiB to spare, perhaps)" in text


@pytest.mark.long
@pytest.mark.parametrize(("context", "fits"), [("320MiB", True), ("335544320", True), ("863MiB", False)])
def test_a_context_that_is_stated_is_known(run, context, fits):
    found = run(TIGHT.replace("N", "147"), "--gpu", "t4", "--context", context)
    own = found.figures["fits"]["gpus"][0]
    assert (own["fits"], own["hangs_on_context"]) == (fits, False)
    assert own["context_range_bytes"] == [own["context_bytes"]] * 2
    assert f"{own['context_bytes']:,d} as stated for the" in in_lines(found)
    assert "published" not in found.report
