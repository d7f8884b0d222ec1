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
JUDGE_S = 0.2  # JUDGE_MS of page/explorer.js: so long a setting rests before the page asks whether it fits


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
    """What a user did: chapters that are finished, cells that print something else, moves.

    `verdicts` has of each chapter the seconds from accounts to their verdicts, where these are asked for.
    """

    name: str
    finished: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    verdicts: dict[str, list[float]] = field(default_factory=dict)
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
    """The page's own first request, which is no move, then move after move, with a rest behind each answer.

    In the rest the page asks for the verdict; a move meanwhile waits for it, as a page has one request under way.
    """
    state = kernel.widgets[widget]
    await at_work.of(done.name, _answered(kernel, widget, state["value"]))
    for stop in stops_of(state["spec"], SLIDER, n_moves):
        judging = asyncio.create_task(_judged(kernel, widget, chapter, at_work, done))
        await asyncio.sleep(rest_s)
        setting, others, start = state["value"] | {SLIDER: stop}, at_work.others(done.name), time.perf_counter()
        await judging
        await at_work.of(done.name, _answered(kernel, widget, setting))
        seconds, answer = time.perf_counter() - start, state["answer"]
        if answer["error"]:
            raise RuntimeError(f"{chapter}: {answer['error']}")
        done.moves.append(Move(chapter, tuple(sorted(setting.items())), seconds, others, str(answer["terms"])))


async def _judged(kernel: Kernel, widget: str, chapter: str, at_work: AtWork, done: Work) -> None:
    """When the setting has rested: the chosen verdict, of an account that has none yet."""
    state, start = kernel.widgets[widget], time.perf_counter()
    choices = [one for one in state["spec"]["controls"] if one.get("judges")]
    await asyncio.sleep(JUDGE_S)
    if choices and state["answer"]["fit_with"] is not None and not _has_verdict(state, choices[0]):
        await at_work.of(done.name, _asked(kernel, widget, judge=True))
        done.verdicts.setdefault(chapter, []).append(time.perf_counter() - start)


def _has_verdict(state: dict, choice: dict) -> bool:
    option, answer = state["value"][choice["symbol"]], state["answer"]
    return bool(answer["fit"] if option == choice["options"][0] else answer["fit_with"].get(option))


async def _answered(kernel: Kernel, widget: str, setting: dict) -> None:
    """Sends a setting and asks for its account, as page/explorer.js does."""
    kernel.widgets[widget]["value"] = setting
    data = {"method": "update", "state": {"value": setting}, "buffer_paths": []}
    await kernel.send("comm_msg", {"comm_id": widget, "data": data})
    await _asked(kernel, widget)


async def _asked(kernel: Kernel, widget: str, **more) -> None:
    state = kernel.widgets[widget]
    request = state["answer"]["request"] + 1
    asks = {"request": request, "settings": state["value"]} | more
    await kernel.send("comm_msg", {"comm_id": widget, "data": {"method": "custom", "content": asks}})
    await kernel.until(lambda: state["answer"]["request"] >= request, ANSWER_S)
