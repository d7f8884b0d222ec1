"""Long work says on a terminal what it is at, in one line that goes; elsewhere it says nothing."""

import io
import os
import threading
import time
from types import SimpleNamespace

import pytest
from torch import nn

from every_byte import progress
from every_byte.account import account, numbers
from every_byte.progress import Beside, Counted, at_work, tell


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    found = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found))  # pytest changes the real one
    monkeypatch.setattr(progress, "_EVERY_S", 0)
    return found


def test_one_line_is_written_over_and_goes(terminal):
    with at_work():
        tell("a longer line")
        with at_work():
            tell("short")
    assert terminal.getvalue() == f"\ra longer line\r{'short':13}\r{'':5}\r"


def test_it_goes_where_the_work_is_interrupted(terminal):
    def work():
        with at_work():
            tell("first")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert terminal.getvalue().endswith(f"\r{'':5}\r")
    tell("outside of any work")
    assert "outside" not in terminal.getvalue()


def test_not_more_often_than_can_be_read(terminal, monkeypatch):
    monkeypatch.setattr(progress, "_EVERY_S", 1000)
    with at_work():
        for i in range(10):
            tell(f"{i}")
    assert terminal.getvalue().count("\r") <= 3


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_nothing_where_nobody_looks(monkeypatch, stream):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    with at_work():
        tell("words")
    assert stream is None or stream.getvalue() == ""


@pytest.mark.nightly
def test_what_a_search_runs_is_told(terminal):
    net = nn.Sequential(nn.Linear(8, 8), nn.GELU())
    found = account(net, numbers("b", 8), loss=lambda out, _: out.square().mean(), b=4)
    assert terminal.getvalue() == ""
    found.largest("b", budget="40MiB")
    assert "\rrunning the plain step, b=4" in terminal.getvalue()
    found.formula(n_checks=1)
    assert "\rrun 1: b=" in terminal.getvalue()
    assert terminal.getvalue().endswith(" \r")


class Screen(Terminal):
    """What a terminal shows of what is written: lines, in the last of which the cursor is."""

    def __init__(self):
        super().__init__()
        self.lines, self.column = [""], 0

    def write(self, text: str) -> int:
        for char in text:
            if char == "\n":
                self.lines.append("")
            elif char != "\r":
                line = self.lines[-1].ljust(self.column)
                self.lines[-1] = line[: self.column] + char + line[self.column + 1 :]
            self.column = 0 if char in "\r\n" else self.column + 1
        return len(text)

    @property
    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.lines]


@pytest.fixture
def screen(monkeypatch):
    """(what is shown, standard output and standard error of a program on it); beside it is said at once."""
    shown, out, err = Screen(), Terminal(), Terminal()
    out.write = err.write = shown.write
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stdout=out, stderr=err))
    monkeypatch.setattr(progress, "_SILENT_S", 0.02)
    return shown, out, err


PATIENCE_S = 300  # then it hangs


def until(is_so) -> None:
    start = time.monotonic()
    while not is_so():
        assert time.monotonic() - start < PATIENCE_S
        time.sleep(0.005)


def test_beside_a_silent_program_a_line_stands_and_goes_before_it_writes(screen):
    shown, out, err = screen
    said = iter(f"step {n}, and more of it" if n % 2 else f"step {n}" for n in range(10**6))
    with Beside(lambda: next(said)):
        print("first", file=out)
        until(lambda: shown.shown[-1].startswith("step 3"))
        print("second", file=out)
        until(lambda: shown.shown[-1].startswith("step"))
        print("third", file=err)
    assert shown.shown == ["first", "second", "third", ""]
    print("as ever", file=out)
    assert shown.shown == ["first", "second", "third", "as ever", ""]


@pytest.mark.parametrize("unfinished", ["Your name: ", "\r 40%|####"])
def test_beside_an_unfinished_line_nothing_is_said(screen, unfinished):
    shown, out, err = screen
    with Beside(lambda: "words"):
        err.write(unfinished)
        time.sleep(0.2)
        assert shown.shown == [unfinished.strip("\r").rstrip()]
        err.write("\n")
        until(lambda: shown.shown[-1] == "words")
    assert shown.shown == [unfinished.strip("\r").rstrip(), ""]


def test_beside_a_question_that_c_writes_nothing_is_said(screen, monkeypatch):
    """`input` on a terminal writes its prompt by itself."""
    shown, _, _ = screen

    def asked(prompt):
        shown.write(prompt)
        time.sleep(0.2)
        assert shown.shown == ["Your name:"]
        shown.write("\n")
        return "Ada"

    monkeypatch.setattr("builtins.input", asked)
    with Beside(lambda: "words"):
        assert input("Your name: ") == "Ada"
        until(lambda: shown.shown[-1] == "words")
    assert input is asked


def test_beside_a_program_that_prints_elsewhere_its_output_is_not_touched(screen):
    _, out, err = screen
    writes = out.write, err.write
    out.isatty = lambda: False
    with Beside(lambda: "words"):
        assert (out.write, err.write == writes[1]) == (writes[0], False)


def test_beside_what_cannot_be_said_the_program_goes_on(screen):
    shown, out, _ = screen
    asked = []

    def words():
        asked.append(1)
        raise IndexError

    with Beside(words):
        until(lambda: len(asked) > 1)
        print("on", file=out)
    assert shown.shown == ["on", ""]


@pytest.mark.parametrize("stream", [io.StringIO(), None])
def test_beside_nothing_is_begun_where_nobody_looks(monkeypatch, stream):
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stdout=Terminal(), stderr=stream))
    before = threading.active_count()
    with Beside(lambda: "words"):
        assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_of_the_program_writes_as_it_likes(screen):
    _, out, _ = screen
    with Beside(lambda: "words"):
        process = os.fork()
        if not process:
            os._exit(out.write("four") - 4)
        assert os.waitpid(process, 0)[1] == 0


def test_what_is_left_follows_from_the_pace_so_far(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    counted = Counted("recorded", 10)
    assert counted() == "recorded: 0 of 10"
    now[0], counted.n_done = 120.0, 4
    assert counted() == "recorded: 4 of 10, some 30 s left"
    now[0] = 500.0
    assert counted() == "recorded: 4 of 10, some 10 min left"
