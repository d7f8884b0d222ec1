"""The examples of the site run, and print what is stored; its pictures and its prose belong to that."""

import re
import runpy
import sys
import warnings

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from every_byte import Ledger, SimulatedGPU
from every_byte.units import short
from tools.example_runs import (
    EXAMPLES,
    IMAGES,
    PICTURED,
    PROGRAM,
    ROOT,
    RUNS,
    THEMES,
    digest_of,
    examples,
    printed_by,
    report_of,
    shown_on,
)

pytestmark = pytest.mark.sampled(3, slow=True)

PAGE = (ROOT / "book" / "your_own_program.md").read_text(encoding="utf-8")


def stored(name: str) -> str:
    return (EXAMPLES / f"{name}.txt").read_text(encoding="utf-8")


def categories(text: str) -> dict[str, int]:
    """What is allocated by category, as a stored report has it."""
    table = text[text.index("category ") :].split("\n\n")[0]
    rows = re.findall(r"^(\S.*?)\s{2,}[\d,]+\s+[\d,]+\s+([\d,]+)", table, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in rows}


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_a_report_says_what_is_stored(name, tmp_path):
    assert report_of(name, tmp_path) == stored(name), "python -m tools.example_runs writes it anew"


@pytest.mark.long
@pytest.mark.parametrize("name", examples())
def test_an_example_prints_what_is_stored(name):
    assert printed_by(name) == stored(name), "python -m tools.example_runs writes it anew"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_the_example_of_a_live_gpu_runs():
    assert "bytes at most, measured\n" in printed_by("live_gpu")


def test_every_public_name_has_its_example():
    import every_byte

    files = {name: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in every_byte.__all__}
    for name, file in files.items():
        text = (EXAMPLES / f"{file}.py").read_text(encoding="utf-8")
        assert re.search(rf"^from every_byte import .*\b{name}\b", text, re.MULTILINE)
    of_models = EXAMPLES / "account.py"  # hugging_face needs a library
    assert re.search(r"^from every_byte.account import account, ", of_models.read_text(encoding="utf-8"), re.MULTILINE)
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*files.values(), PROGRAM.stem, of_models.stem}


def test_nothing_is_stored_that_no_program_prints():
    assert {path.stem for path in EXAMPLES.glob("*.txt")} == {*RUNS, *examples()}


@pytest.mark.parametrize("theme", THEMES)
def test_a_picture_shows_the_report_that_is_stored(theme):
    assert shown_on(IMAGES / f"report.{theme}.png") == digest_of(stored(PICTURED))


def test_the_page_shows_these_commands_and_texts():
    assert RUNS[PICTURED] in PAGE
    shown = set(re.findall(r"\{literalinclude\} examples/(train\..*)\.txt", PAGE))
    assert shown == set(RUNS)


def test_what_the_page_says_of_the_first_report():
    found = categories(stored("train.a100"))
    whole = found.pop("total")
    assert sum(found.values()) == whole
    assert round(6 * found["activations"] / whole) == 5  # five sixths
    assert round(10 * (found["parameters"] + found["optimizer state"]) / whole) == 1  # a tenth
    first, second = re.findall(
        r"^activations +(blocks\S+) +(addmm|gelu), 24.*3072 .* (12) ×", stored("train.a100"), re.M
    )
    assert first[0] == second[0] == "blocks.*.mlp.*"
    steps = re.findall(r"^\d +[\d,]+ +([\d,]+)", stored("train.a100"), re.MULTILINE)
    assert int(steps[0].replace(",", "")) < int(steps[1].replace(",", ""))
    assert "step 2, backward" in stored("train.a100")
    assert ".item()" in (EXAMPLES / "train.py").read_text(encoding="utf-8").splitlines()[line_read() - 1]


@pytest.mark.long
def test_what_the_page_says_of_its_steps(monkeypatch):
    """The third leaves more bytes than the second, and the same tensors."""
    ends = re.findall(r"^\d +([\d,]+) ", stored("train.a100"), re.MULTILINE)
    _, second, third = (int(number.replace(",", "")) for number in ends)
    assert f"The third step leaves {third - second:,d} bytes more" in PAGE
    monkeypatch.setattr(sys, "argv", ["train.py", "--steps", "3"])
    after = []
    with SimulatedGPU("a100-80gb", cuda=True) as gpu, warnings.catch_warnings(action="ignore"):
        hook = register_optimizer_step_post_hook(lambda *_: after.append(Ledger.now(gpu)))
        runpy.run_path(str(PROGRAM), run_name="__main__")
        hook.remove()
    assert [ledger.allocated_bytes for ledger in after[1:]] == [second, third]
    assert len(after[1]) == len(after[2])
    assert after[1].requested_bytes == after[2].requested_bytes
    gradients = [ledger.of(category="gradients") for ledger in after[1:]]
    assert gradients[1].slack_bytes - gradients[0].slack_bytes == third - second


def line_read() -> int:
    (number,) = re.findall(r"were read, as zeros, at examples/train\.py:(\d+):", stored("train.a100"))
    return int(number)


def test_what_the_page_says_of_a_t4():
    scores = 24 * 12 * 1024 * 1024 * 4
    assert f"{scores:,d}".replace(",", "{,}") in PAGE
    t4, a100, float16 = stored("train.t4"), stored("train.a100"), stored("train.t4.float16")
    assert re.search(r"t4-16gb\* \([\d.]+ GiB to\s+spare\)", a100)
    assert t4.startswith("Out of memory on t4-16gb: needs at least 13.4 of 14.0 GiB")
    assert "It ran out in forward, before the first step ended: " in t4
    rows = t4[t4.index("the largest owners") :].splitlines()
    row = re.compile(r"_safe_softmax, 24×12×1\S* +train\.py:34 +(\d+) × (\S+ GiB) +(\S+ GiB)$")
    n, each, total = row.search(rows[1]).groups()
    assert (each, total) == (short(scores), short(int(n) * scores))
    assert "softmax" not in a100
    assert "Fits on t4-16gb: " in float16


def test_the_first_command_is_the_readmes_too():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for line in ("pip install .", "every-byte run train.py"):
        assert line in readme
        assert line in PAGE or line in (ROOT / "book" / "index.md").read_text(encoding="utf-8")
