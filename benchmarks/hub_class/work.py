"""What one user does in class: each chapter from top to bottom, and its explorer's slider when its cell has run."""

import asyncio
import copy
import time
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

from tools.notebooks import differences, normalise

from .browser import Browser, Kernel, shown_widget

SLIDER = "b"  # the batch's: each explorer has it
ANSWER_S = 120


@dataclass(frozen=True)
class Move:
    """A slider's move: how long until the account was there, and how many of the others were at work."""

    chapter: str
    setting: tuple
    seconds: float
    others: int
    terms: str


@dataclass
class Work:
    """What a user did: chapters that are finished, cells that print something else, moves."""

    name: str
    finished: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    error: str = ""


class AtWork:
    """Who is waiting for an answer of a kernel at this moment."""

    def __init__(self) -> None:
        self._now: set[str] = set()

    async def of(self, name: str, waiting):
        """Awaits what a user waits for, who counts as at work until then."""
        self._now.add(name)
        try:
            return await waiting
        finally:
            self._now.discard(name)

    def others(self, name: str) -> int:
        """How many but this one."""
        return len(self._now - {name})


async def work(
    browser: Browser, chapters: list[Path], n_moves: int, rest_s: float, at_work: AtWork, leaves_open: bool = False
) -> Work:
    """A user's work from an open server to the last chapter's last cell; whatever fails becomes its `error`.

    A chapter is closed before the next is opened, unless it is left open.
    """
    done = Work(browser.person.name)
    try:
        for chapter in chapters:
            kernel = await _one_chapter(browser, chapter, n_moves, rest_s, at_work, done)
            if not leaves_open:
                await browser.close(kernel)
    except Exception as error:  # the others go on
        done.error = f"{type(error).__name__}: {error}"
    return done


async def _one_chapter(
    browser: Browser, chapter: Path, n_moves: int, rest_s: float, at_work: AtWork, done: Work
) -> Kernel:
    path = f"chapters/{chapter.name}"
    stored = normalise(nbformat.reads(chapter.read_text(encoding="utf-8"), as_version=4))
    opened = await browser.contents(path)
    kernel = await browser.open_kernel(path)
    found = copy.deepcopy(stored)
    theirs = [cell["source"] for cell in opened["content"]["cells"]]
    assert theirs == [cell.source for cell in stored.cells], f"{path} is no copy of the book's"
    for cell in found.cells:
        if cell.cell_type != "code":
            continue
        stops = "raises-exception" not in cell.metadata.get("tags", [])
        cell.outputs = await at_work.of(done.name, kernel.run(cell.source, stops))
        widget = shown_widget(cell.outputs)
        if widget and "answer" in kernel.widgets[widget]:
            await _move_slider(kernel, widget, chapter.name, n_moves, rest_s, at_work, done)
    done.differing += [f"{chapter.name}, {said}" for said in differences(stored, normalise(found))]
    done.finished.append(chapter.name)
    return kernel


def stops_of(spec: dict, symbol: str, n: int) -> list[int]:
    """The first `n` positions of a slider, up and down again where it has fewer."""
    (control,) = [one for one in spec["controls"] if one["symbol"] == symbol]
    stops = control["stops"] or list(range(control["minimum"], control["maximum"] + 1, control["step"]))
    there_and_back = stops + stops[-2:0:-1]
    return [there_and_back[i % len(there_and_back)] for i in range(n)]


async def _move_slider(
    kernel: Kernel, widget: str, chapter: str, n_moves: int, rest_s: float, at_work: AtWork, done: Work
) -> None:
    """The page's own first request, which is no move, then move after move, with a rest behind each answer."""
    state = kernel.widgets[widget]
    await at_work.of(done.name, _answered(kernel, widget, state["value"]))
    for stop in stops_of(state["spec"], SLIDER, n_moves):
        await asyncio.sleep(rest_s)
        setting, others = state["value"] | {SLIDER: stop}, at_work.others(done.name)
        seconds = await at_work.of(done.name, _answered(kernel, widget, setting))
        answer = state["answer"]
        if answer["error"]:
            raise RuntimeError(f"{chapter}: {answer['error']}")
        done.moves.append(Move(chapter, tuple(sorted(setting.items())), seconds, others, str(answer["terms"])))


async def _answered(kernel: Kernel, widget: str, setting: dict) -> float:
    """Sends a setting and asks for its account, as page/explorer.js does; seconds until it is there."""
    state = kernel.widgets[widget]
    request, start = state["answer"]["request"] + 1, time.perf_counter()
    data = {"method": "update", "state": {"value": setting}, "buffer_paths": []}
    await kernel.send("comm_msg", {"comm_id": widget, "data": data})
    asks = {"method": "custom", "content": {"request": request, "settings": setting}}
    await kernel.send("comm_msg", {"comm_id": widget, "data": asks})
    await kernel.until(lambda: state["answer"]["request"] >= request, ANSWER_S)
    return time.perf_counter() - start
