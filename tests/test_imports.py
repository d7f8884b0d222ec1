"""Imports run one way, from units to chapters, and `import utils` brings and changes little."""

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
UTILS = ROOT / "utils"

ALLOCATOR = ["utils.simulated.allocator", "utils.simulated.allocator_blocks", "utils.simulated.allocator_stats"]
# A module may import those of its own line and of the lines above it. A package stands for what is inside it.
LAYERS = [
    ["utils.units", "utils.simulated.specs", *ALLOCATOR],
    ["utils.trace", "utils.trace_formats", "utils.events", "utils.owners", "utils.frames"],
    ["utils.simulated"],
    ["utils.live_blocks", "utils.live_history", "utils.backward_order", "utils.translation"],
    ["utils.machine", "utils.failures"],
    ["utils.live_memory", "utils.live_owners", "utils.live_trace", "utils.live_exchanges", "utils.live_recording"],
    ["utils.live_gpu"],
    ["utils.device"],
    ["utils.parallel"],
    ["utils.data_parallel"],
    [
        "utils.contexts",
        "utils.capacity",
        "utils.ledger",
        "utils.ledger_levels",
        "utils.ledger_rows",
        "utils.ledger_tables",
        "utils.readings",
        "utils.training",
        "utils.record",
        "utils.experiments",
        "utils.start_experiments",
        "utils.block_experiments",
        "utils.gpt_experiments",
        "utils.activation_runs",
        "utils.gpt_runs",
        "utils.stacking",
    ],
    ["utils.activation_survey"],
    ["utils.side_by_side"],
    ["utils.operations"],
    ["utils.policies", "utils.compiled", "utils.tensor_parallel"],
    ["utils.optimal_policy"],
    ["utils.block_stack", "utils.speed_memory", "utils.region_runs", "utils.checkpoint_experiments"],
    ["utils.recompute_experiments", "utils.rank_experiments"],
    ["utils.live_ranks"],
    ["utils.mesh_steps"],
    ["utils.figures", "utils.graph_figure", "utils.memory_map", "utils.curve_figure", "utils.viewer_figures"],
    ["utils.speed_memory_figure", "utils.recompute_figures"],
    ["utils.exercises"],
    ["utils.explorers"],
    ["utils.activation_curves", "utils.gpt_view"],
    [
        "utils.phases_explorer",
        "utils.mlp_explorer",
        "utils.block_explorer",
        "utils.gpt_explorer",
        "utils.checkpoint_explorer",
        "utils.ranks_explorer",
    ],
    ["utils.gallery"],
]
# These stand beside the layers: what they may import of the book is all said here, and any module may import them.
FORMULAS = [
    "utils.formulas",
    "utils.mlp_formulas",
    "utils.phase_formulas",
    "utils.block_formulas",
    "utils.gpt_formulas",
    "utils.gpt_settings",
    "utils.region_formulas",
    "utils.parallel_formulas",
    "utils.gpt_held",
    "utils.data_parallel_formulas",
    "utils.mesh_held",
    "utils.expressions",
    "utils.notation",
    "utils.comparison",
]
BESIDE = {
    "utils.layers": [],
    "utils.gpt": ["utils.layers"],
    "utils.activations": [],
    "utils.derivatives": [],
    "utils.checkpointing": [],
    "utils.same_gradients": [],
    "utils.regions": ["utils.checkpointing", "utils.gpt", "utils.layers"],
    "utils.module_paths": [],
    "utils.history": [],
    "utils.letting_go": [],
    "utils.deep_graphs": [],
    "utils.saved_tensors": ["utils.comparison", "utils.deep_graphs"],
    "utils.palette": [],
    "utils.recordings": [],
    **{name: ["utils.units", *FORMULAS] for name in FORMULAS},
}
# What a module may import of others' packages, besides the standard library. The default is that of the core: torch.
PACKAGES = {
    "utils.units": set(),
    "utils.palette": set(),
    "utils.recordings": set(),
    "utils.history": set(),
    "utils.letting_go": set(),
    **{name: set() for name in ALLOCATOR},
    **{name: {"sympy"} for name in FORMULAS},
    "utils.figures": {"torch", "numpy", "matplotlib", "IPython"},
    "utils.graph_figure": {"torch", "matplotlib"},
    "utils.memory_map": {"torch", "matplotlib"},
    "utils.viewer_figures": {"matplotlib"},
    "utils.speed_memory_figure": {"matplotlib"},
    "utils.recompute_figures": {"matplotlib"},
    "utils.curve_figure": {"torch", "matplotlib"},
    "utils.derivatives": set(),
    "utils.explorers": {"torch", "anywidget", "ipywidgets", "traitlets", "IPython"},
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
    if package in LAZY and not lazy and not module.startswith("utils.figures"):
        return f"{module} imports {package} at its top; import it inside the function that needs it"
    return None


def is_ours(name: str) -> bool:
    return name.split(".")[0] == "utils"


def test_there_are_modules():
    assert {"utils", "utils.units"} <= set(MODULES)


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
        ("utils.trace", "def f():\n    from .device import open_gpu", "imports utils.device, which comes later"),
        ("utils.simulated.dispatch", "from ..device import current_gpu", "imports utils.device, which comes later"),
        ("utils.simulated.dispatch", "from .. import device", "imports utils.device, which comes later"),
        ("utils.simulated.specs", "from utils.trace import Trace", "imports utils.trace, which comes later"),
        ("utils.layers", "import utils.units", "it may import []"),
        ("utils.device", "from utils import open_gpu", "imports the whole of utils"),
        ("utils.device", "from utils.magic import wand", "say in LAYERS where utils.magic belongs"),
        ("utils.simulated.allocator", "import torch", "imports torch; it may import []"),
        ("utils.formulas", "import sympy", "imports sympy at its top"),
        ("utils.formulas", "def f():\n    import torch", "imports torch; it may import ['sympy']"),
        ("utils.contexts", "from matplotlib import pyplot", "imports matplotlib"),
    ],
)
def test_the_rules_themselves(module, source, complaint):
    known = set(MODULES) | {"utils.device", "utils.trace", "utils.units", "utils.magic"}
    found = imports(source, module, False, known)
    reasons = [backward(module, name) if is_ours(name) else foreign(module, name, lazy) for name, lazy in found]
    assert len(reasons) == 1
    assert complaint in str(reasons[0])


def test_the_rules_let_pass():
    source = "import math, torch\nfrom .simulated.specs import A100\nif TYPE_CHECKING:\n    from .device import X"
    found = imports(source, "utils.trace", False, set(MODULES))
    assert [name for name, _ in found] == ["math", "torch", "utils.simulated.specs"]
    assert not [name for name, lazy in found if not is_ours(name) and foreign("utils.trace", name, lazy)]
    assert backward("utils.trace", "utils.simulated.specs") is None


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
