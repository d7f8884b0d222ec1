"""Processes that fork for each case: what is prepared once, what each fork starts from, and how it ends."""

import os
import sys

import pytest

from tools.cuda_build.forks import Forks

SERVER = """
import os, sys
sys.path.insert(0, {root!r})
from tools.cuda_build.forks import serve
prepared, made = [], []
def prepare(word, *_):
    if word == "nothing":
        raise ValueError("there is nothing to prepare")
    if word not in prepared:
        prepared.append(word)
def work(word, *rest):
    made.append(word)
    if word == "wrong":
        raise ValueError("it went wrong")
    if word == "ends":
        os.kill(os.getppid(), 9)
    print("before")
    print(prepared, made, rest, os.environ["CARD"])
serve(prepare, work)
"""


@pytest.fixture
def forks(tmp_path):
    from places import ROOT

    script = tmp_path / "server.py"
    script.write_text(SERVER.format(root=str(ROOT)))
    started = []

    def command(card: str) -> list[str]:
        started.append(card)
        return [sys.executable, str(script)]

    with Forks(command, lambda card: os.environ | {"CARD": card}) as found:
        found.started = started
        yield found


def test_each_begins_as_a_process_of_its_own_and_what_is_prepared_is_kept(forks):
    assert forks.ask("a100", "one", "more") == (True, "['one'] ['one'] ('more',) a100")
    assert forks.ask("a100", "two") == (True, "['one', 'two'] ['two'] () a100")
    assert forks.ask("h100", "one") == (True, "['one'] ['one'] () h100")
    assert forks.started == ["a100", "h100"]


@pytest.mark.parametrize(("word", "said"), [("wrong", "it went wrong"), ("nothing", "there is nothing to prepare")])
def test_what_fails_says_why_and_the_next_goes_on(forks, word, said):
    good, text = forks.ask("a100", word)
    assert not good
    assert text.endswith(f"ValueError: {said}")
    assert forks.ask("a100", "one")[0]
    assert forks.started == ["a100"]


def test_a_process_that_ended_is_replaced(forks):
    good, text = forks.ask("a100", "ends")
    assert not good
    assert text.startswith("the process for a100 ended")
    assert forks.ask("a100", "one")[0]
    assert forks.started == ["a100", "a100"]
