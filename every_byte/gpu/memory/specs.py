"""The GPUs that can be simulated by name, and how one is found: as people write it, by the rules of a version."""

import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches

from .card import GPUSpec
from .cards import IN_THE_BOOK, OTHERS
from .contexts import CONTEXT_BYTES, stated_context
from .versions import rules_followed, rules_of

__all__ = ["CONTEXT_BYTES", "EXPLORED", "SPECS", "GPUSpec", "by_version", "find_spec", "simulated_spec", "spec_here"]
__all__ += ["with_context", "with_rules_of"]

EXPLORED: dict[str, GPUSpec] = {spec.name: spec for spec in IN_THE_BOOK}
"""The GPUs that an explorer offers, each held by recordings of its own."""

SPECS: dict[str, GPUSpec] = EXPLORED | {spec.name: spec for spec in OTHERS}
"""The GPUs that can be simulated by name."""


def by_version(name: "str | GPUSpec", torch_version: str) -> GPUSpec:
    """A GPU by the rules of a version of PyTorch: "2.15".

    Raises: ValueError for a version that has none, and as `find_spec`.
    """
    return replace(name if isinstance(name, GPUSpec) else find_spec(name), rules=rules_of(torch_version))


def spec_here(name: "str | GPUSpec", torch_version: str = "") -> GPUSpec:
    """A GPU by the rules of that version, or of the one that `follow` named, else of the PyTorch that runs here.

    A spec keeps its own unless a version is named. Raises: as `by_version`.
    """
    if torch_version:
        return by_version(name, torch_version)
    return name if isinstance(name, GPUSpec) else replace(find_spec(name), rules=rules_followed())


def simulated_spec(name: str | GPUSpec, torch_version: str = "", context_bytes: int | str | None = None) -> GPUSpec:
    """A GPU by the rules of that version, by default the book's or a spec's own, and with that CUDA context.

    Raises: as `by_version` and `with_context`.
    """
    spec = by_version(name, torch_version) if torch_version else name if isinstance(name, GPUSpec) else find_spec(name)
    return with_context(spec, context_bytes)


def with_context(spec: GPUSpec, context_bytes: int | str | None) -> GPUSpec:
    """A GPU whose CUDA context has a known size, in bytes or such as "863MiB"; None for the one that is assumed.

    Raises: ValueError for what is no size, and for more than the GPU has.
    """
    if context_bytes is None:
        return spec
    return replace(spec, context_bytes=stated_context(context_bytes, spec.total_bytes), context_is_stated=True)


def with_rules_of(name: "str | GPUSpec", other: GPUSpec) -> GPUSpec:
    """A GPU by the rules that another one follows; a spec keeps its own. Raises: as `find_spec`."""
    return name if isinstance(name, GPUSpec) else replace(find_spec(name), rules=other.rules)


def find_spec(name: str) -> GPUSpec:
    """The spec of that name, by the rules of the version that the book follows.

    The name is one of `SPECS`, or what people call it, where only one is called so: "4090", "RTX 4090", "Tesla T4", as
    PyTorch names it, "NVIDIA GeForce RTX 4090".

    Raises: ValueError for a name that no GPU has, with the nearest one, and for one that several have, with each.
    """
    if name in SPECS:
        return SPECS[name]
    called = [spec for spec in SPECS.values() if _plain(str(name)) in _called(spec)]
    if len(called) == 1:
        return called[0]
    if called:
        *most, last = (spec.name for spec in called)
        raise ValueError(
            f"name must say which of several GPUs is meant: got {name!r}, known: {', '.join(most)} and {last}; "
            f"try {called[0].name!r}."
        )
    near = get_close_matches(str(name).lower(), SPECS, n=1, cutoff=0.3)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise ValueError(f"name must be a known GPU: got {name!r}, known: {', '.join(SPECS)}{hint}")


_AS_OF = {"gb10-128gb": "dgxspark", "rtx6000ada-48gb": "6000ada", "h100-80gb": "h100sxm", "a100-80gb": "a100sxm80gb"}
"""What else some are called."""


def _plain(name: str) -> str:
    """A name without what does not tell GPUs apart: capitals, the maker's and the families' names, spaces."""
    return re.sub("nvidia|geforce|tesla|[^a-z0-9]", "", name.lower())


def _called(spec: GPUSpec) -> Iterator[str]:
    """Whatever a GPU is called, plainly, with its size and without."""
    model, size = spec.name.rsplit("-", 1)
    for stem in (_plain(model), _plain(model).removeprefix("rtx"), _plain(spec.device_name)):
        yield from (stem, stem + size, stem + size.removesuffix("gb"), stem + size.removesuffix("b"))
    if model.partition("-")[0] != model:  # as h100-pcie, an h100
        yield model.partition("-")[0]
    if spec.name in _AS_OF:
        yield _AS_OF[spec.name]
