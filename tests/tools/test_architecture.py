"""The page about the code's architecture: its drawing is that of the folders, its call passes where the page says."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from tools.architecture import DRAWING, PATH, drawing

TEXT = (ROOT / "book" / "architecture.md").read_text(encoding="utf-8")
HOPS = [tuple(hop) for hop in re.findall(r"^\| \d+ \| `([\w/.]+)` \| `([\w.]+)` \|", TEXT, re.MULTILINE)]
FOLLOWED = """
import json
import sys
from utils.explorers.gpt import gpt_explorer

explorer, found = gpt_explorer(), []
wanted = {tuple(hop) for hop in json.loads(sys.argv[1])}

def note(frame, event, argument):
    code = frame.f_code
    if (code.co_filename, code.co_qualname) in wanted:
        found.append((code.co_filename, code.co_qualname))

sys.settrace(note)
explorer.answer_at({**explorer.value, "b": 1, "s": 64})
sys.settrace(None)
print(json.dumps(found))
"""


def test_the_drawing_is_up_to_date():
    assert DRAWING.read_text(encoding="utf-8") == drawing(), "run python -m tools.architecture"


def test_every_folder_is_drawn():
    drawn = {folder for folders in PATH.values() for folder in folders}
    inits = [path for top in ("every_byte", "utils") for path in (ROOT / top).rglob("__init__.py")]
    assert {path.parent.relative_to(ROOT).as_posix() for path in inits} - {"every_byte", "utils"} == drawn


def test_every_place_is_there():
    named = set(re.findall(r"`((?:every_byte|utils)/[\w/.]+)`", TEXT))
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert "function createBars" in (ROOT / "every_byte/widget/page/bars.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def calls():
    wanted = json.dumps([(str(ROOT / path), function) for path, function in HOPS])
    run = subprocess.run([sys.executable, "-c", FOLLOWED, wanted], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return [(Path(path).relative_to(ROOT).as_posix(), function) for path, function in json.loads(run.stdout)]


@pytest.mark.nightly
def test_the_call_passes_where_the_page_says(calls):
    assert len(HOPS) == 22
    rest = iter(calls)
    for hop in HOPS:
        assert hop in rest, f"{hop} is not called after what the page names before it"
