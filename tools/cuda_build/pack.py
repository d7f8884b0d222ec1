"""Packs what record.py wrote of a version of PyTorch into one file, without what is as with the book's version.

python tools/cuda_build/pack.py recordings/2.15.0          writes tests/reference/2.15.0/recordings.json.xz
python tools/cuda_build/pack.py --add recordings/2.15.0    keeps what it holds of cases that are not in the folder
python tools/cuda_build/pack.py --cards recordings/2.13.0  what record.py --on recorded: cards/CARD.json.xz
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from every_byte.gpu.cases.files import file_name, read  # noqa: E402
from every_byte.verify.recordings import BOOK, CARDS, PACKED, REFERENCE, Recordings, pack, unpacked  # noqa: E402
from every_byte.verify.verify import jobs  # noqa: E402
from tools.cuda_build.record import difference, frees_in_order  # noqa: E402

OLDEST_FIRST = ("a100", "h100", "t4", "rtx3090", "l40s", "rtx4090", "b200", "rtx5090")
"""The cards, of which each may be as one before it."""


def packed(folder: Path) -> tuple[dict[str, dict | None], list[str]]:
    """Each recording by its key, None for one that is as the book's version's; and the cases that were not recorded."""
    found, missing = {}, []
    for one in jobs([]):
        place = Path(one.folder) / file_name(one.name, one.card)
        if not (folder / place).is_file():
            missing.append(one.key)
            continue
        new, held = read(folder / place), REFERENCE / BOOK / place
        different = difference(new, read(held)) if held.is_file() else "new"
        found[one.key] = new if different and not different.startswith("torch is") else None
    return found, missing


def comparable(recording: dict) -> dict:
    """A recording without what says which card it is, and without labels, which are not recorded on every card."""
    kept = {key: value for key, value in recording.items() if key not in ("card", "device_name", "torch")}
    if "events" in kept:
        events = frees_in_order(kept["events"])
        kept["events"] = [[*event[:3], event[5]] if event[0] == "alloc" else event for event in events]
    return kept


def packed_card(card: str, folder: Path, held: Recordings) -> dict[str, dict | str]:
    """What a card did in each case that it has no file of: the recording, or the card that did the same."""
    found: dict[str, dict | str] = {}
    for one in jobs([], cards=[card]):
        place = Path(one.folder) / file_name(one.name, card)
        if not (folder / place).is_file() or (REFERENCE / BOOK / place).is_file():
            continue
        new = read(folder / place)
        others = (replace(one, card=other) for other in OLDEST_FIRST[: OLDEST_FIRST.index(card)])
        same = (other.card for other in others if other in held and comparable(held[other]) == comparable(new))
        found[one.key] = next(same, without_labels(new))
    return found


def without_labels(recording: dict) -> dict:
    """A recording whose allocations do not say which operator asked for them."""
    if "events" not in recording:
        return recording
    events = recording["events"]
    return recording | {"events": [[*e[:3], "", None, e[5]] if e[0] == "alloc" else e for e in events]}


def pack_cards(folder: Path) -> None:
    """Write the packed file of each card that has recordings in a folder, and say what it holds."""
    cards = {path.name.split(".")[-3] for path in folder.rglob("*.json.gz")}
    for card in sorted(cards, key=OLDEST_FIRST.index):
        place = REFERENCE / BOOK / CARDS / f"{card}.json.xz"
        kept = unpacked(place) if place.is_file() else {}
        found = packed_card(card, folder, Recordings(BOOK, REFERENCE))
        if found:
            pack(kept | found, place)
            own = sum(isinstance(one, dict) for one in (kept | found).values())
            print(f"{place}: {len(kept | found):,d} recordings, {own:,d} its own; {place.stat().st_size:,d} bytes")


def main() -> None:
    """Packs a folder, and says what it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what record.py --all --out wrote, named after the version")
    parser.add_argument("--add", action="store_true", help="keep what was packed before of other cases")
    parser.add_argument("--cards", action="store_true", help="pack what cards did that the cases do not name")
    options = parser.parse_args()
    folder = options.folder
    if options.cards:
        pack_cards(folder)
        return
    found, missing = packed(folder)
    place = REFERENCE / folder.name / PACKED
    if options.add:
        kept = {key: one for key, one in unpacked(place).items() if key in missing}
        found, missing = found | kept, [key for key in missing if key not in kept]
    pack(found, place)
    own = sum(one is not None for one in found.values())
    print(f"{place}: {len(found):,d} recordings, {own:,d} of them other than {BOOK}'s; {place.stat().st_size:,d} bytes")
    print(f"Not recorded, {len(missing)}: {', '.join(missing)}" * bool(missing))


if __name__ == "__main__":
    main()
