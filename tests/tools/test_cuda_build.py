"""The recorder over the CUDA build: which cases it records where, and what it calls a difference."""

from types import SimpleNamespace

import pytest
import torch
from places import RECORDED, REFERENCE
from reference_files import WITHOUT_A_CASE

from every_byte.gpu.cases.files import write
from every_byte.gpu.cases.programs import load_cases
from every_byte.verify.recordings import files_of_cases
from tools.cuda_build import label
from tools.cuda_build import record as tool

EVENTS = [["alloc", 0, 8, "", None, "m"], ["alloc", 1, 8, "", None, "m"], ["free", 1], ["free", 0], ["mark", "m"]]
MARKS = [{"name": "m", "requested": 0, "allocated": 0, "reserved": 2_097_152, "peak": 1024}]
RECORDING = {"torch": "2.13", "card": "a100", "device_name": "A", "case": "small", "marks": MARKS, "events": EVENTS}


def case_of(*cards, **attributes):
    return SimpleNamespace(cards=cards, **attributes)


def held(folder, stems):
    """(case, card) of the recordings in a folder of the cases of these files, and the pairs of what should be there."""
    cases = {name: case for stem in stems for name, case in load_cases(REFERENCE / f"{stem}.py").items()}
    there = {tuple(path.name.removesuffix(".json.gz").rsplit(".", 1)) for path in folder.glob("*.json.gz")}
    return there, cases


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch.distributed.optim's own, as it loads
@pytest.mark.parametrize("folder", [RECORDED, *(RECORDED / name for name in ("operations", "settings", "zoo"))])
def test_what_is_held_is_what_would_be_recorded(folder):
    """Each case on each of its cards, no file without a case, and events where the case asks for them."""
    there, cases = held(folder, {path.stem for path, place in files_of_cases().items() if RECORDED / place == folder})
    if folder == RECORDED:
        there -= {(name, "a100") for name in WITHOUT_A_CASE}
    assert there == set(tool.jobs([], [], cases))
    with_events = {pair for pair in there if tool.keeps_events(cases[pair[0]], pair[1])}
    assert with_events == {pair for pair in there if "events" in tool.read(folder / tool.file_name(*pair))}


def test_a_case_is_recorded_on_its_own_cards():
    cases = {"one": case_of("a100", "h100"), "two": case_of("h100"), "three": case_of("t4")}
    assert tool.jobs(["one", "two"], [], cases) == [("one", "a100"), ("one", "h100"), ("two", "h100")]
    assert tool.jobs([], ["h100"], cases) == [("one", "h100"), ("two", "h100")]
    assert tool.jobs(["t*"], [], cases, ["l40s"]) == [("two", "l40s"), ("three", "l40s")]
    with pytest.raises(ValueError, match="--cards must be cards of the chosen cases: got 't4'; they are a100, h100"):
        tool.jobs(["one"], ["t4"], cases)


def test_events_are_kept_on_the_cards_that_the_case_says():
    assert tool.keeps_events(case_of("a100"), "a100")
    assert not tool.keeps_events(case_of("a100", events=()), "a100")
    assert tool.keeps_events(case_of("a100", "h100", events=("a100",)), "l40s")
    assert [tool.keeps_events(case_of("a100", "h100", events=("h100",)), card) for card in ("a100", "h100")] == [0, 1]


def test_frees_that_follow_one_another_may_change_places():
    swapped = RECORDING | {"events": [*EVENTS[:2], EVENTS[3], EVENTS[2], EVENTS[4]]}
    assert tool.difference(swapped, RECORDING) == ""
    later = RECORDING | {"events": [EVENTS[0], EVENTS[3], EVENTS[1], EVENTS[2], EVENTS[4]]}
    assert tool.difference(later, RECORDING) == 'events[1] is ["free", 0], was ["alloc", 1, 8, "", null, "m"]'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"torch": "2.14"}, 'torch is "2.14", was "2.13"'),
        ({"torch": "2.14", "marks": []}, "marks[0] is null, was {"),
        ({"marks": [MARKS[0] | {"peak": 512}]}, "marks[0] is "),
        ({"marks": []}, "marks[0] is null, was {"),
        ({"events": [*EVENTS[:4], ["mark", "n"]]}, 'events[4] is ["mark", "n"], was ["mark", "m"]'),
        ({"origin": "measured"}, 'origin is "measured", was null'),
    ],
)
def test_the_first_difference_is_named(change, said):
    assert tool.difference(RECORDING | change, RECORDING).startswith(said)
    assert tool.difference(RECORDING, RECORDING | change) != ""
    without_events = {key: value for key, value in RECORDING.items() if key != "events"}
    assert tool.difference(without_events, RECORDING).startswith("events is null, was [[")


STAND_IN = r"""#!/bin/bash
give() { mkdir -p "$1" && cp GIVEN/*.$STUB_CUDA_GPU.json.gz "$1" && echo some && echo done; }
if [[ "$*" == *--serve* ]]; then
  while IFS=$'\t' read -r path name out; do
    give "$out" 2>&1
    printf '\0done%s\n' $?
  done
else
  while [ $1 != --out ]; do shift; done
  give "$2"
fi
"""


@pytest.fixture
def build(tmp_path, monkeypatch):
    """A stand-in for run.sh, which hands out the recordings that lie in `gives`; and a file with one case."""
    given = tmp_path / "gives"
    given.mkdir()
    script = tmp_path / "run.sh"
    script.write_text(STAND_IN.replace("GIVEN", str(given)))
    script.chmod(0o755)
    monkeypatch.setattr(tool, "HERE", tmp_path)
    monkeypatch.chdir(tmp_path)  # recordings go below it where nothing else is said
    cases = tmp_path / "my_cases.py"
    cases.write_text(
        "def small(env): pass\nsmall.cudnn_sdp, small.cards = False, ('a100', 'h100')\nCASES = {'small': small}\n"
    )
    return SimpleNamespace(gives=given, arguments=["--cases", str(cases), "--cards", "a100"])


def test_the_command_records_into_a_folder(build, tmp_path, capsys):
    write(RECORDING, build.gives)
    assert tool.main([*build.arguments, "small", "--out", str(tmp_path / "new")]) == 0
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["small.a100.json.gz"]
    assert capsys.readouterr().out.split("\n") == [f"{'small.a100':44s} done", "1 recorded, 0 failed", ""]


def test_a_case_runs_under_the_settings_that_it_names(build, monkeypatch):
    """And under no others, whatever stands in the environment."""
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "expandable_segments:True")
    asked = []

    def run(_command, unset, **settings):
        asked.append((unset, settings))
        return True, ""

    monkeypatch.setattr(tool, "run_in_a_process", run)
    path = build.arguments[1]
    write(RECORDING, build.gives)
    assert tool.main([*build.arguments, "small"]) == 0
    assert not asked  # one that names none is a fork of a process that has none
    with tool.forks() as forks:
        there = forks.environment("a100")
    assert there["STUB_CUDA_GPU"] == "a100"
    assert not {"PYTORCH_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG"} & there.keys()
    with open(path, "a") as file:
        file.write("CASES['small'].settings = {'CUBLAS_WORKSPACE_CONFIG': ':16:8'}\n")
    assert tool.main([*build.arguments, "small"]) == 0
    [(unset, settings)] = asked
    assert settings == {"STUB_CUDA_GPU": "a100", "CUBLAS_WORKSPACE_CONFIG": ":16:8"}
    assert {"PYTORCH_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG"} <= set(unset)


def test_the_command_checks_a_folder(build, tmp_path, capsys):
    """It says so line by line, fails on a difference, and writes nothing."""
    there = tmp_path / "there"
    write(RECORDING, build.gives)
    assert tool.main([*build.arguments, "--check", str(there)]) == 1
    assert "FAILED: nothing to compare with: " in capsys.readouterr().out
    path = write(RECORDING, there)
    assert tool.main([*build.arguments, "--check", str(there)]) == 0
    assert f"small.a100{' ' * 35}as in {path}\n1 recorded, 0 failed" in capsys.readouterr().out
    write(RECORDING | {"marks": []}, there)
    assert tool.main([*build.arguments, "--check", str(there)]) == 1
    assert "FAILED: marks[0] is {" in capsys.readouterr().out
    assert tool.read(path)["marks"] == []


def test_all_files_of_cases_go_where_each_belongs(build, tmp_path, monkeypatch):
    """Those of cases.py and gpt2_cases.py to the folder itself, those of the zoo to `zoo`, others to `operations`."""
    monkeypatch.setattr(tool, "CASES", tmp_path / "cases.py")
    (tmp_path / "cases.py").write_text(
        (tmp_path / "my_cases.py").read_text().replace("'h100'", "").replace("small", "large")
    )
    (tmp_path / "zoo_my_cases.py").write_text(
        (tmp_path / "my_cases.py").read_text().replace("'h100'", "").replace("small", "tame")
    )
    write(RECORDING, build.gives)
    assert tool.main(["--all", "--out", str(tmp_path / "new")]) == 1  # there is none to be had of the h100
    found = {path.relative_to(tmp_path / "new").parent.as_posix() for path in (tmp_path / "new").rglob("*.gz")}
    assert found == {".", "operations", "zoo"}
    with pytest.raises(SystemExit):
        tool.main(["--all", "small"])


def test_a_case_that_fails_shows_its_error(build, capsys):
    """Here nothing is there to be handed out."""
    assert tool.main(build.arguments) == 1
    assert "FAILED: cp: " in capsys.readouterr().out


def test_what_does_not_exist_is_refused(build, capsys):
    for wrong, said in ((["big"], "got 'big'; try one of small"), (["--cards", "t4"], "got 't4'; they are a100, h100")):
        with pytest.raises(SystemExit) as stopped:
            tool.main([*build.arguments, *wrong])
        assert stopped.value.code == 2
        assert said in capsys.readouterr().err


@pytest.fixture
def _attention_as_before():
    """A case says for a whole process whether attention may take cuDNN's kernel: here, other tests follow in it."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    yield
    torch.backends.cuda.enable_cudnn_sdp(before)


@pytest.mark.usefixtures("_attention_as_before")
@pytest.mark.parametrize("with_events", [True, False])
def test_a_case_on_a_card(card, monkeypatch, with_events):
    """What the process that runs it records: figures at every mark, events up to the last one."""
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)

    def reset(index):
        card.allocator.reset_peak_memory_stats()

    monkeypatch.setattr(torch._C, "_cuda_resetPeakMemoryStats", reset, raising=False)

    def case(env):
        blocks = [card.malloc(100, ["at::_ops::ones::call("]), card.malloc(600)]
        env.mark("two")
        card.free(blocks.pop())
        env.mark("one")
        card.free(blocks.pop())

    case.cudnn_sdp, case.cards, case.events = False, ("a100", "h100"), ("a100",) if with_events else ()
    recorded = tool.record_on("a100", "some", case)
    expected = {
        "torch": torch.__version__,
        "card": "a100",
        "device_name": "a pretended card",
        "case": "some",
        "cudnn_sdp": False,
        "marks": [
            {"name": "two", "requested": 700, "allocated": 1536, "reserved": 2_097_152, "peak": 1536},
            {"name": "one", "requested": 100, "allocated": 512, "reserved": 2_097_152, "peak": 1536},
        ],
        "events": [
            ["segment_alloc", 2_097_152],
            ["alloc", 0, 100, "ones", None, "two"],
            ["alloc", 1, 600, "", None, "two"],
            ["mark", "two"],
            ["free", 1],
            ["mark", "one"],
        ],
    }
    if not with_events:
        del expected["events"]
    assert recorded == expected


def test_another_version_alone_is_no_failure(build, tmp_path, capsys):
    """But it is said."""
    write(RECORDING | {"torch": "2.14"}, build.gives)
    write(RECORDING, tmp_path / "there")
    assert tool.main([*build.arguments, "--check", str(tmp_path / "there")]) == 0
    assert 'torch is "2.14", was "2.13"\n1 recorded, 0 failed' in capsys.readouterr().out
    write(RECORDING | {"torch": "2.14", "marks": []}, build.gives)
    assert tool.main([*build.arguments, "--check", str(tmp_path / "there")]) == 1


def test_a_phase_that_a_file_lacks_is_refused_by_name(tmp_path, capsys):
    with pytest.raises(SystemExit):
        label.main([str(write(RECORDING, tmp_path)), "backward"])
    assert "phase must be one of this file's: got 'backward'; there are m." in capsys.readouterr().err
