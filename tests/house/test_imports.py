"""Imports run one way, from units to exercises, without a cycle, and importing a package brings and changes little."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from places import ROOT

# A file may import from its own folder and from those above it. The packages' own __init__ and __main__ come last.
ORDER = """
    every_byte
    every_byte.formula
    every_byte.ledger
    every_byte.gpu.memory.contexts
    every_byte.gpu.memory.rules
    every_byte.gpu.memory.card
    every_byte.gpu.protocol
    every_byte.ledger.readings
    every_byte.ledger.ledger
    every_byte.gpu.memory
    every_byte.gpu.known
    every_byte.gpu.operators.of_libraries
    every_byte.gpu.operators.registry
    every_byte.gpu.operators.launch
    every_byte.gpu.operators.creation
    every_byte.gpu.operators.attention
    every_byte.gpu.operators
    every_byte.gpu.dispatch
    every_byte.gpu.observer
    every_byte.gpu.patches
    every_byte.gpu.compiling
    every_byte.gpu.cuda
    every_byte.gpu.live
    every_byte.gpu.cases
    every_byte.gpu
    every_byte.stand_ins.flash_attn
    every_byte.measure
    every_byte.verify
    every_byte.figures
    every_byte.widget
    every_byte.remedies
    every_byte.report
    every_byte.report.render
    every_byte.report.report
    every_byte.step
    every_byte.closed_form
    every_byte.advice
    every_byte.trials
    every_byte.account
    every_byte.snapshots
    every_byte.cli
    every_byte.plugin
    every_byte.magics
    utils
    utils.models
    utils.formulas
    utils.experiments
    utils.figures
    utils.explorers
    utils.exercises
""".split()
# What a folder may import of others' packages, besides the standard library; elsewhere that is torch alone.
PACKAGES = {
    "every_byte.formula": {"sympy"},
    "every_byte.advice": {"torch", "typing_extensions"},
    "every_byte.figures": {"torch", "numpy", "matplotlib", "IPython"},
    "every_byte.gpu.compiling": {"torch", "triton"},
    "every_byte.gpu.cuda": {"torch", "triton"},
    "every_byte.magics": {"torch", "IPython"},
    "every_byte.plugin": {"torch", "pytest"},
    "every_byte.widget": {"torch", "anywidget", "ipywidgets", "traitlets", "IPython"},
    "utils.formulas": set(),
    "utils.figures": {"torch", "matplotlib"},
}
LAZY = {"sympy", "numpy", "triton"}
"""Importable inside a function only: the first two come with torch, and sympy alone takes half a second."""
PLAIN = ("every_byte.units", "every_byte.rounding", "every_byte.palette", "every_byte.gpu.memory.allocator")  # no torch


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for top in ("every_byte", "utils") for path in sorted((ROOT / top).rglob("*.py"))}


def imports(source: str, module: str, is_package: bool, known: set[str]) -> list[tuple[str, bool]]:
    """What `source` imports, wherever the statement stands, for types too: (module, whether not at once)."""
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for_types = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    lazy = {inner for outer in (*functions, *for_types) for inner in ast.walk(outer)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, node in lazy) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = module.split(".")
            base = base[: len(base) - node.level + is_package] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{origin}.{alias.name}" for alias in node.names]
            found += [(name if name in known else origin, node in lazy) for name in names]
    return list(dict.fromkeys(found))


def imports_of(module: str) -> list[tuple[str, bool]]:
    path = MODULES[module]
    return imports(path.read_text(encoding="utf-8"), module, path.name == "__init__.py", set(MODULES))


def is_last(module: str) -> bool:
    """Whether a module stands behind all folders of its package: it has its public names, or `python -m` runs it."""
    return module in ("every_byte", "every_byte.account", "utils") or module.endswith("__main__")


def floor_of(module: str) -> int:
    """The number in ORDER of the folder (or of the file) that holds a module."""
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next(ORDER.index(name) for name in names if name in ORDER)


def backward(module: str, imported: str) -> str | None:
    """Why `module` may not import `imported`, another module of the book; None if it may."""
    if module.startswith("every_byte") and imported.startswith("utils"):
        return f"{module} imports {imported}; the instrument knows nothing of the book"
    if imported == "utils" or imported == "every_byte" and not module.startswith("utils"):
        return f"{module} imports the whole of {imported}; name the module it needs"
    if is_last(module) or imported == "every_byte":
        return None
    if floor_of(imported) > floor_of(module):
        return f"{module} imports {imported}, whose folder comes later in ORDER"
    return None


def packages_for(module: str) -> set[str]:
    if module in PLAIN:
        return set()
    parts = module.split(".")
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((PACKAGES[prefix] for prefix in prefixes if prefix in PACKAGES), {"torch", "sympy", "numpy"})


def foreign(module: str, imported: str, lazy: bool) -> str | None:
    """Why `module` may not import `imported`, a package of others; None if it may."""
    package = imported.split(".")[0]
    if package in sys.stdlib_module_names:
        return None
    if package not in packages_for(module):
        return f"{module} imports {package}; it may import {sorted(packages_for(module))}"
    if package in LAZY and not lazy and not module.startswith("every_byte.figures"):
        return f"{module} imports {package} at its top; import it inside the function that needs it"
    return None


def is_ours(name: str) -> bool:
    return name.split(".")[0] in ("every_byte", "utils")


def test_there_are_modules():
    assert {"every_byte", "every_byte.units", "utils", "utils.models.gpt"} <= set(MODULES)
    folders = {module_name(path / "__init__.py") for path in {path.parent for path in MODULES.values()}}
    assert folders <= set(ORDER) | {"every_byte.gpu.operators"}, "say in ORDER where the folder belongs"


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_of_the_book_run_one_way(module):
    reasons = [backward(module, imported) for imported, _ in imports_of(module) if is_ours(imported)]
    assert not [reason for reason in reasons if reason]


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("module", sorted(MODULES))
def test_the_core_needs_torch_and_the_standard_library_only(module):
    reasons = [foreign(module, imported, lazy) for imported, lazy in imports_of(module) if not is_ours(imported)]
    assert not [reason for reason in reasons if reason]


@pytest.mark.long
def test_no_cycles():
    graph = {module: {name for name, _ in imports_of(module) if is_ours(name)} for module in MODULES}
    for module, needs in graph.items():  # importing from another package runs its __init__ too, which the top ones' are
        packages = {name.rpartition(".")[0] for name in needs} - {"", "every_byte", "utils"}
        needs |= {package for package in packages if not f"{module}.".startswith(f"{package}.")}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.long
def test_no_import_hides_in_a_string():
    """But in the registry of operators, which imports a family when PyTorch has registered its operators."""
    for module in sorted(set(MODULES) - {"every_byte.gpu.operators.registry"}):
        for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and "import" in ast.unparse(node.func)
            texts = [x.value for x in ast.walk(node) if isinstance(x, ast.Constant)] if is_call else []
            names = [x.id for x in ast.walk(node) if isinstance(x, ast.Name)] if is_call else []
            assert "__package__" not in names, f"{module}: {ast.unparse(node)}"
            assert not any(str(text).startswith((".", "every_byte", "utils")) for text in texts), ast.unparse(node)


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("every_byte.ledger.trace", "def f():\n    from every_byte.gpu.device import open_gpu", "comes later in ORDER"),
        (
            "every_byte.ledger.trace",
            "if TYPE_CHECKING:\n    from every_byte.gpu.device import GPU",
            "comes later in ORDER",
        ),
        (
            "every_byte.gpu.dispatch.dispatch",
            "from ..device import current_gpu",
            "imports every_byte.gpu.device, whose",
        ),
        ("every_byte.gpu.dispatch.dispatch", "from .. import device", "imports every_byte.gpu.device, whose folder"),
        ("every_byte.gpu.memory.specs", "from every_byte.gpu.operators.registry import Call", "comes later in ORDER"),
        ("every_byte.gpu.operators.launch.cub", "from ..copies import to_gpu", "comes later in ORDER"),
        ("every_byte.gpu.device", "from utils.models.gpt import GPT", "the instrument knows nothing of the book"),
        ("every_byte.gpu.device", "import utils", "the instrument knows nothing of the book"),
        ("utils.models.gpt", "from utils import Block", "imports the whole of utils"),
        ("every_byte.gpu.device", "from every_byte import open_gpu", "imports the whole of every_byte"),
        ("every_byte.gpu.memory.allocator", "import torch", "imports torch; it may import []"),
        ("every_byte.formula.formula", "import sympy", "imports sympy at its top"),
        ("utils.formulas.mlp", "def f():\n    import torch", "imports torch; it may import []"),
        ("utils.contexts", "from matplotlib import pyplot", "imports matplotlib"),
    ],
)
def test_the_rules_themselves(module, source, complaint):
    known = set(MODULES) | {"every_byte.gpu.device", "utils.models.gpt"}
    found = imports(source, module, False, known)
    reasons = [backward(module, name) if is_ours(name) else foreign(module, name, lazy) for name, lazy in found]
    assert len(reasons) == 1
    assert complaint in str(reasons[0])


def test_the_rules_let_pass():
    source = "import math, torch\nfrom every_byte.units import exact"
    found = imports(source, "every_byte.ledger.trace", False, set(MODULES))
    assert [name for name, _ in found] == ["math", "torch", "every_byte.units"]
    assert not [name for name, lazy in found if not is_ours(name) and foreign("every_byte.ledger.trace", name, lazy)]
    assert backward("every_byte.ledger.trace", "every_byte.units") is None
    assert backward("utils.contexts", "every_byte") is None


def test_a_file_is_short():
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert {module: length for module, length in lengths.items() if length > 300} == {}


FOOTPRINT = """
import sys, torch
from torch.utils._foreach_utils import _get_foreach_kernels_supported_devices as foreach_devices

def state():
    keys = "Meta", "AutogradMeta", "AutocastCUDA", "Python"
    registered = {key: sorted(torch._C._dispatch_get_registrations_for_dispatch_key(key)) for key in keys}
    modes = torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()
    return registered, modes, list(foreach_devices()), torch.is_autocast_enabled("cuda"), torch.get_default_dtype()

before, loaded = state(), set(sys.modules)
import {package}
changed = [name for name, one, other in zip(("kernels", "modes", "foreach", "autocast", "dtype"), before, state())
           if one != other]
heavy = {"sympy", "numpy", "matplotlib", "ipywidgets", "anywidget", "IPython", "torch._dynamo"}
print(changed, sorted(heavy & (set(sys.modules) - loaded)))
"""


@pytest.mark.long
@pytest.mark.parametrize("package", ["every_byte", "utils"])
def test_importing_attaches_nothing_and_brings_nothing_heavy(package):
    source = FOOTPRINT.replace("{package}", package)
    run = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[] []", f"what `import {package}` changed, and what it loaded"


@pytest.mark.long
def test_what_not_everyone_needs_is_imported_when_it_is_asked_for():
    later = ["argparse", "decimal", "fractions", "html", *(f"every_byte.{name}" for name in ("formula", "account"))]
    source = f"""
import sys, torch
before = set(sys.modules)
import every_byte
print(set({later}) & (set(sys.modules) - before), every_byte.Ledger.__name__)
"""
    run = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.stdout.strip() == "set() Ledger", run.stderr


@pytest.mark.long
def test_the_instrument_and_its_reports_need_no_figures_and_no_widgets():
    reports = ("ledger.groups", "gpu.record", "gpu.side_by_side", "gpu.ranks", "report.report", "report.render.page")
    source = "".join(f"import every_byte.{name}\n" for name in reports)
    source += "import sys; print({'matplotlib', 'ipywidgets', 'anywidget', 'IPython'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.stdout.strip() == "set()", run.stderr


@pytest.mark.nightly
def test_accounts_import_where_transformers_is_not_installed():
    """No file names it in an import: see above. Nor does any load it where it is."""
    modules = [
        name
        for name in sorted(MODULES)
        if name.startswith(("every_byte.account", "every_byte.report", "every_byte.step"))
    ]
    source = f"""
import importlib, sys
sys.modules["transformers"] = None  # whoever imports it fails
for name in {modules}:
    importlib.import_module(name)
from every_byte.account import hugging_face
try:
    hugging_face("GPT2LMHeadModel")
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.stdout.strip() == ("hugging_face needs transformers, which is not there: pip install transformers."), (
        run.stderr
    )


@pytest.mark.nightly
def test_every_program_finds_what_it_imports():
    """Benchmarks, tools and recorders, each as if it were run: no test runs all of them."""
    folders = ("benchmarks", "tools", "tests/reference")
    programs = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    programs = [path for path in programs if "__main__" in path.read_text(encoding="utf-8")]
    assert len(programs) > 15
    code = (
        "import os, runpy, sys\nfor path in sys.argv[1:]:\n"
        "    sys.path.insert(0, os.path.dirname(path))  # as Python does for the program that it runs\n"
        "    runpy.run_path(path, run_name='imported')\n    del sys.path[0]"
    )
    run = subprocess.run([sys.executable, "-c", code, *programs], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
