"""Builds the book's site: `python -m tools.site` writes build/site/html, to be opened as a file or served.

The pages are the stored chapters and book/*.md; no notebook is run, but explorers take their accounts anew.
Mathematics and type come from npm, as book/package-lock.json pins them, and are copied beside the pages: a page asks
nobody for anything. Then Chromium, where there is one, prints each chapter to a PDF. Nothing is written outside
build/, but npm's own files.

Where only chapters and pages have changed since the last time, the others are not read again, and not printed again.
Until the new site is whole the last one stands; Ctrl-C leaves it so. `--only index` or `--only 02_mlp_memory` makes one
page alone, in seconds, in build/site/only.
"""

import argparse
import contextlib
import hashlib
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from every_byte.widget.scripts import PAGE as WIDGET
from every_byte.widget.scripts import classic
from tools.chapter_pdfs import print_chapters
from tools.chromium import NAMES, find_chromium
from tools.example_runs import PAGE, page_of_the_report
from tools.site_bundles import bundle
from tools.site_explorers import FEW, copy_explorers, digest_of, folder_name, store_all
from tools.site_policy import give_policies
from tools.slides import SLIDES, refresh
from tools.whole_files import plainly, write_whole

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "book"
BUILD = ROOT / "build" / "site"
NPM, STATIC, SOURCE, KEPT, HTML = (BUILD / name for name in ("npm", "static", "source", "kept", "html"))
NEW = BUILD / "new"  # what is to be build/site/html once it is whole
ONLY = BUILD / "only"  # one page alone
EXAMPLE = BUILD / "example"  # the report of the example program, as a page
FONTS = ("source-serif-4", "source-sans-3", "source-code-pro")


def install_parts() -> Path:
    """What book/package-lock.json lists, in build/site/npm; nothing is installed twice. Returns node_modules.

    Raises: SystemExit where npm is missing.
    """
    modules, stamp = NPM / "node_modules", NPM / "installed"
    wanted = hashlib.sha256((BOOK / "package-lock.json").read_bytes()).hexdigest()
    with one_at_a_time(NPM):
        if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
            return modules
        if shutil.which("npm") is None:
            raise SystemExit("The site needs Node.js with npm for mathematics and type. On Debian: apt-get install npm")
        for name in ("package.json", "package-lock.json"):
            shutil.copy(BOOK / name, NPM)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=NPM, check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return modules


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Makes the folder, and waits until no other process is at work in it: tests run in several."""
    import fcntl  # which Windows has not: the rest of this module can be read there

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def copy_parts(modules: Path) -> None:
    """KaTeX's style and the fonts, as the pages load them: Latin letters and woff2 alone; with their licences."""
    shutil.rmtree(STATIC, ignore_errors=True)
    (STATIC / "fonts").mkdir(parents=True)
    (STATIC / "licences").mkdir()
    minified(modules / "minisearch" / "dist" / "umd" / "index.js", STATIC / "minisearch.js", modules)
    shutil.copy(modules / "minisearch" / "LICENSE.txt", STATIC / "licences" / "minisearch.txt")
    (STATIC / "exercises.js").write_text(classic([WIDGET / "numbers.js", BOOK / "scripts" / "exercises.js"]), "utf-8")
    katex = modules / "katex" / "dist"
    style = (katex / "katex.min.css").read_text(encoding="utf-8")
    only_woff2 = re.sub(r",url\([^)]*\.(woff|ttf)\) format\(\"\w+\"\)", "", style)
    (STATIC / "katex.min.css").write_text(only_woff2, encoding="utf-8")
    for font in katex.glob("fonts/*.woff2"):
        shutil.copy(font, STATIC / "fonts")
    shutil.copy(modules / "katex" / "LICENSE", STATIC / "licences" / "katex.txt")
    for family in FONTS:
        module = modules / "@fontsource-variable" / family
        shutil.copy(module / "LICENSE", STATIC / "licences" / f"{family}.txt")
        for slant in ("normal", "italic"):
            shutil.copy(module / "files" / f"{family}-latin-wght-{slant}.woff2", STATIC / "fonts")


def minified(source: Path, target: Path, modules: Path) -> None:
    """A script or a style sheet as a page loads it: without what only a reader of it needs."""
    command = [modules / ".bin" / "esbuild", source, "--minify", "--legal-comments=none", "--log-level=warning"]
    subprocess.run([*command, f"--outfile={target}"], check=True)


def stage() -> None:
    """The pages' sources side by side in build/site/source: those of book/, examples, a report, figures, chapters.

    One that is there as it is keeps its time: Sphinx does not read it again.
    """
    pages = [*BOOK.glob("*.md"), *BOOK.glob("*.ipynb"), BOOK / "references.bib", *BOOK.glob("*_sheet.html")]
    sources = {SOURCE / path.name: path for path in pages}
    folders = {
        "images": (BOOK / "images").iterdir(),
        "examples": [*(BOOK / "examples").glob("*.*"), *EXAMPLE.glob(PAGE)],
        "chapters": (ROOT / "chapters").glob("*.ipynb"),
        "slides": SLIDES.glob("*.*"),
    }
    for folder, paths in folders.items():
        sources |= {SOURCE / folder / path.name: path for path in paths}
    for path in [path for path in SOURCE.rglob("*") if path.is_file() and path not in sources]:
        path.unlink()
    for place, path in sources.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_file() or place.read_bytes() != path.read_bytes():
            shutil.copyfile(path, place)


def made_by() -> str:
    """A digest of what makes pages of their sources, and of which sources there are.

    Counts: the packages, the tools, what Sphinx is told, the recordings that a page counts.
    """
    folders = ("every_byte", "utils", "tools", "book", "tests/reference")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix != ".md"]
    return digest_of(
        [*files, ROOT / "constraints.txt"], *sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*"))
    )


def build_pages(*options: str) -> None:
    """Runs Sphinx: no cell is run, no reference may miss, no warning may pass.

    It reads the sources that have changed since it last passed, or all, where what makes pages of them has. It writes
    all pages, since each may speak of any other.
    """
    now, stamp = made_by(), KEPT / "made_by"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != now:
        shutil.rmtree(KEPT, ignore_errors=True)
    stamp.unlink(missing_ok=True)  # what is not read again does not warn again: it must have passed
    shutil.rmtree(NEW, ignore_errors=True)
    run_sphinx(KEPT, NEW, "-n", "-W", "--keep-going", "-a", *options)
    write_whole(stamp, now)
    finish_pages(NEW)


def run_sphinx(kept: Path, new: Path, *options: str) -> None:
    """Sphinx makes the staged sources into pages in `new`; what it has read is in `kept`."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-c", str(BOOK), "-d", str(kept / "doctrees")]
    command += [*options, str(SOURCE), str(new)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}, check=True)


def finish_pages(new: Path) -> None:
    """Without scripts a page is light, of scripts its own alone run there, and what pages share is in few files."""
    for page in new.rglob("*.html"):  # `auto` is for the theme's script; without scripts it is no colour at all
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace('data-theme="auto"', 'data-theme="light"', 1), encoding="utf-8")
    give_policies(new)
    bundle(new, NPM / "node_modules")


def build_one(name: str) -> Path:
    """One page of book/, or one chapter, in build/site/only: links to others lead nowhere, accounts are few.

    Raises: SystemExit where there is no page or chapter of that name.
    """
    with one_at_a_time(BUILD):
        stage()
        found = [path for path in SOURCE.rglob(f"{name}.*") if path.suffix in (".md", ".ipynb")]
        if not found:
            raise SystemExit(f"{name!r} is no page of book/ and no chapter: name its file, without .md or .ipynb.")
        copy_parts(install_parts())
        others = [path for path in SOURCE.rglob("*.*") if path.suffix in (".md", ".ipynb") and path != found[0]]
        left_out = ",".join(str(path.relative_to(SOURCE)) for path in others)
        page, scripts = str(found[0].relative_to(SOURCE).with_suffix("")), folder_name()
        shutil.rmtree(ONLY, ignore_errors=True)
        values = {"exclude_patterns": left_out, "root_doc": page, "suppress_warnings": "myst,toc,ref"}
        values["explorer_scripts"] = scripts
        run_sphinx(BUILD / "kept_only", ONLY, "-E", *(f"-D{key}={value}" for key, value in values.items()))
        finish_pages(ONLY)
        html = ONLY / f"{page}.html"
        names = sorted(set(re.findall(r'data-explorer="(\w+)"', html.read_text(encoding="utf-8"))))
        copy_explorers(ONLY / "_static" / scripts, FEW, names)
    return html


def can_print() -> bool:
    """Whether there is a Chromium to print PDFs; says so if there is none."""
    if find_chromium() is None:
        print(f"No PDFs: they are printed by Chromium, and none of {', '.join(NAMES)} is on the PATH.")
        return False
    return True


def put_in_place() -> None:
    """The new site for the last one: not even Ctrl-C leaves none."""
    old = BUILD / "old"
    shutil.rmtree(old, ignore_errors=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    if HTML.exists():
        HTML.rename(old)
    NEW.rename(HTML)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    shutil.rmtree(old, ignore_errors=True)


class Stages:
    """Does one part after the other, and says which of how many it is, and how long it took."""

    def __init__(self, n: int) -> None:
        self._n, self._done = n, 0

    def __call__(self, words: str, part: Callable[[], object]) -> None:
        """Do one part."""
        self._done += 1
        print(f"{self._done} of {self._n}  {words}", flush=True)
        start = time.perf_counter()
        part()
        print(f"        {words}: {time.perf_counter() - start:.1f} s", flush=True)


@contextlib.contextmanager
def at_the_same_time(work: Callable[[], object]) -> Iterator[Future]:
    """Does work that starts processes beside the block; where the block is interrupted, they end."""
    with ThreadPoolExecutor(1) as beside:
        try:
            yield beside.submit(work)
        except KeyboardInterrupt:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def main() -> None:
    """Builds the site, and says how long each part took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-pdfs", action="store_true", help="do not print the chapters")
    parser.add_argument(
        "--few",
        action="store_true",
        help=f"of each explorer, store {FEW} accounts: to look at the pages, not to publish them",
    )
    parser.add_argument("--only", metavar="PAGE", help="one page or chapter, to look at it: index, 02_mlp_memory")
    wished = parser.parse_args()
    if wished.only:
        print(f"The page is {build_one(wished.only).relative_to(ROOT)}.")
        return
    prints, most = not wished.no_pdfs and can_print(), FEW if wished.few else None
    scripts = folder_name()
    options = ("-D", f"has_pdfs={int(prints)}", "-D", f"explorer_scripts={scripts}")
    stage_of = Stages(7 + prints)
    stage_of("parts from npm", lambda: copy_parts(install_parts()))
    stage_of("a report", lambda: page_of_the_report(EXAMPLE / PAGE))
    stage_of("figures", refresh)
    stage_of("sources", stage)
    with at_the_same_time(lambda: store_all(most=most)) as accounts:  # which take longest
        stage_of("pages, and explorers beside", lambda: build_pages(*options))
        if prints:
            stage_of("PDFs", lambda: print_chapters(NEW, KEPT / "pdfs"))  # on paper explorers are tables
        stage_of("explorers, the rest", accounts.result)
    stage_of("all in its place", lambda: (copy_explorers(NEW / "_static" / scripts, most), put_in_place()))
    print(f"The site is {(HTML / 'index.html').relative_to(ROOT)}.")


if __name__ == "__main__":
    sys.exit(plainly(main, "build/site/html is as it was"))
