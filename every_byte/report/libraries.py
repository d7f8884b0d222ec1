"""Which libraries for training a program has imported, their versions, and which versions recordings are of."""

import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from every_byte.gpu.evidence import recorded_libraries

KNOWN = (
    *("transformers", "trl", "peft", "accelerate", "bitsandbytes", "liger_kernel", "unsloth", "deepspeed", "torchao"),
    *("flash_attn", "xformers", "lightning", "pytorch_lightning", "torchtune", "torchtitan", "diffusers", "timm"),
)
_NAMED = {"liger_kernel": "liger-kernel", "flash_attn": "flash-attn", "pytorch_lightning": "pytorch-lightning"}


@dataclass(frozen=True)
class Library:
    """A library by its module: its version, and those versions of which there are recordings, if there are any."""

    name: str
    version: str
    recorded: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As a report names it, as `bitsandbytes 0.51.0 (recorded: 0.50.2)` where another version was recorded."""
        other = f" (recorded: {', '.join(self.recorded)})" if self.recorded and not self.is_recorded else ""
        return f"{self.name} {self.version}{other}"

    @property
    def is_recorded(self) -> bool:
        """Whether recordings are of this version."""
        return self.version in self.recorded


def imported() -> tuple[Library, ...]:
    """Those of `KNOWN` that are imported, in its order; one whose version nothing tells is left out."""
    found = []
    for name in KNOWN:
        if sys.modules.get(name) is not None and (said := _version_of(name)):
            found.append(Library(name, said, recorded_libraries().get(name, ())))
    return tuple(found)


def _version_of(name: str) -> str:
    try:
        return version(_NAMED.get(name, name))
    except PackageNotFoundError:
        said = getattr(sys.modules[name], "__version__", "")
        return said if isinstance(said, str) else ""


def sentence(libraries: tuple[Library, ...]) -> str:
    """With which libraries it ran, and which of them are of the version that was recorded: "" without any."""
    if not libraries:
        return ""
    *most, last = map(str, libraries)
    names = f"{', '.join(most)} and {last}" if most else last
    held = [each.name for each in libraries if each.is_recorded]
    of_it = f"; recordings are of this version of {' and '.join(held)}" if held else ""
    return f"It ran with {names}{of_it}."
