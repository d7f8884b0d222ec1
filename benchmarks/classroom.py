"""A class on one small server: a JupyterHub, each user with a Unix account, chapters and sliders at the same time.

Usage, as root on Linux: python benchmarks/classroom.py [--users 8] [--chapters 2 4] [--store FILE]

It prints who finished, whose numbers differ, memory of a user, times from slider to account, and whether everything was
refused that one user should not reach of another's. It fails where somebody did not finish, where a number differs, and
where something was not refused. Users, homes and processes that it made are gone behind it, also after Ctrl-C.
It needs `pip install -c constraints.txt -e ".[hub]"`, and Node.js with npm. Its times are those of a machine that does
nothing else.
"""

import argparse
import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.hub_class.browser import Browser  # noqa: E402
from benchmarks.hub_class.figures import Figures, many  # noqa: E402
from benchmarks.hub_class.people import Person, people  # noqa: E402
from benchmarks.hub_class.refusals import Attempt, Seat, everything  # noqa: E402
from benchmarks.hub_class.server import hub  # noqa: E402
from benchmarks.hub_class.watch import Watch  # noqa: E402
from benchmarks.hub_class.work import AtWork, work  # noqa: E402

ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TOO_MANY_BYTES = 3 * 2**30  # more than tools/hub/jupyterhub_config.py lets a process have


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=8, metavar="N", help="how many users (default: 8)")
    parser.add_argument("--cores", type=int, default=2, metavar="N", help="on how many cores (default: 2)")
    parser.add_argument("--chapters", type=int, nargs="+", default=[2, 4], metavar="N", help="in this order (2 4)")
    parser.add_argument("--moves", type=int, default=20, metavar="N", help="of each explorer's slider (20)")
    parser.add_argument("--rest", type=float, default=0.5, metavar="S", help="seconds between answer and move (0.5)")
    parser.add_argument("--stagger", type=float, default=2.0, metavar="S", help="seconds from user to user (2)")
    parser.add_argument("--port", type=int, default=0, help="the hub's, on loopback (default: a free one)")
    parser.add_argument("--open", action="store_true", help="leave each chapter open, and its kernel with it")
    parser.add_argument("--store", type=Path, metavar="FILE", help="write what is printed to a file, too")
    return parser.parse_args(arguments)


def cannot_run() -> str:
    """Why it cannot run here, in a sentence; nothing where it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "benchmarks/classroom.py needs Linux and root: it makes a Unix user for each member of the class."
    try:
        import jupyterhub  # noqa: F401
    except ImportError:
        return 'benchmarks/classroom.py needs JupyterHub: pip install -c constraints.txt -e ".[hub]"'
    return ""


def reachable_by(person: Person) -> str:
    """Why a user cannot work with this installation; nothing where they can."""
    command = [sys.executable, "-c", "import every_byte, utils, jupyterhub"]
    who = {"user": person.uid, "group": person.uid, "extra_groups": [], "cwd": person.home, "env": {}}
    try:
        run = subprocess.run(command, capture_output=True, text=True, **who)
    except PermissionError:
        return f"other users cannot run {sys.executable}: install Python and the book where they may enter, as /opt."
    return run.stderr and f"other users cannot use the book at {ROOT}: {run.stderr.splitlines()[-1]}"


def chapters(numbers: list[int]) -> list[Path]:
    """The notebooks of these numbers.

    Raises: SystemExit for one that there is not.
    """
    found = {int(path.name[:2]): path for path in (ROOT / "chapters").glob("[0-9][0-9]_*.ipynb")}
    if unknown := [number for number in numbers if number not in found]:
        raise SystemExit(f"there is no chapter {unknown[0]}: there are {', '.join(map(str, sorted(found)))}.")
    return [found[number] for number in numbers]


async def run_class(address: str, users: list[Person], asked: argparse.Namespace) -> Figures:
    """All of it, with a hub that runs."""
    browsers, load_before, start = [Browser(address, one) for one in users], os.getloadavg()[0], time.monotonic()
    todo, watch, at_work = chapters(asked.chapters), Watch(users), AtWork()

    async def comes(browser: Browser) -> None:
        await browser.log_in()
        await browser.start_server()

    async def works(place: int, browser: Browser):
        await asyncio.sleep(place * asked.stagger)
        return await work(browser, todo, asked.moves, asked.rest, at_work, asked.open)

    async with watch.looking():
        await asyncio.gather(*map(comes, browsers))
        up = time.monotonic()
        print(f"{many(len(users), 'server')} up", flush=True)
        done = await asyncio.gather(*(works(place, browser) for place, browser in enumerate(browsers)))
        ended = time.monotonic()
    names, wall = [path.name for path in todo], ended - start
    attempts = await refusals(browsers[:2]) if len(browsers) > 1 else []
    loads = (load_before, watch.load)
    return Figures(names, asked.cores, done, watch.parts, asked.open, wall, up - start, *loads, attempts)


async def refusals(browsers: list[Browser]) -> list[Attempt]:
    """What the first two should not do to each other."""
    seats = []
    for browser in browsers:
        kernel = await browser.open_kernel("chapters/00_start_here.ipynb")
        seats.append(Seat(browser, kernel, browser.person.home / ".run"))
    there, back = seats, seats[::-1]
    return [one for pair in (there, back) for one in await everything(*pair, ROOT / "every_byte", TOO_MANY_BYTES)]


def stop(number, frame) -> None:
    """Ends as Ctrl-C does."""
    raise KeyboardInterrupt


@contextlib.contextmanager
def undisturbed_end() -> Iterator[None]:
    """From its end on a second Ctrl-C is not heard: what was made is being removed."""
    try:
        yield
    finally:
        for number in ENDS:
            signal.signal(number, signal.SIG_IGN)


def run(asked: argparse.Namespace) -> Figures:
    """Makes users and a hub, lets them work, and removes all of it."""
    group = f"class{secrets.token_hex(2)}"
    with contextlib.ExitStack() as stack, undisturbed_end():
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="class-", ignore_cleanup_errors=True)))
        folder.chmod(0o755)
        users = stack.enter_context(people(asked.users, group, folder / "u"))
        if why := reachable_by(users[0]):
            raise SystemExit(why)
        address = stack.enter_context(hub(group, folder / "hub", asked.port))
        return asyncio.run(run_class(address, users, asked))


def main(arguments: list[str] | None = None) -> int:
    """1 if it has failed."""
    asked = options(arguments)
    chapters(asked.chapters)  # unknown ones are refused before anything is made
    if why := cannot_run():
        raise SystemExit(why)
    for number in ENDS[1:]:
        signal.signal(number, stop)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cores])
    try:
        figures = run(asked)
    except KeyboardInterrupt:
        print("Interrupted; users, homes and processes that it made are gone.", file=sys.stderr)
        return 130
    print(figures.text(), end="")
    if asked.store:
        asked.store.write_text(figures.text(), encoding="utf-8")
    for said in figures.failures:
        print(f"FAILED: {said}")
    return int(bool(figures.failures))


if __name__ == "__main__":
    sys.exit(main())
