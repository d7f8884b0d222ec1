"""How deep calls may go: a program is to get as deep as on a card, where fewer of PyTorch's calls are Python's."""

import sys

from every_byte.gpu.patches.replacing import Function, Undo, all_of, replaced

_OURS, _PER_CALL = 200, 2
"""Frames below the program and above its innermost call; and how many there are, at most, for one on a card."""


def go_as_deep() -> Undo:
    """Let calls go deeper, and the program set its own limit and read it. Returns what undoes it."""
    own = {"limit": sys.getrecursionlimit()}

    def setting(original: Function) -> Function:
        def setrecursionlimit(limit: int) -> None:
            original(limit)  # checks it
            original(_PER_CALL * limit + _OURS)
            own["limit"] = limit

        return setrecursionlimit

    change = replaced(sys, "setrecursionlimit", setting)
    sys.setrecursionlimit(own["limit"])
    undo = all_of([change, replaced(sys, "getrecursionlimit", lambda _original: lambda: own["limit"])])

    def put_back() -> None:
        undo()
        sys.setrecursionlimit(own["limit"])

    return put_back
