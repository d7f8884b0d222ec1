"""Packs what record.py wrote of a version of PyTorch into one file, without what is as with the book's version.

python tools/cuda_build/pack.py recordings/2.15.0          writes tests/reference/2.15.0/recordings.json.xz
python tools/cuda_build/pack.py --add recordings/2.15.0    keeps what it holds of cases that are not in the folder
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from every_byte.gpu.cases.files import file_name, read  # noqa: E402
from every_byte.verify.recordings import BOOK, PACKED, REFERENCE, pack, unpacked  # noqa: E402
from every_byte.verify.verify import jobs  # noqa: E402
from tools.cuda_build.record import difference  # noqa: E402


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


def main() -> None:
    """Packs a folder, and says what it holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what record.py --all --out wrote, named after the version")
    parser.add_argument("--add", action="store_true", help="keep what was packed before of other cases")
    options = parser.parse_args()
    folder = options.folder
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
