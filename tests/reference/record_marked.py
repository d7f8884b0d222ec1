"""Record what programs take at their marks, over the CUDA build of PyTorch: FAMILY.CARD.json.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_marked.py compiled a100 [PROGRAM...]

Each program runs in two processes of its own: with the compiler's caches empty ("cold"), then with what the first has
left in them ("warm").
"""

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "helpers"), str(HERE.parents[1])]

import marked  # noqa: E402
import torch  # noqa: E402

from every_byte.whole_files import write_whole  # noqa: E402


def run(family: str, subject: str, name: str, folder: str) -> dict[str, list[int]] | None:
    """None where the program fails, as one does that asks for a kernel that the card has not."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
    command = [sys.executable, "-W", "ignore", marked.__file__, family, subject, name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=os.environ | caches)
    lines = [line for line in done.stdout.splitlines() if line.startswith("recorded ")]
    return json.loads(lines[0].removeprefix("recorded ")) if lines else None


def main(family: str, card: str, *wanted: str) -> None:
    path = HERE / torch.__version__.partition("+")[0] / f"{family}.{card}.json"
    before = json.loads(path.read_text(encoding="utf-8"))["subjects"] if path.is_file() else {}
    subjects, kind = {}, marked.FAMILIES[family]
    libraries = {name: version(name) for name in kind.libraries}
    for subject in kind.subjects:
        subjects[subject] = {}
        for name in kind.programs(subject):
            if name not in wanted and name in before.get(subject, {}):
                subjects[subject][name] = before[subject][name]
            elif not wanted or name in wanted:
                with tempfile.TemporaryDirectory() as folder:
                    cold, warm = (run(family, subject, name, folder) for _ in range(2))
                subjects[subject][name] = {"warm": warm} | ({} if cold == warm else {"cold": cold})
                said = "fails" if warm is None else "the same cold" if cold == warm else "others cold"
                print(f"{card} {subject}.{name}: {said}", flush=True)
            write_text(path, libraries, subjects | {s: before[s] for s in before if s not in subjects})


def write_text(path: Path, libraries: dict[str, str], subjects: dict[str, dict[str, object]]) -> None:
    head = {"torch": torch.__version__, "device_name": torch.cuda.get_device_name(), "libraries": libraries}
    parts = []
    for subject, programs in subjects.items():
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in programs.items())
        parts.append(f"{json.dumps(subject)}: {{\n{lines}\n}}")
    write_whole(path, json.dumps(head)[:-1] + ', "subjects": {\n' + ",\n".join(parts) + "\n}}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
