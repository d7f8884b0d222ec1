"""Takes a picture of every page of the built site, light and dark, on a wide and a narrow screen: `make screenshots`.

Writes build/screenshots/PAGE.THEME.WIDTH.N.png, whole pages, in pieces of at most 4,000 pixels. They are made to be
looked at: no test compares them.
"""

import argparse
import shutil
from pathlib import Path

from tools.chromium import browser
from tools.site import HTML, ROOT

PICTURES = ROOT / "build" / "screenshots"
WIDTHS = {1280: 900, 360: 740}
PIECE = 4_000


def pages() -> list[Path]:
    """Every page of the site but those that Sphinx makes for search engines alone."""
    return sorted(path for path in HTML.rglob("*.html") if "_static" not in path.parts)


def photograph(page, path: Path, stem: str) -> None:
    """The whole page, in pieces from the top."""
    page.goto(path.as_uri())
    page.wait_for_load_state("networkidle")
    height = page.evaluate("document.documentElement.scrollHeight")
    width = page.viewport_size["width"]
    page.set_viewport_size({"width": width, "height": min(height, PIECE)})
    for number, top in enumerate(range(0, height, PIECE), start=1):
        page.evaluate("top => window.scrollTo(0, top)", top)
        page.screenshot(path=PICTURES / f"{stem}.{number}.png")
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})


def main() -> None:
    """Pictures of all pages, or of those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="pages, without .html; all if none is named")
    names = parser.parse_args().names
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    with browser() as chromium:
        for theme in ("light", "dark"):
            for width, height in WIDTHS.items():
                page = chromium.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
                for path in pages():
                    if not names or path.stem in names:
                        photograph(page, path, f"{path.stem}.{theme}.{width}")
    print(f"{len(list(PICTURES.iterdir()))} pictures in {PICTURES.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
