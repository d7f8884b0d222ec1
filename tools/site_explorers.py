"""Stores the explorers of the gallery for pages without a kernel: `python -m tools.site_explorers FOLDER`.

Writes explorers.js, which draws them, explorer.css, and for each a script with its spec and the accounts of its stored
settings, taken now on the simulated GPU, or from build/explorers if the book's code has not changed since. Instead of
accounts it may have what its program asks for at any setting, from book/sequences.
"""

import argparse
import gc
import hashlib
import multiprocessing
import shutil
import signal
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path

from tools.whole_files import write_whole

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "explorers"
CODE = tuple(ROOT / name for name in ("every_byte", "utils"))
PAGE = ROOT / "every_byte" / "widget" / "page"
QUIETLY = (signal.signal, (signal.SIGINT, signal.SIG_DFL))  # how a process of the pool begins: Ctrl-C ends it at once
FEW = 4  # accounts of each explorer that are enough to look at its page
MAY_BE_SAID = ("CUDA out of memory", "No available kernel", "PyTorch has no engine")


def digest_of(files: Iterable[Path], *words: str) -> str:
    """A digest of words, and of the names and contents of files below the repository, leaving out folders."""
    digest = hashlib.sha256("\n".join(words).encode())
    for path in sorted(path for path in files if path.is_file() and path.suffix != ".pyc"):
        digest.update(f"{path.relative_to(ROOT)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def fingerprint() -> str:
    """A digest of all code that an account depends on, of stored sequences, and of the versions that it runs with."""
    code = (path for folder in CODE for path in folder.rglob("*.py"))
    return digest_of([*code, *ROOT.glob("book/sequences/*.json")], version("torch"), sys.version)


def folder_name() -> str:
    """What pages call the folder of explorers: another for all other code, so that no browser keeps an old script."""
    return f"explorers-{digest_of(PAGE.glob('*.[jc]s*'), fingerprint())[:8]}"


def store(name: str, most: int | None = None, folder: Path | None = None) -> tuple[str, float, int]:
    """Takes the accounts of one explorer, all or so many, and writes its script: its name, seconds, how many accounts.

    Raises: whatever an account raises, unless it is what CUDA or PyTorch would say of the setting: a page may show it.
    """
    from every_byte.widget.gpus import for_a_page
    from every_byte.widget.pages import script_of
    from tools.sequences.stored import stored_sequences
    from utils.explorers.gallery import GALLERY

    start = time.perf_counter()
    with for_a_page():
        explorer = GALLERY[name].make()
    measure, unexpected = explorer.measure, []

    def noting(settings: dict):
        try:
            return measure(settings)
        except Exception as error:
            if not str(error).startswith(MAY_BE_SAID):
                unexpected.append(error)
            raise

    explorer.measure = noting
    gc.collect()
    gc.freeze()  # PyTorch's own objects: the collector need not look at them again and again
    sequences = stored_sequences(name)
    settings = [] if sequences else list(GALLERY[name].settings(explorer))[:most]
    script = script_of(name, explorer, settings, sequences)
    if unexpected:
        raise unexpected[0]
    write_whole((folder or KEPT) / f"{name}.js", script)
    return name, time.perf_counter() - start, len(settings)


def _names() -> list[str]:
    """Those of the gallery, which takes seconds to import; first those whose accounts take longest."""
    from utils.explorers.gallery import GALLERY

    return sorted(GALLERY, key=lambda name: not GALLERY[name].is_long)


def store_all(*, n_processes: int = 2, most: int | None = None) -> list[tuple[str, float, int]]:
    """The accounts of all explorers, or so many of each, in build/explorers, unless they are there; what it took."""
    stamp, now = KEPT / "fingerprint", fingerprint()
    this = now if most is None else f"{now} {most}"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") in (now, this):
        return []
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    # Spawned, not forked: this process may have imported torch, whose threads a fork would not have.
    with ProcessPoolExecutor(n_processes, multiprocessing.get_context("spawn"), *QUIETLY) as pool:
        started = [pool.submit(_names) for _ in range(n_processes)]  # each imports it, side by side
        names = started[0].result()
        done = []
        for found in as_completed([pool.submit(store, name, most) for name in names]):
            done.append(found.result())
            name, seconds, n_settings = done[-1]
            print(
                f"        {name}: {n_settings} accounts in {seconds:.1f} s, {len(done)} of {len(names)} explorers",
                flush=True,
            )
    write_whole(stamp, this)
    return done


def copy_explorers(folder: Path, most: int | None = None, names: Iterable[str] | None = None) -> None:
    """Takes the accounts that are missing, of all explorers or those named; writes to a folder what a page loads."""
    from every_byte.widget.scripts import one_script

    folder.mkdir(parents=True, exist_ok=True)
    if names is None:
        store_all(most=most)
        for path in KEPT.glob("*.js"):
            shutil.copy(path, folder)
    for name in names or ():
        store(name, most, folder)
    shutil.copy(PAGE / "explorer.css", folder)
    (folder / "explorers.js").write_text(one_script(), encoding="utf-8")


def main() -> None:
    """Stores what is missing and copies all of it to a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the pages are to find it")
    copy_explorers(parser.parse_args().folder)


if __name__ == "__main__":
    main()
