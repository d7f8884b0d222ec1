"""Takes the picture that others show of a link to the site, book/_static/share.png: `python -m tools.share_picture`.

It is the front page's own picture, as build/site/html has it, on a page of the size that such pictures have.
"""

import io
from pathlib import Path

from tools.chromium import browser
from tools.site import HTML, ROOT

PICTURE = ROOT / "book" / "_static" / "share.png"
SIZE = {"width": 1200, "height": 630}
ALONE = """
const page = document.querySelector("article");
const kept = [page.querySelector("h1"), page.querySelector(".hook"), page.querySelector(".fit")];
document.body.replaceChildren(...kept);
document.querySelector("h1 .headerlink").remove();
for (const name of [".fit-controls", ".fit-owners", "figcaption"]) document.querySelector(name).remove();
document.querySelector(".fit-fixed").style.display = "block";
document.body.classList.add("bd-article");
document.body.style.cssText = "padding: 34px 56px; overflow: hidden; font-size: 21px; height: 630px";
document.querySelector("h1").style.cssText = "margin: 0; font-size: 50px";
document.querySelector(".hook p").style.cssText = "margin: 4px 0 0; font-size: 31px; max-width: none";
document.querySelector(".fit").style.cssText = "margin-top: 16px";
"""


def photograph(page: Path) -> bytes:
    """The picture, in few colours."""
    from PIL import Image

    with browser() as chromium:
        tab = chromium.new_page(viewport=SIZE, color_scheme="light", reduced_motion="reduce")
        tab.goto(page.as_uri())
        tab.evaluate(ALONE)
        tab.evaluate("document.fonts.ready.then(() => true)")
        picture = Image.open(io.BytesIO(tab.screenshot()))
        out = io.BytesIO()
        picture.convert("P", palette=Image.Palette.ADAPTIVE).save(out, "PNG", optimize=True)
    return out.getvalue()


def main() -> None:
    """Write it."""
    PICTURE.write_bytes(photograph(HTML / "index.html"))
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
