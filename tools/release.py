"""Makes a release of the instrument and the book: writes its version, and builds and checks what is handed out.

python -m tools.release 0.2.0      the version and its date, in every_byte/version.py, CHANGELOG.md and CITATION.cff
python -m tools.release --build    build/dist: the sdist and the wheel of what is committed, checked and tried

`--build` tries the wheel in a new environment, into which pip installs torch: from TORCH_INDEX, as make does, if set.
Nothing is committed, tagged or uploaded; the last line says how.
"""

import argparse
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from datetime import date
from email import message_from_bytes
from pathlib import Path

from packaging.version import InvalidVersion, Version

from tools.example_runs import EXAMPLES, PICTURED, PROGRAM, RUNS, report_in
from tools.whole_files import write_whole

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "build" / "dist"
UNRELEASED = "## [Unreleased]"
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def main(argv: list[str] | None = None) -> int:
    """The command line: see the head of this file. Returns 1, and says why, where a release is not possible."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="?", help="such as 0.2.0: later than the one that is there")
    parser.add_argument("--build", action="store_true", help="build the sdist and the wheel, check them, try the wheel")
    arguments = parser.parse_args(argv)
    if bool(arguments.version) == arguments.build:
        parser.error("either a version or --build must be given")
    try:
        if arguments.version:
            prepare(arguments.version, ROOT, date.today())
            say("Read `git diff`, commit, and go on with: python -m tools.release --build")
        else:
            version = build()
            say(f'To hand it out: git tag -a v{version} -m "Every Byte {version}", git push --tags, upload build/dist.')
    except ValueError as error:
        print(f"tools.release: {error}", file=sys.stderr)
        return 1
    return 0


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)


# -------------------------------------------------------------------------------------------------------------- prepare


def prepare(version: str, root: Path, today: date) -> None:
    """Write a version and its date where they stand. Nothing is written unless everything can be.

    Raises: ValueError for a version that is none, or not later, and where the changelog names no change.
    """
    files = [
        _replaced(root / "every_byte" / "version.py", lambda text: _versioned(text, version)),
        _replaced(root / "CHANGELOG.md", lambda text: _dated(text, version, today)),
        _replaced(root / "CITATION.cff", lambda text: _cited(text, version, today)),
    ]
    for path, text in files:
        write_whole(path, text)
        say(f"{path.relative_to(root)}: {version}")


def _replaced(path: Path, change: Callable[[str], str]) -> tuple[Path, str]:
    return path, change(path.read_text(encoding="utf-8"))


def _versioned(text: str, version: str) -> str:
    before = stated(text)
    try:
        is_later = Version(version) > Version(before) and str(Version(version)) == version
    except InvalidVersion:
        is_later = False
    if not is_later:
        raise ValueError(f"VERSION must be a version later than {before}, written as 0.2.0: got {version!r}.")
    return text.replace(f'"{before}"', f'"{version}"')


def stated(text: str) -> str:
    """The version in the text of every_byte/version.py."""
    return re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)[1]


def _dated(text: str, version: str, today: date) -> str:
    head, found, below = text.partition(f"{UNRELEASED}\n")
    changes = below.partition("\n## ")[0]
    if not found or "\n- " not in changes:
        raise ValueError(f"CHANGELOG.md must name changes below {UNRELEASED}: there are none, so there is no release.")
    return f"{head}{UNRELEASED}\n\n## [{version}] - {today.isoformat()}\n{below}"


def _cited(text: str, version: str, today: date) -> str:
    text = re.sub(r"^date-released: .*\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^version: .*$", f"version: {version}\ndate-released: {today}", text, flags=re.MULTILINE)


# ---------------------------------------------------------------------------------------------------------------- build


def build() -> str:
    """Build both files from what is committed, check them, try the wheel, and return the version.

    Raises: ValueError where the tree is not clean, or a check fails.
    """
    if changed := _run(["git", "status", "--porcelain"], ROOT):
        raise ValueError(f"everything must be committed, since that is what is built: {changed.splitlines()[0]!r}.")
    with tempfile.TemporaryDirectory() as apart:
        folder = Path(apart)
        clean = folder / "clean"
        with tarfile.open(fileobj=io.BytesIO(_finished(["git", "archive", "HEAD"], ROOT).stdout)) as archive:
            archive.extractall(clean, filter="data")
        say("1 of 4: the sdist, and a wheel from it")
        sdist = _built("build_sdist", clean, folder)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder / "from_sdist", filter="data")
        [unpacked] = (folder / "from_sdist").iterdir()
        wheel = _built("build_wheel", unpacked, folder)
        say("2 of 4: what they hold")
        version = check(sdist, wheel, clean)
        say("3 of 4: the wheel in a new environment, with torch: some minutes")
        python = _environment(folder / "venv", wheel)
        say("4 of 4: the example of the README, beside its stored report")
        try_out(python, folder)
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir(parents=True)
        for file in (sdist, wheel):
            shutil.copy(file, DIST)
            say(f"build/dist/{file.name}: {file.stat().st_size:,d} bytes")
    return version


def _built(kind: str, source: Path, folder: Path) -> Path:
    out = folder / kind
    out.mkdir()
    return out / _run([sys.executable, "-c", BUILD, kind, str(out)], source).splitlines()[-1]


def check(sdist: Path, wheel: Path, source: Path) -> str:
    """The version on which all files of a release agree; `source` is the tree that they were built from.

    Raises: ValueError where they do not, where the wheel lacks a file of the instrument or holds something else, and
        where metadata lack the README or a licence.
    """
    version = stated((source / "every_byte" / "version.py").read_text(encoding="utf-8"))
    names = (wheel.name, sdist.name, (source / "CITATION.cff").read_text(encoding="utf-8"))
    for wanted, name in zip((f"-{version}-", f"-{version}.tar.gz", f"version: {version}\n"), names, strict=True):
        if wanted not in name:
            raise ValueError(f"the version must be {version} everywhere: {wanted.strip()!r} is not in {name[:60]!r}.")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        information = {name for name in held if name.partition("/")[0].endswith(".dist-info")}
        [about] = (name for name in information if name.endswith("/METADATA"))
        metadata = message_from_bytes(archive.read(about))
    files = (path for path in (source / "every_byte").rglob("*") if path.is_file())
    inside = {path.relative_to(source).as_posix() for path in files}
    if held - information != inside:
        raise ValueError(f"the wheel must hold every_byte alone, and all of it: {sorted(held - information ^ inside)}.")
    with tarfile.open(sdist) as archive:
        lacking = inside - {name.partition("/")[2] for name in archive.getnames()}
    if lacking:
        raise ValueError(f"the sdist must hold all of every_byte: it lacks {sorted(lacking)}.")
    if "# Every Byte" not in metadata.get_payload() or not any(name.endswith("/LICENSE") for name in information):
        raise ValueError("the wheel must bring the README as its description, and the licence.")
    return version


def _environment(folder: Path, wheel: Path) -> Path:
    """A new environment with the wheel and what it needs; its Python."""
    _run([sys.executable, "-m", "venv", str(folder)], ROOT)
    python = folder / "bin" / "python"
    constraints = ["-c", str(ROOT / "constraints.txt")]
    if index := os.environ.get("TORCH_INDEX"):
        _run([str(python), "-m", "pip", "install", "--no-deps", "--index-url", index, *constraints, "torch"], ROOT)
    _run([str(python), "-m", "pip", "install", *constraints, str(wheel)], ROOT)
    return python


def try_out(python: Path, folder: Path) -> None:
    """Account for the README's program by the installed command, in a folder where nothing else is.

    Raises: ValueError if it prints something else than its stored report.
    """
    shutil.copy(PROGRAM, folder)
    command = [str(python.with_name("every-byte")), *shlex.split(RUNS[PICTURED])[1:]]
    found = report_in(_finished(command, folder).stderr.decode())
    stored = (EXAMPLES / f"{PICTURED}.txt").read_text(encoding="utf-8")
    if found != stored:
        raise ValueError(f"the installed command must print what {PICTURED}.txt holds; it printed:\n{found}")


def _run(command: list[str], folder: Path) -> str:
    return _finished(command, folder).stdout.decode()


def _finished(command: list[str], folder: Path) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(command, cwd=folder, env=kept, capture_output=True)
    if run.returncode:
        said = run.stderr.decode(errors="replace").strip().splitlines()[-3:]
        raise ValueError(f"`{' '.join(command[:4])} …` must succeed; it says: {' / '.join(said)}")
    return run


if __name__ == "__main__":
    sys.exit(main())
