"""Record what programs that know "cuda" alone are told, and take, over the CUDA build of PyTorch: as_cuda.a100.json.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_as_cuda.py

The programs are the functions of the files in as_cuda, each file in a process of its own; tests/helpers/as_cuda.py says
what is kept of each. Nothing of it depends on values.
"""

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "helpers"), str(HERE.parents[1])]

import as_cuda  # noqa: E402
import torch  # noqa: E402

from every_byte.whole_files import write_whole  # noqa: E402


def record(subject: str) -> None:
    """Print what the programs of a subject are told and take, a line of JSON each."""
    as_cuda.warm_up()
    for name, program in as_cuda.programs(subject).items():
        print("recorded " + json.dumps([name, as_cuda.ran(program)]), flush=True)


def main() -> None:
    head = {"torch": torch.__version__, "device_name": torch.cuda.get_device_name()}
    parts = []
    for subject in as_cuda.subjects():
        command = [sys.executable, "-W", "ignore", __file__, subject]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        rows = [json.loads(line.removeprefix("recorded ")) for line in said if line.startswith("recorded ")]
        print(f"{subject}: {len(rows)} programs")
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in rows)
        parts.append(f"{json.dumps(subject)}: {{\n{lines}\n}}")
    text = json.dumps(head)[:-1] + ', "subjects": {\n' + ",\n".join(parts) + "\n}}\n"
    write_whole(as_cuda.FILE, text)


if __name__ == "__main__":
    record(sys.argv[1]) if len(sys.argv) > 1 else main()
