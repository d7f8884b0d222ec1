"""Recordings that Ctrl-C interrupts: what was recorded stays, nothing is half-written; `--missing` records the rest."""

import os
import signal
import subprocess
import sys

import pytest
from places import ROOT

# In the place of run.sh: one card's recording is there at once, another's never.
STAND_IN = """#!/bin/bash
while IFS=$'\\t' read -r path name out; do
  if [ $STUB_CUDA_GPU = h100 ]; then sleep 60; fi
  echo {} > $out/$name.$STUB_CUDA_GPU.json.gz
  echo done
  printf '\\0done0\\n'
done
"""
CASES = "def small(env): pass\nsmall.cards = ('a100', 'h100')\nCASES = {'small': small}\n"
PROGRAM = """
import signal, sys
from pathlib import Path
from tools.cuda_build import record
from tools.whole_files import plainly
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background ignores
record.HERE = Path(sys.argv.pop(1))
sys.exit(plainly(record.main))
"""


@pytest.mark.long
@pytest.mark.parametrize("interrupt", [os.killpg, os.kill], ids=["the group, as a keyboard does", "it alone"])
def test_ctrl_c_leaves_what_was_recorded(interrupt, tmp_path):
    (tmp_path / "run.sh").write_text(STAND_IN)
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "mine.py").write_text(CASES)
    (out := tmp_path / "out").mkdir()
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), "--cases", str(tmp_path / "mine.py"), "--out", str(out)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True, **pipes) as process:
        assert process.stdout.readline().startswith("small.a100")
        interrupt(process.pid, signal.SIGINT)
        said, errors = process.communicate(timeout=300)
    assert (said, errors, process.returncode) == ("", "\nInterrupted: no file is half-written.\n", 130)
    assert [path.name for path in out.iterdir()] == ["small.a100.json.gz"]
