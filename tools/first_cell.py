"""The cell on top of each chapter, which fetches the book where it is not, as on Colab; and what that cell calls.

python -m tools.first_cell                       write it into the chapters, with the address that CITATION.cff names
python -m tools.first_cell --address ADDRESS     the same, and write the address there first: a fork's is another

An address is one that `git clone` takes; behind a `#` may stand a branch or a tag: https://example.org/every-byte#v0.2.0.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CITATION = ROOT / "CITATION.cff"
CELL_ID = "fetch-the-book"
FIELD = re.compile(r'^repository-code: "(.*)"\n', re.MULTILINE)
TAGS = ["fetch", "remove-cell"]  # pages of the site leave it out; JupyterLab folds it
BESIDE = {"jupyterlab", "ipykernel"}  # of whatever shows the notebook
SOURCE = """\
# Only where the book is not, as on Colab: fetches it and installs what is missing.
from importlib.util import find_spec

if not (find_spec("every_byte") and find_spec("utils")):
    import os
    import subprocess
    import sys

    address, _, branch = os.environ.get("EVERY_BYTE_ADDRESS", "{address}").partition("#")
    folder = ".." if os.path.isfile("../tools/first_cell.py") else "every-byte"
    if not os.path.isdir(folder):
        if not address:
            raise RuntimeError("The book is not here, and its address is not known: %env EVERY_BYTE_ADDRESS=https://…")
        print("Fetching the book: a minute.")
        branch = ["--branch", branch] if branch else []
        subprocess.run(["git", "clone", "--quiet", "--depth=1", *branch, address, folder], check=True)
    sys.path.insert(0, os.path.abspath(folder))
    from tools.first_cell import install

    install()"""


def address_in(text: str) -> str:
    """The address that the text of CITATION.cff names; "" for none."""
    found = FIELD.search(text)
    return found[1] if found else ""


def with_address(text: str, address: str) -> str:
    """The text of CITATION.cff with that address, behind the version."""
    return re.sub(r"^(version: .*\n)", rf'\1repository-code: "{address}"\n', FIELD.sub("", text), flags=re.MULTILINE)


def put_into(notebook: dict, address: str) -> None:
    """Set the cell behind the opening, as if the notebook had been run with it."""
    cells = [cell for cell in notebook["cells"] if cell.get("id") != CELL_ID]
    source = SOURCE.format(address=address).splitlines(keepends=True)
    made = {"cell_type": "code", "execution_count": None, "id": CELL_ID, "outputs": [], "source": source}
    cells.insert(1, made | {"metadata": {"jupyter": {"source_hidden": True}, "tags": TAGS}})
    for count, cell in enumerate((cell for cell in cells if cell["cell_type"] == "code"), start=1):
        cell["execution_count"] = count
        for output in cell["outputs"]:
            if "execution_count" in output:
                output["execution_count"] = count
    notebook["cells"] = cells


def install() -> None:
    """Install what a chapter needs and this Python lacks, as constraints.txt has it.

    What is there stays as it is, torch above all, unless it is older than pyproject.toml asks for; ipywidgets even
    then, for what shows the notebook has the other half of it.
    """
    here = {_name(one.metadata["Name"]): one.version for one in metadata.distributions()}
    lacking = [line for line in needed() if _is_lacking(line, here.get(_name(line)))]
    here = here.keys() - set(map(_name, lacking))
    if lacking:
        print(f"Installing {', '.join(map(_name, lacking))}.", flush=True)
        pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines(keepends=True)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.writelines(line for line in pins if _name(line) not in here)
            file.flush()
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "-c", file.name, *lacking], check=True)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # of the processes that a chapter starts


def needed() -> list[str]:
    """What pyproject.toml says that a reader needs, but for what shows the notebook."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["figures"], *extras["widgets"], *extras["lab"]]
    return [line for line in lines if _name(line) not in BESIDE | {project["name"]}]


def _is_lacking(requirement: str, version: str | None) -> bool:
    if version is None or _name(requirement) == "ipywidgets":
        return version is None
    wanted, found = (list(map(int, re.findall(r"\d+", text))) for text in (requirement.partition(">=")[2], version))
    return found < wanted


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]*", requirement)[0]).lower()


def main() -> None:
    """Write the address, where one is given, and the cell into each chapter."""
    import nbformat  # which a reader's Python need not have

    from tools.whole_files import write_whole

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--address", help="the repository's, for CITATION.cff")
    wished = parser.parse_args().address
    text = CITATION.read_text(encoding="utf-8")
    if wished is not None:
        text = with_address(text, wished)
        write_whole(CITATION, text)
    for path in sorted((ROOT / "chapters").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        put_into(notebook, address_in(text))
        write_whole(path, nbformat.writes(nbformat.from_dict(notebook)).rstrip("\n") + "\n")
        print(f"{path.relative_to(ROOT)}: {address_in(text) or 'no address yet'}")


if __name__ == "__main__":
    main()
