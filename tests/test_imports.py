"""Imports run one way, from units to chapters, and `import utils` brings and changes little."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
UTILS = ROOT / "utils"

ALLOCATOR = ["every_byte.gpu.memory.allocator", "every_byte.gpu.memory.blocks", "every_byte.gpu.memory.stats"]
# A module may import those of its own line and of the lines above it. A package stands for what is inside it.
LAYERS = [
    ["every_byte.units", "every_byte.gpu.memory.specs", *ALLOCATOR],
    [
        "every_byte.ledger.trace",
        "every_byte.ledger.formats",
        "every_byte.ledger.events",
        "every_byte.ledger.attribution",
        "every_byte.ledger.frames",
    ],
    ["every_byte.gpu"],
    [
        "every_byte.gpu.live.blocks",
        "every_byte.gpu.live.history",
        "every_byte.gpu.live.backward_order",
        "every_byte.gpu.live.translation",
    ],
    ["every_byte.gpu.live.machine", "every_byte.failures"],
    [
        "every_byte.gpu.live.memory",
        "every_byte.gpu.live.owners",
        "every_byte.gpu.live.trace",
        "every_byte.gpu.live.exchanges",
        "every_byte.gpu.live.recording",
    ],
    ["every_byte.gpu.live.gpu"],
    ["every_byte.gpu.device"],
    ["every_byte.gpu.ranks"],
    ["utils.models.data_parallel"],
    [
        "utils.contexts",
        "every_byte.gpu.capacity",
        "every_byte.ledger.ledger",
        "every_byte.ledger.levels",
        "every_byte.ledger.rows",
        "every_byte.ledger.groups",
        "every_byte.ledger.readings",
        "utils.experiments.training",
        "every_byte.gpu.record",
        "utils.experiments.first_programs",
        "utils.experiments.start_experiments",
        "utils.experiments.blocks",
        "utils.experiments.gpt_step",
        "utils.experiments.activation_runs",
        "utils.experiments.gpt_article",
        "every_byte.figures.stacking",
    ],
    ["utils.experiments.activations"],
    ["every_byte.gpu.side_by_side"],
    ["utils.models.operations"],
    ["utils.models.policies", "utils.models.compiled", "utils.models.tensor_parallel"],
    ["utils.models.optimal_policy"],
    [
        "utils.experiments.block_stack",
        "utils.experiments.speed_memory",
        "utils.experiments.checkpointed_runs",
        "utils.experiments.checkpointed_step",
    ],
    ["utils.experiments.recomputation", "utils.experiments.rank_steps"],
    ["utils.experiments.live_ranks"],
    ["utils.experiments.mesh_step"],
    [
        "every_byte.figures.bars",
        "every_byte.figures.graph",
        "every_byte.figures.memory_map",
        "utils.figures.curves",
        "every_byte.figures.viewer",
    ],
    ["utils.figures.speed_memory", "utils.figures.recompute_figures"],
    ["utils.exercises"],
    ["every_byte.widget"],
    ["utils.explorers.activation_curves", "utils.explorers.gpt_controls"],
    [
        "utils.explorers.phases",
        "utils.explorers.mlp",
        "utils.explorers.block",
        "utils.explorers.gpt",
        "utils.explorers.checkpoint",
        "utils.explorers.ranks",
    ],
    ["utils.explorers.gallery"],
]
# These stand beside the layers: what they may import of the book is all said here, and any module may import them.
FORMULAS = [
    "every_byte.formula.formula",
    "utils.formulas.mlp",
    "utils.formulas.phases",
    "utils.formulas.block",
    "utils.formulas.estimates",
    "utils.formulas.settings",
    "utils.formulas.regions",
    "utils.formulas.tensor_parallel",
    "utils.formulas.gpt",
    "utils.formulas.data_parallel",
    "utils.formulas.mesh",
    "every_byte.formula.expressions",
    "every_byte.formula.notation",
    "every_byte.tables",
]
BESIDE = {
    "utils.layers": [],
    "utils.models.gpt": ["utils.layers"],
    "utils.models.activations": [],
    "utils.experiments.derivatives": [],
    "utils.models.checkpointing": [],
    "utils.experiments.same_gradients": [],
    "utils.models.regions": ["utils.models.checkpointing", "utils.models.gpt", "utils.layers"],
    "every_byte.ledger.module_paths": [],
    "every_byte.gpu.history": [],
    "utils.letting_go": [],
    "every_byte.ledger.deep_graphs": [],
    "every_byte.ledger.saved_tensors": ["every_byte.tables", "every_byte.ledger.deep_graphs"],
    "every_byte.palette": [],
    "utils.recordings": [],
    **{name: ["every_byte.units", *FORMULAS] for name in FORMULAS},
}
# What a module may import of others' packages, besides the standard library. The default is that of the core: torch.
PACKAGES = {
    "every_byte.units": set(),
    "every_byte.palette": set(),
    "utils.recordings": set(),
    "every_byte.gpu.history": set(),
    "utils.letting_go": set(),
    **{name: set() for name in ALLOCATOR},
    **{name: {"sympy"} for name in FORMULAS},
    "every_byte.figures.bars": {"torch", "numpy", "matplotlib", "IPython"},
    "every_byte.figures.graph": {"torch", "matplotlib"},
    "every_byte.figures.memory_map": {"torch", "matplotlib"},
    "every_byte.figures.viewer": {"matplotlib"},
    "utils.figures.speed_memory": {"matplotlib"},
    "utils.figures.recompute_figures": {"matplotlib"},
    "utils.figures.curves": {"torch", "matplotlib"},
    "utils.experiments.derivatives": set(),
    "every_byte.widget": {"torch", "anywidget", "ipywidgets", "traitlets", "IPython"},
}
LAZY = {"sympy", "numpy"}  # importable inside a function only: sympy alone takes half a second


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(UTILS.rglob("*.py"))}


def type_checking_only(tree: ast.Module) -> set[ast.AST]:
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    return {inner for block in blocks for statement in block.body for inner in ast.walk(statement)}


def imports(source: str, module: str, is_package: bool, known: set[str]) -> list[tuple[str, bool]]:
    """What `source` imports, wherever the statement stands: (module, whether inside a function)."""
    tree = ast.parse(source)
    ignored = type_checking_only(tree)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    lazy = {inner for function in functions for inner in ast.walk(function)}
    found = []
    for node in ast.walk(tree):
        if node in ignored:
            continue
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


def line_of(module: str) -> int | None:
    """The number of the line in LAYERS that speaks of `module`, by its longest name there."""
    lines = {name: number for number, names in enumerate(LAYERS) for name in names}
    parts = module.split(".")
    prefixes = [".".join(parts[:length]) for length in range(len(parts), 1, -1)]
    return next((lines[prefix] for prefix in prefixes if prefix in lines), None)


def backward(module: str, imported: str) -> str | None:
    """Why `module` may not import `imported`, another module of the book; None if it may."""
    if imported == "utils":
        return f"{module} imports the whole of utils; name the module it needs"
    if module in BESIDE:
        return None if imported in BESIDE[module] else f"{module} imports {imported}; it may import {BESIDE[module]}"
    if imported in BESIDE:
        return None
    here, there = line_of(module), line_of(imported)
    if here is None or there is None:
        return f"{module} imports {imported}: say in LAYERS where {module if here is None else imported} belongs"
    return f"{module} imports {imported}, which comes later in LAYERS" if there > here else None


def packages_for(module: str) -> set[str]:
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
    if package in LAZY and not lazy and not module.startswith("every_byte.figures.bars"):
        return f"{module} imports {package} at its top; import it inside the function that needs it"
    return None


def is_ours(name: str) -> bool:
    return name.split(".")[0] == "utils"


def test_there_are_modules():
    assert {"utils", "every_byte.units"} <= set(MODULES)


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"utils"}))
def test_imports_of_the_book_run_one_way(module):
    assert module in BESIDE or line_of(module) is not None, f"say in LAYERS or BESIDE where {module} belongs"
    reasons = [backward(module, imported) for imported, _ in imports_of(module) if is_ours(imported)]
    assert not [reason for reason in reasons if reason]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_the_core_needs_torch_and_the_standard_library_only(module):
    reasons = [foreign(module, imported, lazy) for imported, lazy in imports_of(module) if not is_ours(imported)]
    assert not [reason for reason in reasons if reason]


def test_no_cycles():
    graph = {module: {name for name, _ in imports_of(module) if is_ours(name)} for module in MODULES}
    for module, needs in graph.items():  # importing from another package runs its __init__ too; that of utils needs all
        packages = {name.rpartition(".")[0] for name in needs} - {"", "utils"}
        needs |= {package for package in packages if not f"{module}.".startswith(f"{package}.")}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        (
            "every_byte.ledger.trace",
            "def f():\n    from .device import open_gpu",
            "imports every_byte.gpu.device, which comes later",
        ),
        (
            "every_byte.gpu.dispatch.dispatch",
            "from ..device import current_gpu",
            "imports every_byte.gpu.device, which comes later",
        ),
        (
            "every_byte.gpu.dispatch.dispatch",
            "from .. import device",
            "imports every_byte.gpu.device, which comes later",
        ),
        (
            "every_byte.gpu.memory.specs",
            "from every_byte.ledger.trace import Trace",
            "imports every_byte.ledger.trace, which comes later",
        ),
        ("utils.layers", "import every_byte.units", "it may import []"),
        ("every_byte.gpu.device", "from utils import open_gpu", "imports the whole of utils"),
        ("every_byte.gpu.device", "from utils.magic import wand", "say in LAYERS where utils.magic belongs"),
        ("every_byte.gpu.memory.allocator", "import torch", "imports torch; it may import []"),
        ("every_byte.formula.formula", "import sympy", "imports sympy at its top"),
        ("every_byte.formula.formula", "def f():\n    import torch", "imports torch; it may import ['sympy']"),
        ("utils.contexts", "from matplotlib import pyplot", "imports matplotlib"),
    ],
)
def test_the_rules_themselves(module, source, complaint):
    known = set(MODULES) | {"every_byte.gpu.device", "every_byte.ledger.trace", "every_byte.units", "utils.magic"}
    found = imports(source, module, False, known)
    reasons = [backward(module, name) if is_ours(name) else foreign(module, name, lazy) for name, lazy in found]
    assert len(reasons) == 1
    assert complaint in str(reasons[0])


def test_the_rules_let_pass():
    source = "import math, torch\nfrom .simulated.specs import A100\nif TYPE_CHECKING:\n    from .device import X"
    found = imports(source, "every_byte.ledger.trace", False, set(MODULES))
    assert [name for name, _ in found] == ["math", "torch", "every_byte.gpu.memory.specs"]
    assert not [name for name, lazy in found if not is_ours(name) and foreign("every_byte.ledger.trace", name, lazy)]
    assert backward("every_byte.ledger.trace", "every_byte.gpu.memory.specs") is None


FOOTPRINT = """
import sys, torch
from torch.utils._foreach_utils import _get_foreach_kernels_supported_devices as foreach_devices

def state():
    keys = "Meta", "AutogradMeta", "AutocastCUDA", "Python"
    registered = {key: sorted(torch._C._dispatch_get_registrations_for_dispatch_key(key)) for key in keys}
    modes = torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()
    return registered, modes, list(foreach_devices()), torch.is_autocast_enabled("cuda"), torch.get_default_dtype()

before, loaded = state(), set(sys.modules)
import utils
changed = [name for name, one, other in zip(("kernels", "modes", "foreach", "autocast", "dtype"), before, state())
           if one != other]
heavy = {"sympy", "numpy", "matplotlib", "ipywidgets", "anywidget", "IPython", "torch._dynamo"}
print(changed, sorted(heavy & (set(sys.modules) - loaded)))
"""


def test_importing_utils_attaches_nothing_and_brings_nothing_heavy():
    run = subprocess.run([sys.executable, "-c", FOOTPRINT], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[] []", "what `import utils` changed, and what it loaded"
