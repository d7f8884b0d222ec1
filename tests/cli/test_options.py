"""What the command says of words that it does not understand, before anything has run; and of itself."""

import json
import os
import subprocess
import sys

import pytest
import torch
from forked_runs import Runs
from places import ROOT

import every_byte
from every_byte.__main__ import main
from every_byte.cli.options import understood
from every_byte.cli.report_files import REPORTS
from every_byte.gpu.memory.specs import SPECS

pytestmark = pytest.mark.sampled(3)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The command, in a folder with a folder `sub`, an archive and a module."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "sub").mkdir()
    (folder / "app.zip").write_bytes(b"")
    (folder / "echo.py").write_text("import sys; print(sys.argv[1:])", encoding="utf-8")
    runs = Runs(folder)
    yield runs
    runs.close()


def command(*words: str, **more) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    whole = [sys.executable, "-m", "every_byte", *words]
    return subprocess.run(whole, capture_output=True, text=True, env=environment, check=False, **more)


def refused(capsys, *words: str) -> str:
    """What the command says, on standard error alone, of words that it does not understand."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--gpu", "h1000"), "name must be a known GPU: got 'h1000'"),
        (("--gpu", "live", "--settings", "a:b"), "--settings are those of a simulated GPU: got 'a:b' with --gpu live"),
        (("--gpu", "live", "--torch", "2.15"), "--torch is the version that a simulated GPU follows: got '2.15' with"),
        (("--gpu", "live", "--context", "1GiB"), "--context is that of a simulated GPU: got '1GiB' with --gpu live"),
        (
            ("--context", "much"),
            "context must be bytes or a size such as \"863MiB\": got 'much'; units are B, KiB, MiB",
        ),
        (("--gpu", "t4", "--context", "20GiB"), "context must be less than the GPU's memory: got 21,474,836,480 bytes"),
        (
            ("--gpu", "a100"),
            "name must say which of several GPUs is meant: got 'a100', known: a100-80gb, a100-40gb and",
        ),
        (("--torch", "2.99"), "torch must be a version of PyTorch that has rules, 2.9, "),
        (("--rank", "2"), "--rank is which of --ranks: got 2 of no ranks; try --ranks 8 --rank 2."),
        (("--ranks", "2", "--rank", "2"), "rank must be one of the 2 ranks, 0 to 1: got 2."),
        (("--ranks", "0"), "ranks must be 1 or more: got 0; try 8."),
        (("--ranks", "1e2"), "argument --ranks: must be a whole number, 0 or more: got '1e2'; try 3"),
        (("--steps", "-1"), "argument --steps: must be a whole number, 0 or more: got '-1'; try 3"),
        (("--settings", "max_split_size_mb:1"), "CachingAllocator option max_split_size_mb too small"),
        (("--settings", "nonsense"), "(in the allocator's settings 'nonsense'; they are written as"),
        (
            ("--settings", "x:1"),
            "--settings must be such as PYTORCH_ALLOC_CONF has. PyTorch says of them: Unrecognized",
        ),
        (("--html", "no/r.html"), "--html must be a file in a folder that is there: got 'no/r.html'; make the folder"),
        (("--html", "sub"), "--html must be a file: got 'sub', a folder; try sub/report.html."),
        (("--viz", ""), "--viz must be a file: got '.', a folder; try snapshot.pickle."),
        (("--trace", "train.py"), "--trace must be a file of its own: got 'train.py', which is the program."),
        (("--trace", "t", "--viz", "t"), "--viz must be a file of its own: got 't', which --trace has taken."),
        (("--gup", "t4-16gb"), "must be one of this command's: got '--gup'; did you mean '--gpu'?"),
        (("mpirun", "-n", "2", "train.py"), "got 'mpirun', which starts others; leave it and its options out"),
        (("bin/srun",), "every-byte run train.py, and for several ranks say every-byte run --ranks 8 train.py."),
        (("--batch", "24"), "got '--batch'. The program's own options come after its name."),
        (
            ("-m", "nosuch.train"),
            "-m must name a module that is here or installed: got 'nosuch.train', and there is no",
        ),
        (("sub",), "the program must be a file: got 'sub', a folder; try sub/train.py, or -m and a module."),
        (("app.zip",), "a program must be a file of Python code, or -m with a module: got 'app.zip'."),
        (("echp.py",), "the program must be a file: got 'echp.py', which is none here. Did you mean 'echo.py'?"),
    ],
)
def test_words_that_it_does_not_understand(run, options, said):
    found = run("print('never')", *options)
    assert (found.exit_code, found.out, found.figures) == (2, "", None)
    assert said in found.err
    assert found.err.startswith("usage: every-byte run [options] (SCRIPT | -m MODULE) [arguments]\n")
    assert "Traceback" not in found.err


@pytest.mark.long
@pytest.mark.parametrize("name", REPORTS)
def test_a_file_that_cannot_be_written_is_told_before_anything_runs(run, name):
    found = run("print('never')", f"--{name}", "/proc/report")  # where not even root may write
    assert (found.exit_code, found.out) == (2, "")
    assert f"--{name} must be a file that can be written: got '/proc/report', " in found.err


@pytest.mark.long
def test_a_report_that_is_there_stays_as_it_is_until_the_new_one(run):
    (run.folder / "old.html").write_text("old", encoding="utf-8")
    told = "from pathlib import Path; print(Path('old.html').read_text(), Path('new.html').exists())"
    assert run(told, "--html", "old.html", "--viz", "new.html", "--quiet").out == "old False\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a program after the options, a script, or -m and a module: got none; try every-byte run"),
        (["--html", "train.py"], "got none; --html took train.py; try every-byte run train.py."),
        (["--gpu"], "argument --gpu: expected one argument"),
        (["-m"], "argument -m: expected one argument"),
    ],
)
def test_no_program(words, said, capsys):
    assert said in refused(capsys, "run", *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            [],
            "one of run, advise, compare, read, diff, verify, measure: got none; try every-byte run train.py",
        ),
        (["a.py", "--x", "1"], "got 'a.py'; try every-byte run a.py --x 1, or every-byte --help."),
        (["--gpu", "t4-16gb", "a.py"], "got '--gpu'; try every-byte run --gpu t4-16gb a.py, or every-byte --help."),
        (["rnu", "a.py"], "got 'rnu'; try every-byte run train.py, or every-byte --help."),
        (["a.pickle"], "got 'a.pickle'; try every-byte read a.pickle, or every-byte --help."),
    ],
)
def test_another_word_than_run(words, said, capsys):
    error = refused(capsys, *words)
    assert said in error
    assert error.startswith("usage: every-byte run [options] (SCRIPT | -m MODULE) [arguments]\n")


@pytest.mark.nightly
def test_its_version():
    told = command("--version")
    assert (told.returncode, told.stderr) == (0, "")
    versions = f"every-byte {every_byte.__version__}, torch {torch.__version__}"
    assert told.stdout == f"{versions}; simulated by the rules of PyTorch {SPECS['a100-80gb'].torch_version}\n"


@pytest.mark.nightly
def test_help():
    told = command("--help")
    assert (told.returncode, told.stderr) == (0, "")
    for said in (
        "every-byte run --help",
        "every-byte read snapshot.pickle",
        "every-byte diff snapshot.pickle train.py",
    ):
        assert said in told.stdout
    told = command("run", "--help").stdout
    for option in ("--gpu NAME", "--steps N", "--ranks N", "--rank R", "--settings TEXT", "--quiet", "-m MODULE"):
        assert f"\n  {option} " in told
    for name in REPORTS:
        assert f"\n  --{name} FILE " in told
    assert "..." not in told


@pytest.mark.nightly
def test_the_list_of_gpus():
    listed = command("run", "--gpu", "list").stdout.splitlines()
    assert [line.split()[0] for line in listed][: len(SPECS)] == list(SPECS)


@pytest.mark.long
def test_a_module_is_run_as_python_does(tmp_path):
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "pack" / "__main__.py").write_text("import sys; print(__package__, sys.argv[1:])", encoding="utf-8")
    found = command("run", "--quiet", "-m", "pack", "--x", "1", cwd=tmp_path)
    assert (found.returncode, found.stdout) == (0, "pack ['--x', '1']\n")


@pytest.mark.parametrize(
    ("words", "script", "module", "arguments"),
    [
        (["train.py", "--gpu", "x", "-m", "y"], "train.py", None, ("--gpu", "x", "-m", "y")),
        (["--quiet", "--steps=2", "train.py", "--", "z"], "train.py", None, ("--", "z")),
        (["--gpu", "t4-16gb", "-m", "package.train", "--quiet"], None, "package.train", ("--quiet",)),
        (["-mtrain", "-m", "x"], None, "train", ("-m", "x")),
        (["--", "-odd.py", "-x"], "-odd.py", None, ("-x",)),
    ],
)
def test_where_the_programs_own_words_begin(words, script, module, arguments):
    options = understood(words)
    assert (options.script, options.module, options.arguments) == (script, module, arguments)
    assert options.quiet == (words[0] == "--quiet")


@pytest.mark.parametrize(
    ("options", "arguments", "said"),
    [
        (
            (),
            ("--gpu", "h100-80gb"),
            "every-byte run: --gpu comes after train.py and belongs to it; options of every-byte come before it"
            ": every-byte run --gpu … train.py",
        ),
        ((), ("--html=r", "--html=s", "--json", "t"), "--html and --json come after train.py and belong to it; "),
        ((), ("--gpus", "8", "-m", "--help", "quiet"), ""),
        (("--quiet",), ("--gpu", "h100-80gb"), ""),
    ],
)
def test_an_option_behind_the_program_goes_to_it_and_is_told(run, options, arguments, said):
    found = run("import sys; print(sys.argv[1:])", *options, arguments=arguments)
    assert (found.exit_code, found.out) == (0, f"{list(arguments)}\n")
    told = [line for line in found.err.splitlines() if line.startswith("every-byte run: ")]
    assert len(told) == bool(said)
    assert not told or said in told[0]


def test_an_option_behind_a_module_is_told_too(run):
    found = run("", "-m", "echo", arguments=("--rank", "1"))
    assert found.out == "['train.py', '--rank', '1']\n"
    assert "--rank comes after echo and belongs to it; " in found.err
    assert "every-byte run --rank … -m echo\n" in found.err


GROWING = """
import torch
for n in range(1, 40):
    x = torch.empty(n << 20, dtype=torch.uint8, device="cuda")
    del x
"""
IN_ENVIRONMENT = 'import os; os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"\n'


def reserved(run, script, *options):
    return run(script, *options).figures["peak"]["reserved_bytes"]


@pytest.mark.long
def test_settings_that_a_script_makes_in_its_environment_are_followed_as_on_a_card(run):
    """Before it first allocates; --settings comes first."""
    plain, expandable = reserved(run, GROWING), reserved(run, GROWING, "--settings", "expandable_segments:True")
    assert expandable < plain
    assert reserved(run, IN_ENVIRONMENT + GROWING) == expandable
    too_late = 'import torch; torch.ones(1, device="cuda")\n' + IN_ENVIRONMENT
    assert reserved(run, too_late + GROWING) == reserved(run, 'import torch; torch.ones(1, device="cuda")\n' + GROWING)
    assert reserved(run, IN_ENVIRONMENT + GROWING, "--settings", "expandable_segments:False") == plain


@pytest.mark.nightly
def test_settings_of_the_shell_are_followed(monkeypatch, tmp_path):
    found = []
    (tmp_path / "grow.py").write_text(GROWING, encoding="utf-8")
    for text in ("", "expandable_segments:True"):
        monkeypatch.setenv("PYTORCH_ALLOC_CONF", text)
        assert command("run", "--quiet", "--json", "found.json", "grow.py", cwd=tmp_path).returncode == 0
        found.append(json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["peak"]["reserved_bytes"])
    assert found[1] < found[0]


def test_workspaces_in_the_environment_too(run):
    multiplies = "import torch; x = torch.ones(8, 8, device='cuda'); x @ x"
    said = "import os; os.environ['CUBLAS_WORKSPACE_CONFIG'] = ':16:8'\n"
    assert reserved(run, said + multiplies) < reserved(run, multiplies)


def test_settings_in_the_environment_that_pytorch_refuses_are_refused_where_it_first_allocates(run):
    found = run("import os; os.environ['PYTORCH_ALLOC_CONF'] = 'max_split_size_mb:x'\n" + GROWING)
    assert found.exit_code == 1
    assert "max_split_size_mb" in found.err
