"""Learns what the programs of explorers ask for, and stores it: `python -m tools.learn_sequences NAME …`."""

import argparse
import json
from pathlib import Path

from every_byte.widget.gpus import for_a_page
from tools.sequences.stored import learn, of_page, path_of
from tools.whole_files import write_whole
from utils.explorers.gallery import GALLERY


def main() -> None:
    """Writes book/sequences/NAME.json of each."""
    known = [name for name, shown in GALLERY.items() if shown.requests]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}")
    for name in parser.parse_args().names or known:
        store(name)


def store(name: str) -> Path:
    """The sequences of one explorer, learned now. Raises: ValueError for one without `requests`."""
    shown = GALLERY[name]
    if shown.requests is None:
        raise ValueError(f"an explorer must tell what its program requests: {name!r} does not.")
    with for_a_page():
        explorer = shown.make()
    learned = learn(explorer, shown.requests, shown.features, shown.learned_at)
    path = path_of(name)
    write_whole(path, json.dumps(of_page(learned), ensure_ascii=False, separators=(",", ":")) + "\n")
    found = set(learned.branches.values())
    unknown = sum(branch.sequence is None for of in found for branch in of)
    print(f"{path.name}: {len(learned.branches)} combinations of choices, {len(found)} programs, {unknown} gaps")
    return path


if __name__ == "__main__":
    main()
