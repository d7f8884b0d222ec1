"""Runs the programs of book/examples and stores what they print: `python -m tools.example_runs`.

Writes book/examples/*.txt, what each example or report prints, and book/images/report.*.png, the page of one report. A
picture says which text it belongs to, and stays while that does: delete it to have it taken anew. The seconds that a
run took are left out: they are others each time.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from every_byte.report.render.verdict import STARTS
from tools.chromium import browser
from tools.whole_files import write_whole

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES, IMAGES = ROOT / "book" / "examples", ROOT / "book" / "images"
PROGRAM = EXAMPLES / "train.py"
PAGE = "report.html"
RUNS = {
    "train.a100": f"every-byte run --html {PAGE} train.py",
    "train.t4": "every-byte run --gpu t4-16gb train.py",
    "train.t4.float16": "every-byte run --gpu t4-16gb train.py --float16",
}
"""The commands of the page "Your own program", by the name of the file that has what they print."""
PICTURED = "train.a100"
THEMES = ("light", "dark")
SIZE = {"width": 960, "height": 1143}
NEEDS_A_GPU = ("live_gpu",)
_SECONDS = re.compile(r";\s+[\d,]+\.\d s\.$", re.MULTILINE)
_SHOWS = "shows"


def report_of(name: str, folder: Path) -> str:
    """What the report of a run says; the run is made in a folder there, on a copy of the program.

    Raises: RuntimeError where no report was printed.
    """
    folder = folder / EXAMPLES.name  # by which a report calls the program's lines
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    words = shlex.split(RUNS[name])
    command = [sys.executable, "-W", "ignore", "-m", "every_byte", *words[1:]]
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    if found := report_in(run.stderr):
        return found
    raise RuntimeError(f"{RUNS[name]} must print a report: got exit code {run.returncode}, {run.stderr[-500:]}")


def report_in(said: str) -> str:
    """The report in what a run says on its standard error, without the seconds that it took; "" if there is none."""
    found = STARTS.search(said)
    return _SECONDS.sub(".", said[found.start() :]) if found else ""


def examples() -> list[str]:
    """The names of those that print something everywhere."""
    names = (path.stem for path in sorted(EXAMPLES.glob("*.py")))
    return [name for name in names if name not in (PROGRAM.stem, *NEEDS_A_GPU)]


def printed_by(name: str) -> str:
    """What an example prints; what it writes goes with the folder that it is run in."""
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(out):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return out.getvalue()


def digest_of(text: str) -> str:
    """What a picture keeps of the report that it shows."""
    return hashlib.sha256(text.encode()).hexdigest()


def shown_on(picture: Path) -> str:
    """The digest of the report that a picture shows."""
    from PIL import Image

    with Image.open(picture) as image:
        return image.info[_SHOWS]


def _is_of(text: str):
    """Whether the picture of a theme is there and shows this report."""

    def is_there(theme: str) -> bool:
        picture = IMAGES / f"report.{theme}.png"
        return picture.is_file() and shown_on(picture) == digest_of(text)

    return is_there


def _photograph(page: Path, text: str) -> None:
    from PIL import Image, PngImagePlugin

    about = PngImagePlugin.PngInfo()
    about.add_text(_SHOWS, digest_of(text))
    with browser() as chromium:
        for theme in THEMES:
            tab = chromium.new_page(viewport=SIZE, color_scheme=theme, reduced_motion="reduce")
            tab.goto(page.as_uri())
            tab.wait_for_selector("#timeline-here svg, #timeline-here canvas")
            picture = Image.open(io.BytesIO(tab.screenshot()))
            picture.convert("P", palette=Image.Palette.ADAPTIVE).save(
                IMAGES / f"report.{theme}.png", pnginfo=about, optimize=True
            )


def page_of_the_report(place: Path) -> None:
    """Write the page that the first command writes, unless it is there and nothing that makes it has changed."""
    from tools.site_explorers import fingerprint

    stamp = place.with_suffix(".made_by")
    now = json.dumps([fingerprint(), digest_of(PROGRAM.read_text(encoding="utf-8"))])
    if place.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == now:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        report_of(PICTURED, Path(folder))
        shutil.copy(Path(folder, EXAMPLES.name, PAGE), place)
    write_whole(stamp, now)


def main() -> None:
    """Write all of it."""
    for name in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            text = report_of(name, Path(folder))
            if name == PICTURED and not all(map(_is_of(text), THEMES)):
                _photograph(Path(folder, EXAMPLES.name, PAGE), text)
        write_whole(EXAMPLES / f"{name}.txt", text)
    for name in examples():
        write_whole(EXAMPLES / f"{name}.txt", printed_by(name))
    print(f"{len(RUNS) + len(examples())} texts in {EXAMPLES.relative_to(ROOT)}, {len(THEMES)} pictures")


if __name__ == "__main__":
    main()
