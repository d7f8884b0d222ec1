"""What an exception says in a sentence, and how to let go of all that it holds."""

import traceback

_LONGEST = 400  # characters: some errors go on about environment variables


def sentence(error: BaseException) -> str:
    """The first line of an exception's message; of a long one, as many whole sentences as there is room for."""
    lines = str(error).strip().splitlines()
    text = lines[0].strip() if lines else f"{type(error).__name__} without a message."
    if len(text) <= _LONGEST:
        return text
    whole, stop, _ = text[:_LONGEST].rpartition(". ")
    return whole + "." if stop else text[: _LONGEST - 1] + "…"


def release(error: BaseException) -> None:
    """Let go of all that an exception's frames hold.

    A traceback keeps every local variable on its way alive, and with them tensors: the next account would find the
    memory of the failed one still taken.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        traceback.clear_frames(current.__traceback__)
        current.__traceback__ = None
        pending += [current.__cause__, current.__context__, *getattr(current, "exceptions", ())]
