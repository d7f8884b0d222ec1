"""Regions to checkpoint, found by repetition: modules of one class that repeat among a container's children."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from .remedy import Left, Offer, Remedy, S, by_lines
from .runs import Ran

HEAD = "from functools import partial\n\nfrom torch.utils.checkpoint import checkpoint\n\n"
CHECKPOINT = "partial(checkpoint, region.forward, use_reentrant=False)"
NO_CACHE = "model.config.use_cache = False"
COUNTED_TWICE = "running statistics of batch norm are updated once more in backward"
_FEWEST_FOR_HALF = 4


@dataclass(frozen=True)
class Repeated:
    """A container's children that are of one class: `path` of the container, "" for the model, and their names."""

    path: str
    class_name: str
    names: tuple[str, ...]
    are_all: bool

    @property
    def code(self) -> str:
        """An expression for them: `model.layers`."""
        container = attribute("model", self.path)
        if self.are_all:
            return container
        return f'[m for m in {container}.children() if type(m).__name__ == "{self.class_name}"]'


def repeated_in(model: nn.Module) -> list[Repeated]:
    """The outermost containers with two modules or more of one class, each of which has modules of its own.

    A module without any computes one thing, of which it keeps the input in any case. A plain Sequential is a class only
    where no others repeat.
    """
    found: list[Repeated] = []
    for is_class in (lambda module: not isinstance(module, _CONTAINERS), lambda module: True):
        if not found:
            _look(model, "", is_class, found)
    return found


def repeated_within(model: nn.Module, repeated: list[Repeated]) -> list[Repeated]:
    """What repeats inside of these, as blocks do in stages; empty unless those are more regions than these."""
    found: list[Repeated] = []
    for one in repeated:
        for name in one.names:
            path = f"{one.path}.{name}".lstrip(".")
            _look(model.get_submodule(path), path, lambda module: not isinstance(module, _CONTAINERS), found)
    return found if n_regions(found) > n_regions(repeated) else []


_CONTAINERS = nn.ModuleList, nn.Sequential, nn.ModuleDict
_IsClass = Callable[[nn.Module], bool]


def _look(module: nn.Module, path: str, is_class: _IsClass, found: list[Repeated]) -> None:
    children = dict(module.named_children())
    if isinstance(module, nn.ModuleList | nn.Sequential) and (repeated := _repeated(path, children, is_class)):
        found.append(repeated)
        return
    for name, child in children.items():
        _look(child, f"{path}.{name}".lstrip("."), is_class, found)


def _repeated(path: str, children: dict[str, nn.Module], is_class: _IsClass) -> Repeated | None:
    able = [type(child) for child in children.values() if any(True for _ in child.children()) and is_class(child)]
    if not able or Counter(able).most_common(1)[0][1] < 2:
        return None
    chosen = Counter(able).most_common(1)[0][0]
    names = tuple(name for name, child in children.items() if type(child) is chosen)
    return Repeated(path, chosen.__name__, names, len(names) == len(children))


def n_regions(repeated: list[Repeated]) -> int:
    """How many there are in all containers."""
    return sum(len(one.names) for one in repeated)


def attribute(of: str, path: str) -> str:
    """A module as code: `model.encoder.layers[0].mlp`."""
    for name in filter(None, path.split(".")):
        of += f"[{name}]" if name.isdigit() else f".{name}"
    return of


def all_of(repeated: list[Repeated]) -> str:
    """An expression for the regions of all containers."""
    if len(repeated) == 1:
        return repeated[0].code
    if len(repeated) > 2 and (comprehension := _by_number(repeated)):
        return comprehension
    return "[" + ", ".join(f"*{one.code}" for one in repeated) + "]"


def _by_number(repeated: list[Repeated]) -> str:
    """`[m for part in model.stages for m in part.blocks]`, for whole containers alike in paths but for one number."""
    parts = [one.path.split(".") for one in repeated]
    lengths = {len(path) for path in parts}
    differ = [i for i, names in enumerate(zip(*parts)) if len(set(names)) > 1] if len(lengths) == 1 else []
    if len(differ) != 1 or not all(one.are_all for one in repeated):
        return ""
    (at,) = differ
    numbers = [path[at] for path in parts]
    if numbers != [str(i) for i in range(len(numbers))]:
        return ""
    outer, inner = attribute("model", ".".join(parts[0][:at])), attribute("part", ".".join(parts[0][at + 1 :]))
    return f"[m for part in {outer}[:{len(numbers)}] for m in {inner}]"


def uses_cache(model: nn.Module) -> bool:
    """Whether a Hugging Face model hands a cache to its layers, which a second forward would fill a second time."""
    return bool(getattr(getattr(model, "config", None), "use_cache", False))


def enabling(model: nn.Module) -> str:
    """The name of the method by which a Hugging Face model checkpoints its layers; "" if it has none."""
    if not getattr(model, "supports_gradient_checkpointing", False):
        return ""
    names = "activation_checkpointing_enable", "gradient_checkpointing_enable"
    return next((name for name in names if hasattr(model, name)), "")


@dataclass(frozen=True)
class Way:
    """A way to checkpoint a model's regions: its name, the lines to write, and what they cost besides FLOPs."""

    name: str
    lines: str
    note: str


def checkpoints(model: nn.Module) -> list[Offer]:
    """Each region through a checkpoint, and every second one; by the model's own method, if it has one."""
    return [way if isinstance(way, Left) else _remedy(way) for way in ways_to_checkpoint(model)]


def _remedy(way: Way) -> Remedy:
    return Remedy(way.name, "regions", by_lines(way.lines), note=way.note)


def ways_to_checkpoint(model: nn.Module) -> list[Way | Left]:
    """The ways that there are, and those that there might have been, with the reason."""
    repeated = repeated_in(model)
    ways: list[Way | Left] = []
    if name := enabling(model):
        ways.append(Way(f"checkpoint, {name}", f"model.{name}()", _note(model)))
    if not repeated:
        return ways or [Left("checkpoint", "no modules of one class, with modules of their own, repeat")]
    n, chosen = n_regions(repeated), all_of(repeated)
    ways.append(_wrapped(f"checkpoint, {n} regions", chosen, model))
    if within := repeated_within(model, repeated):
        ways.append(_wrapped(f"checkpoint, {n_regions(within)} regions within the {n}", all_of(within), model))
    if n < _FEWEST_FOR_HALF:
        return [*ways, Left("checkpoint, every second region", f"there are {n} regions")]
    return [*ways, _wrapped("checkpoint, every second region", f"list({chosen})[::2]", model)]


def apart_from_double(runs: list[Ran[S]]) -> tuple[list[Ran[S]], list[Left]]:
    """Without the checkpoints by hand that gave the same bytes and FLOPs as the model's own method, one line."""
    own = next((ran for ran in runs if ran.name.endswith("checkpointing_enable")), None)
    double = [ran for ran in runs if own and ran.name.endswith(" regions") and _figures(ran) == _figures(own)]
    reason = f"run, and the same bytes and FLOPs as {own.name}, in {{}} statements" if own else ""
    left = [Left(f"{ran.name} by hand", reason.format(ran.n_statements)) for ran in double]
    return [ran for ran in runs if ran not in double], left


def _figures(ran: Ran[S]) -> tuple[int, int, int]:
    return ran.peak_bytes, ran.needed_bytes, ran.flops


def _wrapped(name: str, regions: str, model: nn.Module) -> Way:
    lines = f"{HEAD}{NO_CACHE}\n" if uses_cache(model) else HEAD
    lines += f"for region in {regions}:\n    region.forward = {CHECKPOINT}"
    return Way(name, lines, _note(model))


def _note(model: nn.Module) -> str:
    return COUNTED_TWICE if any(isinstance(module, _BatchNorm) for module in model.modules()) else ""
