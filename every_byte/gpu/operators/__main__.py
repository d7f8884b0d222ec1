"""All that is known of an operator: `python -m every_byte.gpu.operators aten.huber_loss`.

For each overload: of what it is composed, whether it asks for values, how its results are made, what it takes from the
allocator, what autograd and autocast make of it, and the recording from the CUDA build that verifies it.

A program, which nothing imports: it may look up to dispatch, where values and autograd's own calls are dealt with.
"""

import inspect
import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch._ops import OpOverload

from every_byte.gpu.dispatch.engine import IN_FORMULAS
from every_byte.gpu.dispatch.values import ASK_VALUES
from every_byte.gpu.evidence import in_order, recorded

from . import families, registry  # noqa: F401  (families fill the registry)
from .autocast import policies
from .of_libraries import has_kernel_in_python

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "book" / "verified_operations.md"
_ROW = re.compile(r"^\| `(\S+)` \| (\S+) \|$", re.MULTILINE)
_LABEL_WIDTH = 12


def overloads_of(name: str) -> list[OpOverload]:
    """The overloads of an operator by its name: "aten.add", "aten::add", "add"; or the one that "add.Tensor" names.

    Raises: LookupError, whose sentence has names that are near, for an operator that PyTorch does not have.
    """
    for namespace in registry.LATE:
        registry.import_late(namespace)
    known = [full.replace("::", ".", 1) for full in torch._C._dispatch_get_all_op_names()]
    given = name.removeprefix("torch.ops.").replace("::", ".")
    if given.partition(".")[0] not in {full.partition(".")[0] for full in known}:
        given = f"aten.{given}"
    by_packet: dict[str, list[str]] = {}
    for full in sorted(known):
        namespace, packet, *rest = full.split(".")
        by_packet.setdefault(f"{namespace}.{packet}", []).append(rest[0] if rest else "default")
    packet, variant = ".".join(given.split(".")[:2]), ".".join(given.split(".")[2:])
    if packet not in by_packet:
        near = get_close_matches(packet, by_packet, n=4)
        way_out = f"near are {', '.join(near)}" if near else "try aten.mm"
        raise LookupError(f"operator must be one that PyTorch has: got {given}; {way_out}.")
    if variant and variant not in by_packet[packet]:
        raise LookupError(f"{packet} has the overloads {', '.join(by_packet[packet])}: got {variant}.")
    namespace, name = packet.split(".")
    operator = getattr(getattr(torch.ops, namespace), name)
    return [getattr(operator, each) for each in ([variant] if variant else by_packet[packet])]


def described(func: OpOverload) -> str:
    """What is known of an overload: its name, then a paragraph for each kind of knowledge."""
    parts = {
        "composed": _composition(func),
        "values": _function(ASK_VALUES[func]) if func in ASK_VALUES else None,
        "returns": _results(func),
        "takes": _memory(func),
        "backward": _in_place_form(func),
        "autocast": _autocast(func),
        "recorded": _recording(func),
        "held": _held(func),
    }
    lines = [str(func)]
    for label, text in parts.items():
        if text is not None:
            first, *rest = text.splitlines()
            lines.append(f"  {label:<{_LABEL_WIDTH - 2}}{first}")
            lines += [" " * _LABEL_WIDTH + line if line else "" for line in rest]
    return "\n".join(lines)


def _function(function: Callable[..., Any]) -> str:
    """Where a function stands, by what name, and what it says of itself; of PyTorch's own functions, the name alone."""
    function = getattr(function, "func", function)  # what a partial one calls
    code = getattr(function, "__code__", None)
    if code is None:
        return f"as PyTorch's {function.__name__} does"
    name = function.__qualname__.partition(".")[0]  # of a function within another, that of the outer one
    place = f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_firstlineno}, {name}"
    return "\n".join([place, inspect.getdoc(function) or ""]).rstrip()


def _composition(func: OpOverload) -> str | None:
    if func in registry.DECOMPOSED:
        return f"below autograd, of what CUDA's host code calls\n{_function(registry.DECOMPOSED[func])}"
    if func in registry.COMPOSITES:
        return f"above autograd, as on CUDA, in front of PyTorch's rule\n{_function(registry.COMPOSITES[func])}"
    by_rule = registry.is_composed(func) and not has_kernel_in_python(func)
    return "above autograd, by PyTorch's own rule" if by_rule else None


def _results(func: OpOverload) -> str:
    if func in registry.ON_META_ITSELF:
        return f"one kernel, as on CUDA, where PyTorch would compose it\n{_function(registry.RETURNS[func])}"
    if func in registry.RETURNS:
        return f"a kernel of this package\n{_function(registry.RETURNS[func])}"
    if has_kernel_in_python(func):
        return "what its library's own kernel for CUDA returns, which runs"
    if registry.is_composed(func):
        return "what its parts return"
    has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key(func.name(), "Meta")
    return "what PyTorch says on meta tensors" if has_kernel else "nothing: PyTorch has no kernel for meta tensors"


def _memory(func: OpOverload) -> str:
    if func in registry.ALLOCATES:
        return _function(registry.ALLOCATES[func])
    if has_kernel_in_python(func):
        return "what its library's own kernel for CUDA allocates"
    if registry.is_composed(func):
        return "what its parts take"
    if func in registry.ON_SPARSE:
        return f"of sparse tensors what its parts take\n{_function(registry.ON_SPARSE[func])}"
    if registry.allocates_outputs_alone(func):
        return "its outputs alone"
    return "not modelled: its outputs are counted, with a warning that its kernels may take more"


def _in_place_form(func: OpOverload) -> str | None:
    if func not in IN_FORMULAS:
        return None
    in_place, formulas = IN_FORMULAS[func]
    return f"{in_place} where a gradient formula calls it" + (f": {', '.join(formulas)}" if formulas else "")


def _autocast(func: OpOverload) -> str:
    policy = policies().get(func.name().removeprefix("aten::"))
    return policy.value if policy else "nothing is cast"


def _recording(func: OpOverload) -> str:
    """From the book's page of verified operations, which names one recording for each."""
    if not PAGE.exists():
        return "this copy of the package has no recordings; they are in the book's repository, tests/reference"
    recording = dict(_ROW.findall(PAGE.read_text(encoding="utf-8"))).get(func.name())
    if recording is None:
        return "its parts, each under its own name" if registry.is_composed(func) else "in no case"
    return f"{recording} ({PAGE.relative_to(ROOT)})"


def _held(func: OpOverload) -> str | None:
    """For each type that may matter, on which architectures recordings hold it, a line for each version."""
    lines = []
    for name, places in recorded().items():
        operator, _, kind = name.partition(" ")
        if operator == func.name():
            by_version: dict[str, list[str]] = {}
            for version, architecture in sorted(places, key=in_order):
                by_version.setdefault(version, []).append(architecture)
            lines += [f"{kind} by {version} on {', '.join(on)}".lstrip() for version, on in by_version.items()]
    return "\n".join(lines) or None


def main(arguments: list[str] | None = None) -> int:
    """Print what is known of the operator that is named. Returns the exit status: 2 for a name that is not known."""
    parser = ArgumentParser(prog="python -m every_byte.gpu.operators", description=__doc__.partition("\n")[0])
    parser.add_argument("operator", help="as PyTorch prints it: aten.huber_loss, aten::add.Tensor, mm")
    name = parser.parse_args(arguments).operator
    try:
        overloads = overloads_of(name)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n\n".join(map(described, overloads)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
