"""The system's Chromium without a window, driven by playwright, for the site's PDFs and pictures and for tests."""

import contextlib
import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""In the order of preference: the first is Chromium without what draws windows, and takes a third less time."""

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def find_chromium() -> str | None:
    """Path of the Chromium on this machine, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


PATIENCE_MS = 120_000
"""How long a page is waited for, on a machine with other work; then it hangs."""

_kept: list = []
"""Playwright's browser while `kept` holds one open."""


@contextlib.contextmanager
def kept():
    """One headless Chromium for all that `browser` and `chromium` open meanwhile: a start takes a second."""
    with browser() as found:
        _kept.append(found)
        try:
            yield
        finally:
            _kept.pop()


@contextlib.contextmanager
def browser():
    """A headless Chromium, that which is kept or one of its own; yields playwright's browser."""
    if _kept:
        yield _kept[-1]
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        try:
            yield found
        finally:
            found.close()


@contextlib.contextmanager
def chromium(**context_options):
    """A page in a headless Chromium, with cookies and storage of its own; yields it and closes it."""
    with browser() as found:
        context = found.new_context(**context_options)
        context.set_default_timeout(PATIENCE_MS)
        try:
            yield context.new_page()
        finally:
            context.close()
