"""Lays out public programs for `every-byte run`, each in a folder of its own: unmodified source and synthetic data.

    python tools/programs/prepare.py --list                                     the list, as a table
    python tools/programs/prepare.py nanogpt gat --sources clones --into there  two of them
    python tools/programs/prepare.py --all --sources clones --into there --gpt2 vocabulary

`clones` holds the repositories: `clones/karpathy/nanoGPT`, say, is a clone of https://github.com/karpathy/nanoGPT, or
its git directory alone (`clones/karpathy+nanoGPT` will do as well). `vocabulary` holds GPT-2's vocab.bpe and
encoder.json, which tiktoken would download. Run it with a Python that has the packages in the list; nothing is
downloaded.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import further_data
import program_data
import wider_data
from further import FURTHER
from programs import OURS, PROGRAMS, Program
from wider import WIDER

HERE = Path(__file__).resolve().parent
ALL = PROGRAMS | WIDER | FURTHER
DATA = (program_data, wider_data, further_data)
COLUMNS = ("program", "what it tries", "source", "command", "ranks", "packages", "its path depends on values")


def git_directory(sources: Path, repository: str) -> Path:
    """The git directory of a repository below `sources`.

    Raises: FileNotFoundError if there is none, with the command that makes one.
    """
    for name in (repository, repository.replace("/", "+")):
        for inner in (".git", "repo/.git", "repo", ""):
            folder = sources / name / inner
            if (folder / "HEAD").is_file():
                return folder
    place = sources / repository
    raise FileNotFoundError(f"--sources must hold {repository}: git clone https://github.com/{repository} {place}")


def export(git: Path, commit: str, keep: str, into: Path) -> list[str]:
    """Writes the files of a commit below the folder `keep`; returns those of which this copy has no content."""
    command = ["git", "--git-dir", str(git)]
    tree = subprocess.run([*command, "ls-tree", "-r", "-z", f"{commit}:{keep}"], capture_output=True, check=True).stdout
    missing = []
    with subprocess.Popen([*command, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        for line in filter(None, tree.decode().split("\0")):
            (mode, kind, number), path = line.split("\t")[0].split(), line.split("\t")[1]
            if kind != "blob" or mode == "120000":
                continue
            reader.stdin.write(f"{number}\n".encode())
            reader.stdin.flush()
            answer = reader.stdout.readline().split()
            if answer[1] == b"missing":
                missing.append(path)
                continue
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            (into / path).write_bytes(reader.stdout.read(int(answer[2]) + 1)[:-1])
        reader.stdin.close()
    return missing


def lay_out(program: Program, into: Path, sources: Path | None, gpt2: Path | None) -> str:
    """Makes the folder of one program anew; returns a line that says what it holds."""
    root = into / program.name
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    repository, commit = program.source
    missing = []
    if repository == OURS:
        shutil.copy(HERE / "scripts" / program.script, root)
    else:
        if sources is None:
            raise FileNotFoundError(f"{program.name} needs --sources, a folder that holds {repository}.")
        missing = export(git_directory(sources, repository), commit, program.keep, root)
    folder = root / program.folder
    if "gpt2_vocabulary" in program.data:
        if gpt2 is None:
            raise FileNotFoundError(f"{program.name} needs --gpt2, a folder with vocab.bpe and encoder.json.")
        shutil.copytree(gpt2, folder / "gpt2", ignore=lambda _, names: set(names) - set(program_data.GPT2_FILES))
    for name in program.data:
        next(getattr(module, name) for module in DATA if hasattr(module, name))(folder)
    return f"{program.name}: {repository} {commit[:12]}, made {', '.join(program.data) or 'no data'}; absent {missing}"


def table() -> str:
    """The list of programs in Markdown."""
    rows = []
    for program in PROGRAMS.values():
        repository, commit = program.source
        url = f"https://github.com/{repository}/tree/{commit}/{program.keep}".rstrip("/")
        source = "`tools/programs/scripts`" if repository == OURS else f"[{repository}@{commit[:7]}]({url})"
        command = f"`{program.script} {program.arguments}`".replace(" `", "`")
        where = f" in `{program.folder}`" if program.folder != "." else ""
        settings = "".join(f"<br>`{key}={value}`" for key, value in program.environment.items())
        cells = (program.name, program.tries, source, command + where + settings, program.ranks or "", program.packages)
        rows.append("| " + " | ".join(map(str, (*cells, program.values or "no"))) + " |")
    return "\n".join(["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|", *rows])


def main(arguments: list[str] | None = None) -> int:
    """Runs the program; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--into", type=Path, default=Path("programs"))
    parser.add_argument("--sources", type=Path)
    parser.add_argument("--gpt2", type=Path)
    asked = parser.parse_args(arguments)
    if asked.list:
        print(table())
        return 0
    names = list(PROGRAMS) if asked.all else asked.names
    unknown = [name for name in names if name not in ALL]
    if unknown or not names:
        parser.error(f"NAME must be one of {', '.join(ALL)}; got {', '.join(unknown) or 'none'}.")
    os.environ["HF_HUB_OFFLINE"] = "1"
    failed = 0
    for name in names:
        try:
            print(lay_out(ALL[name], asked.into, asked.sources, asked.gpt2), flush=True)
        except (OSError, subprocess.CalledProcessError) as error:
            failed += 1
            print(f"{name}: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
