"""The built site as the browser tests meet it, over http or as files, with all that its pages ask for noted."""

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from typing import Literal

import nbformat
from places import ROOT

from book.extensions.explorers import name_of
from tools.chromium import PATIENCE_MS, browser
from tools.screenshots import pages
from tools.site import HTML

FILES = HTML.as_uri() + "/"
CHAPTERS = sorted((ROOT / "chapters").glob("*.ipynb"))
QUIET_MS = 500
NOTE_READY = """() => new MutationObserver((_, seen) => {
  if (!document.querySelector(".eb[data-state=ready]")) return;
  window.readyMs = performance.now();
  seen.disconnect();
}).observe(document, { subtree: true, childList: true, attributes: true })"""
NOTE_REFUSED = """window.refused = [];
document.addEventListener("securitypolicyviolation", (one) => {
  window.refused.push(`${one.effectiveDirective}: ${one.blockedURI} ${one.sample}`);
});"""
PAINTED = """async () => {
  await document.fonts.ready;
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


def names() -> list[str]:
    """Addresses of all pages, as a link from the front page has them."""
    return [str(path.relative_to(HTML)) for path in pages()]


def book_pages() -> list[str]:
    """All but the sheet to print, which has a layout of its own."""
    return [name for name in names() if not name.startswith("_downloads")]


def chapter_page(notebook) -> str:
    """The address of a chapter's page."""
    return f"chapters/{notebook.stem}.html"


def explorers_of(notebook) -> list[str]:
    """Names of the explorers that a chapter shows, in order."""
    cells = nbformat.read(notebook, as_version=4).cells
    return [name for cell in cells if cell.cell_type == "code" and (name := name_of(cell.source))]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_args) -> None:
        pass


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The site on this machine's loopback; yields its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=HTML))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Visit:
    """A page in a browser without a network: what it asked of others, what went wrong, and how much it took."""

    def __init__(self, chromium, root: str, **context_options):
        self.root = root
        self.context = chromium.new_context(**context_options)
        self.context.set_default_timeout(PATIENCE_MS)
        self.outside: list[str] = []
        self.wrong: list[str] = []
        self.sizes: dict[str, int] = {}
        self.context.route("**/*", self._route)
        # of all its pages, also of those that a test opens beside the first
        self.context.on(
            "console", lambda one: self.wrong.append(one.text) if one.type in {"error", "warning"} else None
        )
        self.context.on("weberror", lambda error: self.wrong.append(str(error.error)))
        self._n_asked, self._pending = 0, {}  # of one page; Playwright's own "networkidle" may never come of a file
        self.context.on("request", self._asked)
        self.context.on("requestfinished", lambda request: self._pending.pop(request, None))
        self.context.on("requestfailed", self._failed)
        self.context.on("response", self._response)
        self.page = self.context.new_page()

    def _route(self, route) -> None:
        if route.request.url.startswith((self.root, "data:", "blob:")):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def _asked(self, request) -> None:
        self._n_asked += 1
        self._pending[request] = request.url

    def _failed(self, request) -> None:
        self._pending.pop(request, None)
        if request.failure != "net::ERR_ABORTED":  # as those are that a page has not ended when it is loaded again
            self.wrong.append(f"no answer, {request.failure}: {request.url}")

    def _response(self, response) -> None:
        if response.status >= 400:
            self.wrong.append(f"{response.status}: {response.url}")
        path = HTML / response.url.removeprefix(self.root).split("?")[0].split("#")[0]
        if path.is_file():
            self.sizes[response.url] = path.stat().st_size

    def _wait_until_idle(self, name: str) -> None:
        """Until half a second has passed in which nothing was asked for, and nothing is still to come."""
        for _ in range(PATIENCE_MS // QUIET_MS):
            before = self._n_asked
            self.page.wait_for_timeout(QUIET_MS)
            if self._n_asked == before and not self._pending:
                return
        raise TimeoutError(f"{name} still waits for {sorted(self._pending.values())}")

    def open(self, name: str, *, until: Literal["load", "idle"] = "load"):
        """Opens a page of the site, and waits until it is painted; `until="idle"`: until it asks for nothing more.

        What one page stores the next may miss where both are files, for each has a process of its own: such tests
        ask a server.
        """
        self._pending.clear()
        self.page.goto(self.root + name)
        if until == "idle":
            self._wait_until_idle(name)
        self.page.evaluate(PAINTED)
        return self.page


def first_explorer_ms(seen: Visit) -> float:
    """Opens the front page: when its explorer has its account, in milliseconds from the page's start."""
    seen.page.add_init_script(f"({NOTE_READY})()")
    return seen.open("index.html").evaluate("window.readyMs")


@contextlib.contextmanager
def visit(root: str, **context_options) -> Iterator[Visit]:
    """A visit in a fresh Chromium; at its end nothing was asked of others, and nothing went wrong."""
    with browser() as chromium:
        seen = Visit(chromium, root, **context_options)
        yield seen
        assert (seen.outside, seen.wrong) == ([], [])
