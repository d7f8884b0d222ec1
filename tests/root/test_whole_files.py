"""A file is written as a whole or not at all, whenever the writing ends."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from every_byte import whole_files
from every_byte.whole_files import write_whole

ENDLESS = """
import signal, sys, time
from every_byte import whole_files
signal.signal(signal.SIGINT, signal.default_int_handler)
write, moment = whole_files._write, sys.argv[2]
def slowly(place, data):
    write(place, data[: len(data) // 2 if moment == "within" else len(data)])
    print("written", flush=True)
    time.sleep(60)
whole_files._write = slowly
whole_files.write_whole(sys.argv[1], "new" * 1000)
"""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("content", ["größer\n", b"\x00\xff"])
def test_it_writes_what_it_is_given(tmp_path, content):
    write_whole(tmp_path / "a", content)
    assert (tmp_path / "a").read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(tmp_path) == ["a"]


def test_the_mode_stays_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o640)
    (tmp_path / "link").symlink_to("a")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_mode_that_any_other_has(tmp_path):
    write_whole(tmp_path / "a", "")
    (tmp_path / "b").write_text("")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_whole(tmp_path / "pipe", "through")
    reader.join(300)
    assert found == ["through"]


def test_where_no_other_file_can_be_made_it_is_written_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old")
    write = whole_files._write

    def refusing(place, data):
        if place.endswith(".partial"):
            raise PermissionError(13, "Permission denied")
        write(place, data)

    monkeypatch.setattr(whole_files, "_write", refusing)
    write_whole(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "new"
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "b", "new")


@pytest.mark.parametrize("raised", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_fails_leaves_what_was_there(tmp_path, monkeypatch, raised):
    (tmp_path / "a").write_text("old")
    write = whole_files._write

    def failing(place, data):
        write(place, data[:1])
        raise raised

    monkeypatch.setattr(whole_files, "_write", failing)
    with pytest.raises(type(raised)):
        write_whole(tmp_path / "a", "new")
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"


@pytest.mark.long
@pytest.mark.parametrize("moment", ["within", "before it takes the place"])
def test_ctrl_c_leaves_what_was_there(tmp_path, moment):
    (tmp_path / "a").write_text("old")
    command = [sys.executable, "-c", ENDLESS, str(tmp_path / "a"), moment]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout.readline() == "written\n"
        assert len(names(tmp_path)) == 2
        process.send_signal(signal.SIGINT)
    assert process.returncode == -signal.SIGINT
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"
