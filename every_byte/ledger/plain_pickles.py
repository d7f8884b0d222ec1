"""Opens a pickle of plain values without Python's `pickle`: a small machine that imports and calls nothing."""

import struct
from pathlib import Path

from .plain_instructions import CODES, HANDLERS

MOST_FILE_BYTES = 128 * 2**20
MOST_WAITING = 100_000
"""Values on the stack at one time: Python's pickle puts no more than a thousand into a list or dict at once."""
BYTES_OF_A_CONTAINER = 4
"""So many bytes of the file are behind a list, dict or tuple at least, on average: one that is empty takes two, and
what holds it takes more."""

_NAMES = {code: name for name, code in CODES.items()}
_CALLING = {
    "GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD", "EXT1", "EXT2", "EXT4", "PERSID",
    "BINPERSID",
}  # fmt: skip
"""By these a pickle imports, makes objects, calls, or asks whoever opens it."""
_READABLE = 60


class NotPlain(ValueError):
    """A pickle that holds anything but plain values, is damaged, or larger than it may be; the message says which."""


def load(path: str | Path, most_bytes: int = MOST_FILE_BYTES):
    """The value in a file: dicts with words or numbers as keys, lists, tuples, strings, integers, floats, bools, None.

    Counts: memory of some tens of bytes for each byte of the file at most.
    Raises: NotPlain for anything else, before it is made; OSError for a file that cannot be read.
    """
    path = Path(path)
    n_bytes = path.stat().st_size
    if n_bytes > most_bytes:
        raise NotPlain(f"the file must have at most {most_bytes:,d} bytes: {path.name} has {n_bytes:,d}.")
    return loads(path.read_bytes())


def loads(data: bytes):
    """The same of bytes.

    Raises: NotPlain.
    """
    machine = Machine(data)
    try:
        return machine.run()
    except (IndexError, struct.error):
        raise machine.refused("which needs what is not there", "it is damaged or cut off") from None


class Machine:
    """The stack, the marks on it and the memo of a pickle while it is read.

    `at` is where the instruction at hand begins, `position` where the next byte is.
    """

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.position = data, 0, 0
        self.stack: list = []
        self.marks: list[int] = []
        self.memo: list = []
        self.is_done = False
        self._containers_left = 1000 + len(data) // BYTES_OF_A_CONTAINER

    def run(self):
        """Follow the instructions up to the last, and give what they have made."""
        data, stack, handlers = self.data, self.stack, [HANDLERS.get(code) for code in range(256)]
        while not self.is_done:
            self.at = self.position
            code = data[self.at]
            self.position += 1
            handler = handlers[code]
            if handler is None:
                raise self._unknown()
            handler(self)
            if len(stack) > MOST_WAITING:
                raise self.refused("where too many values wait", f"at most {MOST_WAITING:,d} do")
        (made,) = stack
        return made

    def taken(self, n: int) -> bytes:
        """The next `n` bytes."""
        start, self.position = self.position, self.position + n
        if self.position > len(self.data):
            raise self.refused(f"which is to be followed by {n:,d} bytes", "the file ends before them")
        return self.data[start : self.position]

    def number(self, width: int) -> int:
        """The next bytes as a number without a sign."""
        return int.from_bytes(self.taken(width), "little")

    def since_mark(self) -> list:
        """What lies above the last mark, taken from the stack, with the mark."""
        first = self.marks.pop()
        found = self.stack[first:]
        del self.stack[first:]
        return found

    def new(self, container) -> None:
        """Put a list, dict or tuple on the stack."""
        self._containers_left -= 1
        if self._containers_left < 0:
            raise self.refused(
                "where there are more lists, dicts and tuples than the file has room for", "it is made up"
            )
        self.stack.append(container)

    def top(self, kind: type):
        """The value on top of the stack, which is to be a list or a dict."""
        value = self.stack[-1]
        if type(value) is not kind or (self.marks and self.marks[-1] >= len(self.stack)):
            raise self.refused(f"which needs a {kind.__name__}", f"there is a {type(value).__name__}")
        return value

    def refused(self, what: str, why: str) -> NotPlain:
        """What to raise at the instruction at hand."""
        name = _NAMES.get(self.data[self.at], "a byte") if self.at < len(self.data) else "its end"
        return NotPlain(f"a snapshot must be a pickle of plain values: at byte {self.at:,d} is {name}, {what}; {why}.")

    def _unknown(self) -> NotPlain:
        name = _NAMES.get(self.data[self.at])
        if name is None:
            return self.refused(f"{self.data[self.at]:#04x}", "no pickle has it: it is damaged, or no pickle")
        if name in _CALLING:
            return self.refused(f"which would import or call{self._what(name)}", "nothing of the file was run")
        return self.refused("which PyTorch's snapshots do not have", "they are of protocol 2 or later")

    def _what(self, name: str) -> str:
        """What a pickle would import, as far as it is written at the instruction."""
        if name in ("GLOBAL", "INST"):
            words = self.data[self.position : self.position + 2 * _READABLE].split(b"\n")[:2]
        else:
            words = [word.encode() for word in self.stack[-2:] if isinstance(word, str)]
        said = ".".join(ascii(word.decode("utf-8", "replace")[:_READABLE])[1:-1] for word in words)
        return f" {said}" if said else ""
