"""Writes the locks, with the hash of each file of each package: `make lock`, which brings uv.

    locks/lab.txt      what `make lab` installs, on any system, but for torch
    locks/torch.txt    torch as PyPI has it, and the CUDA libraries that its build for Linux brings
    locks/tools.txt    what `make lock` and `make audit` run, in an environment of their own

Versions of the first two are those of constraints.txt. pip refuses a file that has another hash than its lock says.
"""

import argparse
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "locks"
TOOLS = ("pip-audit", "uv")
COMPILE = "pip compile --universal --python-version 3.11 --generate-hashes --no-annotate --no-header --quiet".split()
OF_TORCH = re.compile(r"(torch|triton|cuda|nvidia)\b")
NO_SYSTEM_OF_OURS = "sys_platform == 'emscripten'"
HEADER = """# {what} Written by `make lock`; not to be edited.
# pip install --require-hashes -r locks/{name}.txt
"""


def blocks(text: str) -> list[str]:
    """The packages of a lock, each with its hashes."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return [one.strip() for one in re.split(r"\n(?=\S)", lines.strip()) if one.strip()]


def resolved(uv: Path, source: str, *options: str) -> list[str]:
    """What a source brings, by uv, at the versions of constraints.txt where it names them."""
    command = [str(uv), *COMPILE, *options, source]
    certificates = {"SSL_CERT_FILE": cert} if (cert := os.environ.get("PIP_CERT")) else {}
    given = "\n".join(TOOLS) if source == "-" else None
    run = subprocess.run(
        command, cwd=ROOT, input=given, env=certificates | os.environ, stdout=subprocess.PIPE, text=True, check=True
    )
    return [one for one in blocks(run.stdout) if NO_SYSTEM_OF_OURS not in one.splitlines()[0]]


def write(name: str, what: str, found: list[str]) -> None:
    """Writes a lock, and says how many packages and hashes are in it."""
    text = HEADER.format(what=what, name=name) + "\n" + "\n".join(found) + "\n"
    (LOCKS / f"{name}.txt").write_text(text, encoding="utf-8")
    print(f"locks/{name}.txt: {len(found)} packages, {text.count('--hash=')} hashes")


def main() -> None:
    """Writes all locks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("uv", type=Path, help="the program uv")
    uv = parser.parse_args().uv.absolute()
    lab = resolved(uv, "pyproject.toml", "--extra", "lab", "-c", "constraints.txt")
    write("lab", "What `make lab` installs, but for torch.", [one for one in lab if not OF_TORCH.match(one)])
    write("torch", "PyPI's torch, and what its CUDA build brings.", [one for one in lab if OF_TORCH.match(one)])
    write("tools", "What `make lock` and `make audit` run.", resolved(uv, "-"))


if __name__ == "__main__":
    main()
