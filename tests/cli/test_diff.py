"""A recorded snapshot and its program agree to the byte; whatever one changes in the program is found at its line."""

import pickle
import re
import shutil

import pytest
import torch
from forked_runs import Runs
from recorded_snapshots import FOLDER, PROGRAM_OF, PROGRAMS

from every_byte.__main__ import main
from every_byte.cli.diff import parser, understood


@pytest.fixture(scope="module")
def diff(tmp_path_factory):
    """The command, on a recorded snapshot and a program that was changed, in a folder with both."""
    runs = Runs(tmp_path_factory.mktemp("diff"), "diff")

    def run(name: str, *options: str, change=lambda code: code):
        shutil.copy(FOLDER / f"{name}.a100.pickle", runs.folder / "real.pickle")
        code = change((PROGRAMS / f"{PROGRAM_OF[name]}.py").read_text(encoding="utf-8"))
        return runs(code, *options, "real.pickle")

    run.folder, run.runs = runs.folder, runs
    yield run
    runs.close()


@pytest.mark.long
@pytest.mark.sampled(3, slow=True)
@pytest.mark.parametrize("name", PROGRAM_OF)
def test_the_same_program_agrees_to_the_byte(name, diff):
    found = diff(name)
    assert found.exit_code == 0, found.err
    assert "They agree to the byte: " in found.err
    told = found.figures
    assert told["first_difference"] is None
    assert told["differences"] == []
    for figure in ("peak_block_bytes", "peak_reserved_bytes"):
        assert told[figure]["real"] == told[figure]["simulated"] > 0


@pytest.mark.long
def test_one_size_that_was_changed_is_found_at_its_line(diff):
    found = diff("train", change=lambda code: code.replace("torch.randn(64, 256", "torch.randn(63, 256"))
    assert found.exit_code == 1
    told = found.figures
    assert told["first_difference"]["kind"] == "size"
    real, simulated = told["first_difference"]["real"], told["first_difference"]["simulated"]
    assert (real["place"], real["n_bytes"], simulated["n_bytes"]) == ("train.py:21 main", 64 * 1024, 63 * 1024)
    assert real["request"] == simulated["request"] == 4  # behind the four parameters
    said = " ".join(found.err.split())
    assert (
        "The first difference is the size of request 5: snapshot 65,536 bytes (64 KiB), train.py:21 main, randn" in said
    )
    assert "simulation 64,512 bytes (63 KiB), outside modules, randn" in said
    by_size = {(one["made_by"], one["real_bytes"]): one for one in told["differences"]}
    assert by_size["relu", 262144]["simulated_bytes"] == 258048
    assert by_size["relu", 262144]["requests"] == 3  # one in each step


@pytest.mark.long
def test_another_gpu_is_found_by_its_workspaces(diff):
    found = diff("train", "--gpu", "h100-80gb")
    assert found.exit_code == 1
    assert found.figures["first_difference"]["simulated"]["made_by"] == "cuBLAS workspace"
    assert "is --gpu that on which the snapshot was taken?" in " ".join(found.err.split())


def test_what_is_only_in_one_of_them_is_named(diff):
    more = "        loss = model(x)", "        y = torch.empty(12345, device='cuda')\n        loss = model(x)"
    found = diff("train", change=lambda code: code.replace(*more))
    assert found.exit_code == 1
    (extra,) = found.figures["differences"]
    assert (extra["made_by"], extra["real_bytes"], extra["simulated_bytes"], extra["requests"]) == (
        "empty.memory_format", None, 49380, 3
    )  # fmt: skip


def test_a_free_in_another_place_is_a_difference(diff):
    found = diff(
        "train", change=lambda code: code.replace("        loss.backward()", "        del x\n        loss.backward()")
    )
    assert found.exit_code == 1
    assert found.figures["first_difference"]["kind"] == "freed"
    assert "all 77 requests of the snapshot are of the simulation's sizes" in " ".join(found.err.split())


def test_a_program_that_ends_before_the_snapshot_does(diff):
    found = diff("train", "--steps", "0", change=lambda code: code.replace("range(3)", "range(2)"))
    assert found.exit_code == 1
    assert found.figures["first_difference"]["kind"] in ("ended", "freed")


def test_a_program_that_was_stopped_is_compared_as_far_as_it_went(diff):
    found = diff("leak", "--steps", "2")
    assert found.exit_code == 0
    assert re.search(r"The snapshot goes on for \d+ requests, which were not compared: raise --steps", found.err)


def test_settings_are_those_of_the_snapshot_or_as_they_are_said(diff):
    found = diff("expandable", "--settings", "expandable_segments:False")
    assert found.exit_code == 1
    assert found.figures["settings"] == {"expandable_segments": [True, False]}
    assert "set otherwise: expandable_segments is True in the snapshot, and False in the simulation" in " ".join(
        found.err.split()
    )


def test_the_first_line_names_the_release_and_not_which_build_of_it(diff):
    first = " ".join(diff("train").err.split()).partition(");")[0]
    assert first.endswith(f", torch {torch.__version__.partition('+')[0]}, rules of PyTorch 2.13")


def test_what_is_to_be_reported_stands_at_the_end(diff):
    found = diff("train", change=lambda code: code.replace("1024", "1000"))
    report = found.err[found.err.index("If the program, its settings and its inputs are the same") :]
    assert "rules of PyTorch 2.13; simulated a100-80gb" in report
    assert "1048576 bytes, train.py:18 main, _to_copy" in report
    assert "torch.cuda.get_device_name()" in report


def test_the_snapshot_stays_what_it_is(diff):
    """Though the program writes a snapshot of the same name, in three ways."""
    writes = """
    torch.cuda.memory._record_memory_history()
    main()
    torch.cuda.memory._dump_snapshot("real.pickle")
    import pickle
    pickle.dump(torch.cuda.memory._snapshot(), open("real.pickle", "wb"))
    """.replace("\n    ", "\n")
    before = (FOLDER / "train.a100.pickle").read_bytes()
    found = diff("train", change=lambda code: code.replace("\nmain()\n", writes))
    assert found.exit_code == 0, found.err
    assert (diff.folder / "real.pickle").read_bytes() == before
    assert not (diff.folder / "real.simulated.pickle").exists()


def test_a_snapshot_of_a_simulated_gpu_is_one_too(diff):
    program = (PROGRAMS / "train.py").read_text(encoding="utf-8")
    made = diff.runs(program, "--steps", "0", "--quiet", "--viz", "real.pickle", command="run")
    assert made.exit_code == 0
    simulated = (diff.folder / "real.pickle").read_bytes()
    found = diff.runs(program, "real.pickle")
    assert found.exit_code == 0, found.err
    assert "They agree to the byte: 77 requests" in found.err
    assert (diff.folder / "real.pickle").read_bytes() == simulated != (FOLDER / "train.a100.pickle").read_bytes()


def test_a_program_that_leaves_by_the_back_door_is_compared_all_the_same(diff):
    found = diff("train", change=lambda code: code + "\nimport os\nos._exit(7)\n")
    assert found.exit_code == 0
    assert "the program called os._exit(7)" in " ".join(found.err.split())


def test_options_may_stand_before_and_behind_the_snapshot():
    asked = understood(["--gpu", "h100-80gb", "a.pickle", "--steps", "2", "train.py", "--steps", "9"])
    assert (asked.gpu, asked.steps, asked.snapshot.name, asked.script) == ("h100-80gb", 2, "a.pickle", "train.py")
    assert asked.arguments == ("--steps", "9")
    asked = understood(["a.pickle", "-m", "package.train", "x"])
    assert (asked.module, asked.arguments) == ("package.train", ("x",))
    assert parser().format_usage().startswith("usage: every-byte diff")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "a snapshot and a program must be named: try every-byte diff snapshot.pickle train.py."),
        (["real.pickle"], "after the snapshot: got none; try every-byte diff real.pickle train.py."),
        (["-m", "train", "real.pickle"], "a snapshot and a program must be named"),
        (["real.pickle", "none.py"], "the program must be a file: got 'none.py'"),
        (["none.pickle", "train.py"], "the snapshot must be a file: got 'none.pickle'"),
        (["train.py", "train.py"], "is no snapshot that can be read"),
        (["--gpu", "live", "real.pickle", "train.py"], "--gpu must be one that is simulated: got 'live'"),
        (["--gpu", "h1000", "real.pickle", "train.py"], "name must be a known GPU: got 'h1000'"),
        (["--stepz", "2", "real.pickle", "train.py"], "did you mean '--steps'?"),
        (["--device", "3", "real.pickle", "train.py"], "must be one that the snapshot has something of: got 3"),
        (["empty.pickle", "train.py"], "the snapshot must hold a history: empty.pickle has no allocation of device 0"),
    ],
)  # fmt: skip
def test_what_is_not_understood(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(FOLDER / "train.a100.pickle", "real.pickle")
    shutil.copy(PROGRAMS / "train.py", "train.py")
    (tmp_path / "empty.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}))
    with pytest.raises(SystemExit) as ended:
        main(["diff", *words])
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())
