"""Puts a function in the place of one of PyTorch's, and that one back."""

from functools import partial, wraps


def replaced(owner, name: str, make):
    """Put `make(original)` in the place of `owner.name`; returns what puts the original back."""
    original, inherited = getattr(owner, name), name not in vars(owner)
    made = make(original)
    setattr(owner, name, wraps(original)(made) if callable(made) else made)
    return partial(delattr, owner, name) if inherited else partial(setattr, owner, name, original)


def all_of(undoings: list):
    """What undoes several things, the last one first."""

    def undo() -> None:
        for one in reversed(undoings):
            one()

    return undo
