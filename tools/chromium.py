"""The system's Chromium without a window, driven by playwright, for the site's PDFs and pictures and for tests."""

import contextlib
import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def find_chromium() -> str | None:
    """Path of the Chromium on this machine, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextlib.contextmanager
def browser():
    """A headless Chromium; yields playwright's browser and closes it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        try:
            yield found
        finally:
            found.close()


@contextlib.contextmanager
def chromium(**context_options):
    """A page in a headless Chromium; yields it and closes the browser."""
    with browser() as found:
        yield found.new_context(**context_options).new_page()
