"""`make site` says which of how many parts it is at; until the new site is whole the last one stands, at Ctrl-C too."""

import re
import signal
import subprocess
import sys

import pytest
from places import ROOT

from tools import site

# The site's own `main`, whose parts do nothing, or wait at one of them.
PROGRAM = """
import multiprocessing, signal, sys, time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tools import site, site_explorers
from tools.whole_files import plainly

def accounts(most=None):
    if wait_at != "accounts":
        return []
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), *site_explorers.QUIETLY) as pool:
        waiting = [pool.submit(time.sleep, 60) for _ in range(4)]
        while sum(one.running() for one in waiting) < 2:
            time.sleep(0.1)
        time.sleep(2)  # until they have begun
        print("at work", flush=True)
        return [one.result() for one in waiting]

def pages(*options):
    site.NEW.mkdir(exist_ok=True)
    (site.NEW / "index.html").write_text("new")
    wait("pages")

def wait(part):
    if wait_at == part:
        print("at work", flush=True)
    if wait_at == part or part == "pages" and wait_at == "accounts":
        time.sleep(60)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process in the background ignores
    folder, wait_at = Path(sys.argv[1]), sys.argv[2]
    sys.argv[1:] = ["--no-pdfs"]
    site.ROOT = site.BUILD = folder
    site.HTML, site.NEW, site.KEPT = folder / "html", folder / "new", folder / "kept"
    site.install_parts = site.copy_parts = site.page_of_the_report = site.refresh = site.stage = lambda *_: None
    site.folder_name = lambda: "explorers"
    site.build_pages, site.store_all, site.copy_explorers = pages, accounts, lambda *_: wait("copies")
    sys.exit(plainly(site.main, "build/site/html is as it was"))
"""


@pytest.fixture
def started(tmp_path):
    """Starts it in a folder that has a site; returns the process."""
    (tmp_path / "html").mkdir()
    (tmp_path / "html" / "index.html").write_text("last")
    (tmp_path / "program.py").write_text(PROGRAM)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    def start(wait_at: str) -> subprocess.Popen:
        command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path), wait_at]
        return subprocess.Popen(command, cwd=ROOT, **pipes)

    return start


@pytest.mark.nightly
def test_a_whole_site_takes_the_place_of_the_last_one(started, tmp_path):
    said, errors = started("").communicate(timeout=300)
    assert errors == ""
    assert (tmp_path / "html" / "index.html").read_text() == "new"
    assert not {"new", "old"} & {path.name for path in tmp_path.iterdir()}
    assert re.findall(r"^(\d) of 7  ", said, re.MULTILINE) == list("1234567")
    assert len(re.findall(r": \d+\.\d s$", said, re.MULTILINE)) == 7


@pytest.mark.long
@pytest.mark.parametrize(
    "wait_at", ["pages", *(pytest.param(at, marks=pytest.mark.nightly) for at in ("accounts", "copies"))]
)
def test_ctrl_c_leaves_the_last_site_and_no_process(started, tmp_path, wait_at):
    """It reaches this process alone: at a keyboard the others get it, too."""
    with started(wait_at) as process:
        while process.stdout.readline() != "at work\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=300)  # the pipes are those of the others, too
    assert process.returncode == 130
    assert errors == "\nInterrupted: build/site/html is as it was.\n"
    assert (tmp_path / "html" / "index.html").read_text() == "last"


@pytest.fixture
def interruptible():
    """SIGINT interrupts, also where the tests run in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_exchange_itself_is_not_interrupted(tmp_path, monkeypatch, interruptible):
    for name in ("html", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text(name)
    rename, renamed = type(tmp_path).rename, []

    def interrupted(self, target):
        signal.raise_signal(signal.SIGINT)
        renamed.append(self.name)
        return rename(self, target)

    monkeypatch.setattr(type(tmp_path), "rename", interrupted)
    monkeypatch.setattr(site, "BUILD", tmp_path)
    monkeypatch.setattr(site, "HTML", tmp_path / "html")
    monkeypatch.setattr(site, "NEW", tmp_path / "new")
    with pytest.raises(KeyboardInterrupt):
        site.put_in_place()
    assert renamed == ["html", "new"]
    assert (tmp_path / "html" / "index.html").read_text() == "new"
