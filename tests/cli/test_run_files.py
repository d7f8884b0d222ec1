"""`every-byte run` writes each file that can be written, before the text; who reads the text may be gone."""

import json
import os
import subprocess
import sys

import pytest
from places import ROOT

PROGRAM = """
import sys, torch
x = torch.zeros(1 << 20, device="cuda")
print("said")
sys.exit(3)
"""
FILES = {"html": "<!doctype html>", "json": "{", "trace": "{", "viz": b"\x80"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def started(folder, *words: str, **more):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} | more.pop("env", {})
    return subprocess.Popen([sys.executable, "-m", "every_byte", *words], cwd=folder, env=environment, **more)


def ran(folder, *words: str, **more) -> tuple[int, str, str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    with started(folder, *words, text=True, **pipes) as process:
        out, err = process.communicate()
    return process.returncode, out, err


def written(folder) -> set[str]:
    return {name for name in FILES if (folder / name).exists() and (folder / name).stat().st_size > 100}


@pytest.mark.long
@pytest.mark.parametrize("full", FILES)
def test_a_full_disk_keeps_no_other_file_from_being_written(folder, full):
    files = {name: "/dev/full" if name == full else name for name in FILES}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    code, out, err = ran(folder, "run", *options, "train.py")
    assert (code, out) == (3, "said\n")
    assert written(folder) == FILES.keys() - {full}
    assert err.endswith("\nevery-byte: /dev/full was not written: No space left on device.\n")
    assert "Traceback" not in err
    assert "\n$ every-byte run" in err


@pytest.mark.long
def test_a_folder_that_goes_meanwhile_is_told_though_quiet(folder):
    (folder / "out").mkdir()
    (folder / "train.py").write_text(f"import os; os.rmdir('out')\n{PROGRAM}")
    code, _, err = ran(folder, "run", "--quiet", "--json", "out/j", "--html", "html", "train.py")
    assert code == 3
    assert err == f"every-byte: {folder}/out/j was not written: No such file or directory.\n"
    assert written(folder) == {"html"}


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount")
def test_a_disk_with_room_for_one(folder, monkeypatch):
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        return  # a container that may not; /dev/full above is what any machine has
    try:
        code, _, err = ran(folder, "run", "--html", "disk/html", "--json", "disk/json", "train.py")
        assert code == 3
        assert json.loads((disk / "json").read_text())["exit_code"] == 3
        assert f"every-byte: {disk}/html was not written: No space left on device.\n" in err
        assert [path.name for path in disk.iterdir()] == ["json"]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.long
def test_files_are_there_though_no_one_reads_the_report(folder):
    options = [word for name in FILES for word in (f"--{name}", name)]
    with started(folder, "run", *options, "train.py", stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout.readline() == b"said\n"
        process.stdout.close()
    assert process.returncode == 3
    assert written(folder) == FILES.keys()


@pytest.mark.long
@pytest.mark.parametrize("streams", ["2>&-", ">&- 2>&-", "2>/dev/full"])
def test_files_are_there_where_nothing_can_be_printed(folder, streams):
    command = f'"{sys.executable}" -m every_byte run --json json train.py {streams}'
    ran = subprocess.run(["sh", "-c", command], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert ran.returncode == 3
    assert json.loads((folder / "json").read_text())["peak"]["allocated_bytes"] == 1 << 22


@pytest.mark.long
def test_a_terminal_of_ascii_gets_ascii(folder):
    code, _, err = ran(folder, "run", "train.py", env={"PYTHONIOENCODING": "ascii"})
    assert code == 3
    assert err.isascii()
    assert "1 x 4 MiB" in err
    assert "\\" not in err


@pytest.mark.long
@pytest.mark.parametrize("frames", ["", "1"], ids=["in a line", "with its frames"])
def test_a_report_that_fails_leaves_the_files_of_the_trace(folder, frames):
    """As one of ours would that is wrong: the program's exit code stays, and so does what does not depend on it."""
    (folder / "train.py").write_text(
        f"from every_byte.report.report import Report\nReport.of = classmethod(lambda *a, **k: 1 / 0)\n{PROGRAM}"
    )
    words = "--json", "json", "--trace", "trace", "--viz", "viz", "train.py"
    code, out, err = ran(folder, "run", *words, env={"EVERY_BYTE_FRAMES": frames})
    assert (code, out, written(folder)) == (3, "said\n", {"trace", "viz"})
    why = "ZeroDivisionError: division by zero; EVERY_BYTE_FRAMES=1 shows where"
    *traceback, said = err.splitlines(keepends=True)
    assert said == f"every-byte: the report was not written: {why}.\n"
    assert "".join(traceback).startswith("Traceback" * bool(frames))
    assert bool(traceback) == bool(frames)


@pytest.mark.long
def test_what_the_command_itself_prints_may_be_cut_off_or_have_no_room(folder):
    with started(folder, "run", "--gpu", "list", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
    with open("/dev/full", "w") as full:
        code, _, err = ran(folder, "run", "--gpu", "list", stdout=full)
    assert code == 2
    assert "Traceback" not in err
    assert "standard output must be somewhere that can be written to: got No space left on device" in err
