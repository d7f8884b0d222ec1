"""The articles' own scripts print by `every-byte run` what they print under the CUDA build, if the files are here."""

import hashlib
import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from places import REFERENCE

from utils.experiments import as_printed

VARIABLE = "ARTICLE_SCRIPTS"
FOLDER = os.environ.get(VARIABLE, "")
NEEDS_THE_FILES = pytest.mark.skipif(
    not FOLDER, reason=f"{VARIABLE} is not set to a folder with the files of {as_printed.REPOSITORY}, and einops"
)
RECORDING = json.loads(as_printed.RECORDED.read_text(encoding="utf-8"))
RECORDER = runpy.run_path(str(REFERENCE / "record_as_printed.py"))
PUBLISHED = {
    "mlp_script.py": ["83886080", "150994944", "0.5555555555555556"],
    "block_script.py": ["201523216", "268632080", "0.7501829863358092"],
}


@NEEDS_THE_FILES
@pytest.mark.parametrize("script", as_printed.SCRIPTS)
def test_every_byte_run_prints_what_was_recorded(script):
    for name, digest in RECORDING["sha256"].items():
        assert hashlib.sha256((Path(FOLDER) / name).read_bytes()).hexdigest() == digest, f"{name} of another commit"
    command = [sys.executable, "-m", "every_byte", "run", "--quiet", "--steps", "0", *RECORDER["command"](script)]
    run = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=True)
    assert RECORDER["shown"](script, run.stdout) == as_printed.recorded(script)


@pytest.mark.parametrize("script", PUBLISHED)
def test_the_recording_has_the_articles_figures(script):
    assert [line.split(": ")[1] for line in as_printed.recorded(script).splitlines()] == PUBLISHED[script]


def test_the_recorded_phases_are_the_articles():
    assert as_printed.phases() == {
        "forward": (46_616_576, 5_171_200),
        "backward": (49_580_544, 2_963_968),
        "step": (49_580_544, 0),
        "zero_grad": (41_445_376, -8_135_168),
    }


def test_what_is_compared_of_a_script():
    shown = RECORDER["shown"]
    assert shown("mlp_script.py", "ReLU bytes: 1\n") == "ReLU bytes: 1"
    assert shown(as_printed.TESTS, "....\n==== 2 failed, 1150 passed in 3.10s ====\n") == "2 failed, 1150 passed"
    assert (
        shown(as_printed.FOOTPRINT, "layers: 202\nIteration 2\n2: after {x}: 1,000.0 change: -2.0\n")
        == "2\n1,000.0 -2.0"
    )


def test_a_script_that_nobody_recorded():
    with pytest.raises(ValueError, match=r"script must be one of mlp_script\.py, .*: got 'train\.py'"):
        as_printed.recorded("train.py")
