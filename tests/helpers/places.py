"""Where things lie in the repository."""

from pathlib import Path

from utils.recordings import RECORDINGS

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = ROOT / "chapters"
TESTS = ROOT / "tests"
HELPERS = TESTS / "helpers"
REFERENCE = TESTS / "reference"
RECORDED = RECORDINGS
