"""By hand, on a machine with a GPU: moves each explorer on it in JupyterLab, and says where figures differ.

    python tests/browser/on_the_machine.py                     all, on this machine's GPU
    python tests/browser/on_the_machine.py mlp gpt             some of them
    python tests/browser/on_the_machine.py --kernel path/to/python    with another interpreter for the kernel

Each explorer is switched to the machine's own GPU, with the simulation of that card beside it, moved 20 times by keys
and mouse, and driven out of memory three times (phases, whose ranges do not reach so far, on a share of the card).
After each move every term's predicted, simulated and measured bytes are compared; at the end the kernel is asked what
is still allocated. Pictures go to build/measured. Over the CUDA build of PyTorch without a GPU the kernel's interpreter
is the one that has the stub libraries; what it finds is then recorded, not measured.
"""

import argparse
import json
import random
import shlex
import sys
import tempfile
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from explorer_page import ExplorerPage  # noqa: E402
from lab import lab_server, run_notebook  # noqa: E402

from every_byte.widget.explorer import to_page  # noqa: E402
from tools.chromium import chromium  # noqa: E402
from utils.explorers.gallery import GALLERY  # noqa: E402

NAMES = [name for name, shown in GALLERY.items() if shown.large]
OUT = ROOT / "build" / "measured"
MOVES, SEED = 20, 1
FIGURES = """(root) => [...root.querySelectorAll("tr[data-term]")].map(({ dataset: row }) =>
  [`${row.stage ?? ""} ${row.term}`, row.predicted ?? null, row.beside ?? null, row.accounted ?? null])"""


SENTENCES = (
    "exclude each other",
    "must be from 1 to L",
    "out of memory",
    "No available kernel",
    "PyTorch has no engine for ZeRO's stage 2",
)
"""What an explorer may say instead of figures."""
SHARE_BYTES = {"phases": 256 << 20}
"""What the process may take of the card, for an explorer whose ranges never fill one."""
LIMIT = """import torch

total_bytes = torch.cuda.mem_get_info()[1]
torch.cuda.set_per_process_memory_fraction({n_bytes} / total_bytes)"""
STILL_THERE = """import gc

import torch

gc.collect()
print("allocated:", torch.cuda.memory_allocated(), "recording:", torch._C._cuda_isHistoryEnabled())"""


def main() -> int:
    """Returns 1 if a measured figure differs from the simulated one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="explorers; default: all")
    parser.add_argument("--kernel", default=sys.executable, help="the command of the kernel's Python")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    n_off = sum(try_explorer(name, shlex.split(arguments.kernel)) for name in arguments.names or NAMES)
    print(f"{n_off} figures differ")
    return int(n_off > 0)


def try_explorer(name: str, python: list[str]) -> int:
    """Move one explorer, print what was found, and return how many figures differ."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "book"
        folder.mkdir()
        write_kernel(Path(scratch) / "jupyter" / "data" / "kernels" / "machine", python)
        write_notebook(folder / "one.ipynb", name)
        window = {"viewport": {"width": 1280, "height": 1000}}
        with lab_server(folder, Path(scratch) / "jupyter") as (address, token), chromium(**window) as page:
            run_notebook(page, address, token, "one.ipynb")
            return Trial(name, page).run()


def write_kernel(folder: Path, python: list[str]) -> None:
    folder.mkdir(parents=True)
    python = [str(Path(python[0]).absolute()) if Path(python[0]).exists() else python[0], *python[1:]]
    command = [*python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": command, "display_name": "The machine", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")


def write_notebook(path: Path, name: str) -> None:
    limit = [LIMIT.format(n_bytes=SHARE_BYTES[name])] if name in SHARE_BYTES else []
    cells = [*limit, f"from utils.explorers.gallery import explorer\n\nview = explorer({name!r})\nview", "0"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata.kernelspec = {"name": "machine", "display_name": "The machine", "language": "python"}
    nbformat.write(notebook, path)


class Trial:
    """One explorer in JupyterLab, and what was found of it."""

    def __init__(self, name: str, page) -> None:
        self.name, self.explorer, self.random = name, ExplorerPage(page), random.Random(SEED)
        self.n_terms = self.n_unpredicted = self.n_failed = 0
        self.off: list[str] = []

    def run(self) -> int:
        self.begin()
        settings = [self.explorer.value]
        while len(settings) <= MOVES:
            self.move()
            if self.compare():
                settings.append(self.explorer.value)
            else:  # a setting that gives a sentence instead of figures is left again
                self.explorer.set(settings[-1])
                self.settle()
        self.picture("moved")
        start = settings[0]
        for numbers in GALLERY[self.name].large:
            self.type_in(numbers)
            self.settle()
            assert self.explorer.state == "failed", self.explorer.status
            assert "out of memory" in self.explorer.status, self.explorer.status
            self.picture("out-of-memory")
            self.type_in({symbol: start[symbol] for symbol in numbers})
            self.settle()
            assert self.explorer.state == "ready", self.explorer.status
            self.compare()
        self.ask_the_kernel()
        self.say(len({json.dumps(one, sort_keys=True) for one in settings}))
        return len(self.off)

    def begin(self) -> None:
        root = self.explorer.root
        self.explorer.settle(120)
        small = GALLERY[self.name].small
        for symbol, item in to_page(dict(small), GALLERY[self.name].make()).items():
            self.explorer.set(self.explorer.value | {symbol: item})
        select = root.locator('[data-symbol="gpu"]')
        assert not select.locator("option").last.is_disabled(), "this machine's GPU cannot be chosen"
        select.focus()
        select.press("End")
        self.settle()
        root.locator('[data-symbol="beside"]').press("Space")
        self.settle()
        assert self.compare(), "there is nothing to compare at the start"
        self.picture("begun")

    def settle(self) -> None:
        self.explorer.settle(300)

    def type_in(self, numbers: dict) -> None:
        for symbol, number in numbers.items():
            field = self.explorer.root.locator(f'[data-exact="{symbol}"]')
            field.fill(str(number))
            field.press("Enter")

    def move(self) -> None:
        """One control, by a key or by the mouse, as a reader would."""
        stays = {"gpu", "beside"} | GALLERY[self.name].slow
        symbols = [symbol for symbol in self.explorer.value if symbol not in stays]
        before = self.explorer.value
        while self.explorer.value == before:
            control = self.explorer.control(self.random.choice(symbols))
            if not control.first.is_disabled():
                self.act(control)
        self.settle()

    def act(self, control) -> None:
        kind, by_key = control.first.evaluate("node => node.type"), self.random.random() < 0.5
        if kind == "radio":
            chosen = control.nth(self.random.randrange(control.count()))
            chosen.press("Space") if by_key else chosen.click()
        elif kind == "checkbox":
            control.press("Space") if by_key else control.click()
        elif kind == "range" and not by_key:
            box = control.bounding_box()
            control.click(position={"x": box["width"] * self.random.uniform(0.1, 0.6), "y": box["height"] / 2})
        else:
            control.focus()
            control.press(self.random.choice(("ArrowLeft", "ArrowRight", "ArrowDown", "ArrowUp")))

    def compare(self) -> bool:
        """Whether there were figures to compare."""
        if self.explorer.state == "failed":
            self.n_failed += 1
            said = self.explorer.status
            print(f"  {self.explorer.value}: {said}")
            if not any(sentence in said for sentence in SENTENCES):
                self.off.append(said)
            return False
        for term, predicted, simulated, measured in self.explorer.root.evaluate(FIGURES):
            self.n_terms += 1
            self.n_unpredicted += predicted is None
            if measured != simulated or predicted not in (None, measured):
                found = f"predicted {predicted}, simulated {simulated}, measured {measured}"
                self.off.append(f"{self.explorer.value}, {term.strip()}: {found}")
        return True

    def ask_the_kernel(self) -> None:
        """The kernel answers, and nothing of what was measured is still on the card."""
        page = self.explorer.page
        cell = page.locator(".jp-CodeCell").last
        cell.locator(".cm-content").click()
        page.keyboard.press("ControlOrMeta+A")
        page.keyboard.insert_text(STILL_THERE)
        page.keyboard.press("Control+Enter")
        answer = cell.locator(".jp-OutputArea-output").get_by_text("allocated:")
        answer.wait_for()
        said = answer.inner_text().strip()
        print(f"  the kernel, at the end: {said}")
        if said != "allocated: 0 recording: False":
            self.off.append(said)

    def picture(self, what: str) -> None:
        self.explorer.root.screenshot(path=OUT / f"{self.name}-{what}.png")

    def say(self, n_settings: int) -> None:
        badge = self.explorer.root.locator(".eb-badge").inner_text()
        print(f"{self.name}: {badge}: {n_settings} settings, {self.n_terms} terms compared, {len(self.off)} differ, ")
        print(f"  {self.n_unpredicted} without a prediction; {self.n_failed} settings gave a sentence instead")
        print("".join(f"  DIFFER: {one}\n" for one in self.off), end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
