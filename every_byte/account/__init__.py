"""The account of a reader's model: a step of its training, its report, its formula and its advice.

`from every_byte.account import account, hugging_face, numbers, tokens` has what accounts for a model, `read_snapshot`
what tells of a snapshot of a real GPU.
"""

from typing import Any

__all__ = ["account", "hugging_face", "numbers", "read_snapshot", "tokens"]


def __getattr__(name: str) -> Any:
    """These when they are first asked for: a report of a program needs none of them."""
    if name == "account":
        from .of_model import account

        return account
    if name == "hugging_face":
        from .from_transformers import hugging_face

        return hugging_face
    if name == "numbers":
        from every_byte.step.batch import numbers

        return numbers
    if name == "read_snapshot":
        from every_byte.snapshots.snapshot import read_snapshot

        return read_snapshot
    if name == "tokens":
        from every_byte.step.batch import tokens

        return tokens
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
