"""Eight programs, each with one thing wrong as people write it: the report's first screen has the cause and the line.

Their files are in the folder `broken`. A screen is what a terminal of 80 × 24 shows of a report from its first line on,
before any table.
"""

from pathlib import Path

import pytest
from forked_runs import Runs

FOLDER = Path(__file__).parent / "broken"
SCREEN = 24
# What is wrong: the rule's name, None where the verdict itself says it; words of the cause, and of the line to look at.
WRONG = {
    "kept_checkpoint": ("kept checkpoint", "A checkpoint that was loaded", 'checkpoint = torch.load("latest.pt"'),
    "evaluation_with_graph": ("graphs without backward", "under torch.no_grad()", "total += loss_of(tokens)"),
    "list_of_losses": ("slow growth", "keep numbers, loss.item()", "loss = F.cross_entropy("),
    "growing_graph": (None, "Something keeps a graph with it: keep .detach()", "state = rnn("),
    "varying_lengths": ("varying lengths", "Batches vary in length", "tokens = torch.randint("),
    "spelt_out_attention": ("spelt-out attention", "F.scaled_dot_product_attention(", "F.softmax(scores"),
    "data_parallel": ("data parallel", "Use DistributedDataParallel", "nn.DataParallel(model)"),
    "two_optimizers": ("two optimizers", "2 optimizers, Adam and AdamW", "chosen.step()"),
}
GPUS = {"spelt_out_attention": "t4-16gb"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = Runs(tmp_path_factory.mktemp("programs"))
    (runs.folder / "model.py").write_text((FOLDER / "model.py").read_text())
    yield runs
    runs.close()


def place_of(name: str, words: str) -> str:
    """Where a program has these words, as a report says it: "train.py:9", or "model.py:27"."""
    for file in (f"{name}.py", "model.py"):
        for number, line in enumerate((FOLDER / file).read_text().splitlines(), start=1):
            if words in line:
                return f"{file}:{number}"
    raise AssertionError(f"{name}.py has no line with {words!r}")


@pytest.mark.long
@pytest.mark.parametrize("name", WRONG)
def test_the_first_screen_has_the_cause_and_the_line(run, name):
    rule, cause, words = WRONG[name]
    found = run(
        (FOLDER / f"{name}.py").read_text(), "--steps", "0", "--gpu", GPUS.get(name, "a100-80gb"), name=f"{name}.py"
    )
    assert found.exit_code == 0, found.err
    screen = " ".join(" ".join(found.report.splitlines()[:SCREEN]).split())
    said, _, _ = screen.partition("peak allocated")
    assert cause in said
    assert place_of(name, words) in said
    assert [finding["rule"] for finding in found.figures["findings"]] == ([rule] if rule else [])


def test_each_program_is_held():
    assert {path.stem for path in FOLDER.glob("*.py")} == {*WRONG, "model"}
