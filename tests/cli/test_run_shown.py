"""`every-byte run` on a terminal: it says what it is at beside a silent program; Ctrl-C leaves nothing half-written."""

import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import sys, time, torch
x = torch.zeros(2**28, device="cuda")
model = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)  # imports for seconds: Python drops a Ctrl-C in import's callbacks
print("made", flush=True)
for step in range(2):
    time.sleep(float(sys.argv[1]))
    model(torch.zeros(2, 8, device="cuda")).sum().backward()
    optimizer.step()
print("trained", flush=True)
"""
NEVER_ENDING = """
import signal, sys, time
from every_byte import whole_files
from every_byte.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background ignores
moment = sys.argv.pop(1)
write = whole_files._write
def slowly(place, data):
    write(place, data[: len(data) // 2])
    print("writing", flush=True)
    time.sleep(60)
if moment != "program":
    whole_files._write = slowly
if moment == "report":
    from every_byte.report.report import Report
    def __repr__(self):
        print("reporting", flush=True)
        time.sleep(60)
    Report.__repr__ = __repr__
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "figures.json").write_text("old")
    return tmp_path


def on_a_terminal(*command: str, folder) -> tuple[str, int]:
    """(all that a program writes on a terminal of 120 columns, its exit code)."""
    process, terminal = pty.fork()
    if not process:
        os.chdir(folder)
        os.execvpe(command[0], command, os.environ | {"COLUMNS": "120"})
    written = b""
    while True:
        try:
            more = os.read(terminal, 65536)
        except OSError:  # Linux, where the other end is closed
            break
        if not more:
            break
        written += more
    os.close(terminal)
    return written.decode(), os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_on_a_terminal_it_says_what_it_is_at_and_leaves_nothing_of_it(folder):
    command = (sys.executable, "-m", "every_byte", "run", "--json", "figures.json", "train.py", "1.8")
    written, exit_code = on_a_terminal(*command, folder=folder)
    said = [part.strip() for part in written.split("\r") if part.startswith("every-byte: ")]
    assert any(line.startswith("every-byte: step 2 of 3, ") or "after step 1" in line for line in said), said
    assert any("1.0 GiB allocated, " in line for line in said)
    assert "every-byte: whose each byte is" in said
    lines = [line.rpartition("\r")[2] for line in written.replace("\r\n", "\n").split("\n")]
    assert lines[:2] == ["made", "trained"]
    assert lines[2] == "" or lines[2].startswith("Fits on a100-80gb: needs ")
    assert not [line for line in lines if "every-byte: " in line]
    assert exit_code == 0


@pytest.mark.nightly
def test_where_nobody_looks_it_says_nothing(folder):
    command = [sys.executable, "-m", "every_byte", "run", "--quiet", "train.py", "1.2"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("made\ntrained\n", "", 0)


def interrupted(folder, moment: str, until: str, wait: str = "0") -> tuple[str, int]:
    """(standard error, exit code) of the command that gets SIGINT once it has printed a line."""
    words = ["run", "--json", "figures.json", "--html", "report.html", "train.py", wait]
    command = [sys.executable, "-c", NEVER_ENDING, moment, *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=folder, **pipes) as process:
        while process.stdout.readline() != f"{until}\n":
            assert process.poll() is None
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=300)[1]
    return said, process.returncode


@pytest.mark.long
@pytest.mark.parametrize(
    ("moment", "until"), [pytest.param("report", "reporting", marks=pytest.mark.nightly), ("files", "writing")]
)
def test_ctrl_c_in_its_own_work_ends_it_in_a_line_and_leaves_the_files(folder, moment, until):
    said, exit_code = interrupted(folder, moment, until)
    assert said.splitlines()[-1] == "every-byte run: interrupted; no file is half-written."
    assert "Traceback" not in said
    assert exit_code == 130
    assert sorted(path.name for path in folder.iterdir()) == ["figures.json", "train.py"]
    assert (folder / "figures.json").read_text() == "old"


@pytest.mark.long
def test_ctrl_c_in_the_program_ends_the_program_and_the_report_follows(folder):
    command = [sys.executable, "-c", NEVER_ENDING, "program", "run", "--json", "figures.json", "train.py", "60"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "made\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=300)[1]
    assert process.returncode == 130
    assert "\n$ every-byte run" in said
    assert json.loads((folder / "figures.json").read_text())["ended"] == "interrupted"
