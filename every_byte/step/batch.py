"""A batch in letters: tensors whose sizes are written in them, made on the host as a data loader makes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from every_byte.formula.expressions import Expression
from every_byte.gpu.known.pages import unwritten


@dataclass(frozen=True)
class Sized:
    """A tensor of these sizes, each a whole number or an expression in letters: `tokens("b", "s", below=50257)`.

    With `below` it has whole numbers from 0 up to there, drawn anew from the same seed; else it has numbers of a normal
    distribution, or, not `is_filled`, zeros that take no memory.

    Raises: ValueError for a size that is no expression, and for `below` that is none.
    """

    sizes: tuple[str | int, ...]
    dtype: torch.dtype
    below: str | int | None = None
    is_filled: bool = True

    def __post_init__(self) -> None:
        for size in (*self.sizes, *([] if self.below is None else [self.below])):
            Expression(size)

    @property
    def letters(self) -> set[str]:
        """The letters in its sizes."""
        written = (*self.sizes, *([] if self.below is None else [self.below]))
        return {letter for size in written for letter in Expression(size).letters}

    def made(self, letters: Mapping[str, int]) -> torch.Tensor:
        """One for these values of the letters, in the host's memory.

        Raises: ValueError for a letter without a value, or a size that is no whole number.
        """
        shape = [_value(size, letters) for size in self.sizes]
        drawn = torch.Generator().manual_seed(0)
        if self.below is None and not self.is_filled:
            return unwritten(shape, self.dtype)
        if self.below is None:
            return torch.randn(shape, dtype=self.dtype, generator=drawn)
        return torch.randint(_value(self.below, letters), shape, dtype=self.dtype, generator=drawn)


def tokens(*sizes: str | int, below: str | int) -> Sized:
    """Token numbers, int64, from 0 and below a vocabulary's size; sizes are numbers or letters.

    Example: tokens("b", "s", below=50257)
    """
    return Sized(sizes, torch.int64, below)


def numbers(*sizes: str | int, dtype: torch.dtype = torch.float32) -> Sized:
    """Floating-point numbers, as images; sizes are numbers or letters.

    Example: numbers("b", 3, 224, 224)
    """
    return Sized(sizes, dtype)


def made(batch: Any, letters: Mapping[str, int]) -> Any:
    """A batch of `Sized` and tensors, in dicts, lists and tuples; what a function of the letters returns is one too."""
    if isinstance(batch, Sized):
        return batch.made(letters)
    return _each(batch, lambda part: made(part, letters))


def moved(batch: Any, device: torch.device | str) -> Any:
    """The same, with each tensor on a device."""
    return batch.to(device) if isinstance(batch, torch.Tensor) else _each(batch, lambda part: moved(part, device))


def cast(batch: Any, dtype: torch.dtype) -> Any:
    """The same, made or not, with its floating-point numbers in another type."""
    if isinstance(batch, Sized):
        return replace(batch, dtype=dtype) if batch.below is None else batch
    if isinstance(batch, torch.Tensor):
        return batch.to(dtype) if batch.is_floating_point() else batch
    return _each(batch, lambda part: cast(part, dtype))


def unfilled(batch: Any) -> Any:
    """The same, with zeros for its floating-point numbers, for which the host needs no room, however many there are."""
    return replace(batch, is_filled=False) if isinstance(batch, Sized) else _each(batch, unfilled)


def letters_of(batch: Any) -> set[str]:
    """The letters in all of its sizes."""
    if isinstance(batch, Sized):
        return batch.letters
    found: set[str] = set()
    _each(batch, lambda part: found.update(letters_of(part)))
    return found


def _each(batch: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(batch, Mapping):
        return {name: change(part) for name, part in batch.items()}
    if isinstance(batch, list | tuple):
        parts = [change(part) for part in batch]
        return (
            type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
        )  # a namedtuple takes them one by one
    return batch


def _value(size: str | int, letters: Mapping[str, int]) -> int:
    written = Expression(size)
    if missing := [letter for letter in written.letters if letter not in letters]:
        raise ValueError(
            f"every letter must have a value: {missing[0]} of {size!r} has none; try account(…, {missing[0]}=8)."
        )
    return written.value(dict(letters))
