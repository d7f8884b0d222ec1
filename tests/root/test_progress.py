"""Long work says on a terminal what it is at, in one line that goes; elsewhere it says nothing."""

import io
from types import SimpleNamespace

import pytest
from torch import nn

from every_byte import progress
from every_byte.account import account, numbers
from every_byte.progress import at_work, tell


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


def test_what_a_search_runs_is_told(terminal):
    net = nn.Sequential(nn.Linear(8, 8), nn.GELU())
    found = account(net, numbers("b", 8), loss=lambda out, _: out.square().mean(), b=4)
    assert terminal.getvalue() == ""
    found.largest("b", budget="40MiB")
    assert "\rrunning the plain step, b=4" in terminal.getvalue()
    found.formula(n_checks=1)
    assert "\rrun 1: b=" in terminal.getvalue()
    assert terminal.getvalue().endswith(" \r")
