"""Processes that fork for each case: what is prepared once, what each fork starts from, and how it ends."""

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tools.cuda_build import forks as forks_module
from tools.cuda_build.forks import Forks, results

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


def test_one_that_ended_before_it_was_asked_says_so_and_can_be_left(monkeypatch):
    start = Forks._start

    def ended(self, card):
        (process := start(self, card)).wait()
        return process

    monkeypatch.setattr(Forks, "_start", ended)
    with Forks(lambda _: [sys.executable, "-c", "print('no card')"], lambda _: dict(os.environ)) as forks:
        assert forks.ask("a100", "one") == (False, "the process for a100 ended: no card\n")


# --------------------------------------------------------------------------------------------------- several at a time


@pytest.fixture
def pool():
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_what_each_returns_is_in_order(pool):
    assert results(pool, divmod, [(7, 2), (9, 4)]) == [(3, 1), (2, 1)]
    assert results(pool, divmod, []) == []


def test_once_one_raises_what_has_not_begun_is_left(pool):
    begun, ended = [], threading.Event()

    def work(n: int) -> None:
        begun.append(n)
        if n == 1:
            raise ValueError("it went wrong")
        ended.wait(10)  # the second may have begun by then, and the third not

    with pytest.raises(ValueError, match="it went wrong"):
        results(pool, work, [(1,), (2,), (3,)])
    ended.set()
    pool.shutdown()
    assert begun[:1] == [1]
    assert 3 not in begun


@pytest.fixture
def _interrupts():
    """Of a process in the background, too, which begins with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts")
def test_an_interrupt_that_wakes_nobody_is_heard_soon(pool):
    """As one does that comes before an endless wait, or to another thread than the first."""
    heard, in_time = threading.Event(), []

    def work() -> None:
        time.sleep(0.2)  # it waits by then
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        in_time.append(heard.wait(300))

    with pytest.raises(KeyboardInterrupt):
        results(pool, work, [()])
    heard.set()
    pool.shutdown()
    assert in_time == [True]


def test_ctrl_c_that_comes_as_a_lock_is_let_go_is_ctrl_c(pool, monkeypatch):
    """Python's Condition raises an error of its lock then: seen about 3 times in 10,000 that came as a wait began."""

    def interrupted(*_):
        try:
            raise KeyboardInterrupt
        finally:
            threading.Lock().release()

    monkeypatch.setattr(forks_module, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        results(pool, divmod, [(7, 2)])
    monkeypatch.setattr(forks_module, "wait", lambda *_: threading.Lock().release())
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        results(pool, divmod, [(7, 2)])
