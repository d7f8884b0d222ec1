"""What the benchmark of a class does without a hub: it reads, compares and counts, and judges what came of attempts."""

import asyncio
import os
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat import v4
from places import ROOT

from benchmarks import classroom
from benchmarks.hub_class import people, refusals, server
from benchmarks.hub_class.browser import WIDGET, Browser, add_output, shown_widget
from benchmarks.hub_class.figures import Figures, alone, median_and_p95
from benchmarks.hub_class.refusals import IN, REFUSED, Attempt, both, by_status, in_kernel
from benchmarks.hub_class.work import AtWork, Move, Work, stops_of
from tools.notebooks import differences

ROLLUP = """561d-7ffe ---p 00000000 00:00 0                          [rollup]
Rss:                1604 kB
Pss:                 412 kB
Pss_Dirty:           108 kB
"""
TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 11 1 0 100 0 0 10 0
   1: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 12 1 0 100 0 0 10 0
   2: 0100007F:1F92 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 13 1 0 100 0 0 10 0
"""


def test_memory_is_the_proportional_set_size():
    assert people.proportional_bytes(ROLLUP) == 412 * 1024
    assert people.proportional_bytes("") == 0  # of a process that has just ended


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="/proc is Linux's")
def test_the_processes_of_a_user_are_found(monkeypatch):
    assert os.getpid() in people.processes(os.getuid())
    assert os.getpid() not in people.processes(os.getuid() + 1)
    monkeypatch.setattr(people, "processes", lambda uid: [os.getpid(), 2**30])  # one that has ended meanwhile
    (found,) = people.memory_of(os.getuid()).values()
    assert found > 2**20


def test_ports_are_those_at_which_a_user_listens():
    assert people.listening_ports(TCP, 1001) == {8080}
    assert people.listening_ports(TCP, 1002) == {8081}
    assert people.listening_ports(TCP, 0) == set()


def test_median_and_percentile_by_hand():
    assert median_and_p95([7.0]) == (7.0, 7.0)
    assert median_and_p95(list(range(1, 21))) == (10, 19)
    assert median_and_p95(list(range(1, 101))) == (50, 95)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_half_and_nineteen_of_twenty_do_not_exceed_them(values):
    for found, share in zip(median_and_p95(values), (0.5, 0.95)):
        assert found in values
        assert sum(value <= found for value in values) >= share * len(values)
        assert sum(value < found for value in values) < share * len(values)


def test_a_slider_goes_up_and_down_again():
    spec = {"controls": [{"symbol": "s", "stops": [1]}, {"symbol": "b", "stops": [2, 4, 8]}]}
    assert stops_of(spec, "b", 6) == [2, 4, 8, 4, 2, 4]
    plain = {"controls": [{"symbol": "b", "stops": None, "minimum": 1, "maximum": 3, "step": 1}]}
    assert stops_of(plain, "b", 4) == [1, 2, 3, 2]


# ---------------------------------------------------------------------------------------------------------- notebooks


def stream(text: str, name: str = "stdout"):
    return v4.new_output("stream", text=text, name=name)


def test_text_that_comes_in_pieces_is_one_text():
    outputs = []
    for output in (stream("a"), stream("b\n"), stream("c", "stderr"), stream("d")):
        add_output(outputs, output)
    assert [(one.name, one.text) for one in outputs] == [("stdout", "ab\n"), ("stderr", "c"), ("stdout", "d")]


def test_the_widget_of_a_cell():
    shown = v4.new_output("display_data", {WIDGET: {"model_id": "abc"}, "text/plain": "Explorer()"})
    assert shown_widget([stream("x"), shown]) == "abc"
    assert shown_widget([stream("x")]) is None


def test_differences_are_named_by_cell_and_ignored_where_the_tag_says_so():
    def notebook(*texts):
        cells = [v4.new_code_cell("1", outputs=[stream(text)], id=f"cell-{i}") for i, text in enumerate(texts)]
        cells[-1].metadata["tags"] = ["nbval-ignore-output"]
        return v4.new_notebook(cells=cells)

    assert differences(notebook("1\n", "2\n", "3\n"), notebook("1\n", "2\n", "9\n")) == []
    assert differences(notebook("1\n", "2\n", "3\n"), notebook("1\n", "7\n", "3\n")) == ["cell-1: was '2', is '7'"]


# ----------------------------------------------------------------------------------------------------------- attempts


@pytest.mark.parametrize(
    ("code", "said"),
    [(200, IN), (201, IN), (401, REFUSED), (403, REFUSED), (404, REFUSED), (302, "neither"), (500, "neither")],
)
def test_what_a_status_says(code, said):
    assert by_status(code).startswith(said)


@pytest.mark.parametrize(
    ("stranger", "owner", "holds"),
    [(REFUSED, IN, True), (REFUSED, None, True), (IN, IN, False), (REFUSED, REFUSED, False), ("neither: x", IN, False)],
)
def test_an_attempt_holds_if_the_stranger_alone_is_refused(stranger, owner, holds):
    assert Attempt("read", stranger, owner).holds is holds


def test_a_way_is_gone_by_both():
    async def way(seat):
        return {"stranger": REFUSED, "owner": IN}[seat]

    assert asyncio.run(both("read", way, "stranger", "owner")) == Attempt("read", REFUSED, IN)


class FakeKernel:
    """Runs a cell in this process."""

    async def run(self, code: str, stops: bool = True):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        return [stream(run.stdout or run.stderr)]


def test_in_a_kernel_only_the_expected_error_is_a_refusal():
    def comes_of(action, *error):
        return asyncio.run(in_kernel(FakeKernel(), action, *error))

    assert comes_of("1 + 1") == IN
    assert comes_of("raise PermissionError('no')") == REFUSED
    assert comes_of("bytearray(1 << 62)", "MemoryError") == REFUSED
    assert comes_of("open('nowhere/at/all')").startswith("neither: Traceback")
    assert comes_of(refusals.CONNECT.format(path="nowhere/at/all")).startswith("neither")


# ------------------------------------------------------------------------------------------------------------ figures


def move(chapter="02_a.ipynb", setting=(("b", 2),), seconds=0.1, terms="{'x': 1}"):
    return Move(chapter, setting, seconds, 3, terms)


REFUSED_ONCE = Attempt("read", REFUSED, IN)


def of(works, attempts=(REFUSED_ONCE,), **given):
    memory = {work.name: [100_000_000, 300_000_000] for work in works}
    how = {"leaves_open": False, "wall_s": 60.2, "start_s": 9.6, "load_before": 0.2, "load": 4.04}
    return Figures(["02_a.ipynb"], 2, works, memory, **(how | given), attempts=list(attempts))


def done(name, *moves, **given):
    return Work(name, **({"finished": ["02_a.ipynb"], "moves": list(moves or [move()])} | given))


def test_a_report_by_hand():
    text = of([done("ada", move(), move(setting=(("b", 4),), seconds=0.4)), done("bob", move(seconds=0.2))]).text()
    assert text == (
        "2 users on 2 cores, each its own Unix user and server: chapter 2\n"
        "finished                    2 of 2\n"
        "numbers differ              0 of 2 users\n"
        "memory of a user, at most   400 MB; aim 700: met\n"
        "  its processes             100 + 300 MB\n"
        "slider, chapter 2           median 200 ms; aim 300: met\n"
        "  95th percentile           400 ms, of 3 moves\n"
        "at work beside a move       3 others (median)\n"
        "all servers up              10 s\n"
        "wall time                   60 s\n"
        "load average                0.2 before, 4.0 at work (median)\n"
        "refused                     1 of 1 attempts\n"
        "  yes  read\n"
    )


def test_an_aim_that_is_missed_is_said():
    assert "median 301 ms; aim 300: missed\n" in of([done("ada", move(seconds=0.301))]).text()


def test_moves_to_where_the_slider_was_are_told_apart():
    ada = done("ada", move(seconds=0.5), move(setting=(("b", 4),), seconds=0.3), *[move(seconds=0.001)] * 3)
    text = of([ada]).text()
    assert "median 1 ms; aim 300: met\n" in text
    assert "of 5 moves\n  first at a setting        median 400 ms, of 2 moves; aim 300: missed\n" in text


def test_a_verdict_that_follows_is_told():
    works = [done("ada", verdicts={"02_a.ipynb": [0.25, 0.35]}), done("bob", verdicts={"02_a.ipynb": [0.3]})]
    assert "of 2 moves\n  whether it fits           median 300 ms behind the account\n" in of(works).text()


def test_a_report_of_nothing():
    text = of([Work("ada", error="OSError: gone")], attempts=()).text()
    assert "finished                    0 of 1\n" in text
    assert "slider, chapter 2           not moved\n" in text


@pytest.mark.parametrize(
    ("works", "attempts", "said"),
    [
        ([done("ada")], [], []),
        ([done("ada"), done("bob")], [], ["nothing was tried that should be refused"]),
        ([done("ada"), done("bob")], [Attempt("read", IN, IN)], ["read: stranger let in, owner let in"]),
        ([Work("ada", error="OSError: gone")], [], ["ada has not finished", "ada: OSError: gone"]),
        ([done("ada", differing=["02_a.ipynb, x: was '1', is '2'"])], [], ["ada: 02_a.ipynb, x: was '1', is '2'"]),
    ],
)
def test_why_a_run_has_failed(works, attempts, said):
    assert of(works, attempts).failures == said


def test_an_account_that_is_not_the_others_is_seen():
    works = [done(name, move(terms="{'x': 1}")) for name in ("ada", "bob")] + [done("eve", move(terms="{'x': 2}"))]
    assert alone(works) == [("eve", "02_a.ipynb")]
    assert "numbers differ              1 of 3 users" in of(works).text()
    assert of(works).failures == ["eve: an account of its own of 02_a.ipynb"]


def test_who_waits_for_a_kernel_is_at_work():
    async def seen():
        at_work, ends = AtWork(), asyncio.Event()
        task = asyncio.create_task(at_work.of("ada", ends.wait()))
        await asyncio.sleep(0)
        during = at_work.others("bob"), at_work.others("ada")
        ends.set()
        await task
        return *during, at_work.others("bob")

    assert asyncio.run(seen()) == (1, 0, 0)


# -------------------------------------------------------------------------------------------------------- the command


def test_who_is_not_root_is_told_why(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    with pytest.raises(SystemExit, match="needs Linux and root: it makes a Unix user for each member"):
        classroom.main([])


def test_an_unknown_chapter_is_refused_by_name():
    with pytest.raises(SystemExit, match=r"there is no chapter 77: there are 0, 1, 2"):
        classroom.main(["--chapters", "77"])


@pytest.mark.nightly
def test_its_options_have_the_defaults_that_its_help_says():
    asked = classroom.options([])
    assert (asked.users, asked.cores, asked.chapters, asked.moves, asked.open) == (8, 2, [2, 4], 20, False)
    run = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "classroom.py"), "--help"], capture_output=True, text=True
    )
    assert re.search(r"--users N +how many users \(default: 8\)", run.stdout)


def test_processes_are_found_by_the_mark_of_their_run(monkeypatch):
    monkeypatch.setenv(server.MARK, "a-word")
    command = [sys.executable, "-c", "print(flush=True); input()"]
    sleeper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        sleeper.stdout.readline()  # it runs
        assert server.marked("a-word") == [sleeper.pid]
        assert server.marked("another-word") == []
    finally:
        sleeper.communicate(b"\n")


def test_free_ports_are_different():
    assert len(set(server.free_ports(5))) == 5


def test_a_person_s_server_stands_behind_the_proxy():
    ada = people.Person("ada", "secret", 1001, ROOT)
    assert Browser("http://127.0.0.1:8000", ada).server == "http://127.0.0.1:8000/user/ada"
