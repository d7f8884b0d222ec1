"""`--at-most` gives exit code 3 to a program that needs more, and says whose the most of it is, with its line."""

import pytest
from forked_runs import Runs
from wrong_programs import program

OVER = 3
TEXT = program("step()\nstep()\nstep()\n")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = Runs(tmp_path_factory.mktemp("programs"))
    yield runs
    runs.close()


def needed(found) -> int:
    return found.figures["fits"]["gpus"][0]["needed_bytes"]


def test_the_limit_is_what_is_reserved_to_the_byte(run):
    found = run(TEXT)
    assert found.exit_code == 0
    assert run(TEXT, "--at-most", f"{needed(found)}B").exit_code == 0
    over = run(TEXT, "--at-most", f"{needed(found) - 1}B")
    assert over.exit_code == OVER
    _, sentence = over.err.split("every-byte: train.py needs ")
    assert sentence.startswith(f"{needed(found):,d} bytes")
    assert f"1 B more than --at-most {needed(found) - 1}B allows" in sentence
    assert "in * ReLU (threshold_backward, 4096×1024 float32), train.py:10" in sentence


def test_sizes_have_units_and_quiet_leaves_the_sentence(run):
    assert run(TEXT, "--at-most", "1GiB").exit_code == 0
    over = run(TEXT, "--at-most", "1 MiB", "--quiet")
    assert over.exit_code == OVER
    assert over.err.startswith("\nevery-byte: train.py needs ")


def test_the_programs_own_exit_code_comes_first(run):
    assert run(f"{TEXT}raise SystemExit(7)", "--at-most", "1MiB", "--steps", "0").exit_code == 7
    ended = run("import torch\ntorch.zeros(10**12, device='cuda')", "--at-most", "1GiB")
    assert ended.exit_code == 1


def test_a_program_without_a_gpu_needs_nothing(run):
    assert run("print(1)", "--at-most", "1MiB").exit_code == 0


@pytest.mark.parametrize("size", ["much", "0", "20", "3 GB of it"])
def test_what_is_no_size(run, size):
    refused = run(TEXT, "--at-most", size)
    assert refused.exit_code == 2
    assert f"must be a size with its unit, B, KiB, MiB or GiB: got '{size}'; try 20GiB" in refused.err
