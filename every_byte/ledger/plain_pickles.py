"""Opens a pickle of plain values without Python's `pickle`: a small machine that imports and calls nothing."""

import gc
import struct
from pathlib import Path
from typing import Any

from .plain_instructions import CODES, HANDLERS

MOST_BYTES = 2**30
"""The memory that opening a file may take, with what Python and torch take themselves, unless more is allowed."""
MOST_WAITING = 100_000
"""Values on the stack at one time: Python's pickle puts no more than a thousand into a list or dict at once."""
OF_A_FILE, OF_VALUES, OF_AN_INSTRUCTION = 8, 2, 192
"""Of those bytes a file has an eighth at most, its values take a half, and there is one instruction for each 192."""
OF_A_GET, GETS_IN_A_ROW = 1 / 8, 1000
"""What an instruction counts that takes from the memo, which is quick; and how many are followed at a time."""

_NAMES = {code: name for name, code in CODES.items()}
_CALLING = {
    "GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD", "EXT1", "EXT2", "EXT4", "PERSID",
    "BINPERSID",
}  # fmt: skip
"""By these a pickle imports, makes objects, calls, or asks whoever opens it."""
_READABLE = 60
_GET, _LONG_GET, _NUMBER = CODES["BINGET"], CODES["LONG_BINGET"], struct.Struct("<I")
_ZIP = b"PK\x03\x04"


class NotPlain(ValueError):
    """A pickle that holds anything but plain values, is damaged, or larger than it may be; the message says which."""


def load(path: str | Path, most_bytes: int = MOST_BYTES) -> Any:
    """The value in a file: dicts with words or numbers as keys, lists, tuples, strings, integers, floats, bools, None.

    Counts: `most_bytes` is the memory that it may take, with the file itself and what goes through the values once.
    Raises: NotPlain for anything else, before it is made; OSError for a file that cannot be read.
    """
    path, most_file_bytes = Path(path), most_bytes // OF_A_FILE
    with path.open("rb") as file:
        data = file.read(most_file_bytes + 1)  # a pipe has no size
    if len(data) > most_file_bytes:
        raise TooLarge(
            f"a snapshot's file must have at most {most_file_bytes:,d} bytes where {most_bytes:,d} of memory may be "
            f"taken: {path.name} has {path.stat().st_size or 'more':,}."
        )
    return loads(data, most_bytes)


def loads(data: bytes, most_bytes: int = MOST_BYTES) -> Any:
    """The same of bytes.

    Raises: NotPlain.
    """
    if data.startswith(_ZIP):
        raise NotPlain("a snapshot must be a pickle of plain values: this is a zip archive, as torch.save writes.")
    machine = Machine(data, most_bytes)
    was_enabled = gc.isenabled()
    gc.disable()  # it would go through millions of values again and again, none of which is garbage
    try:
        return machine.run()
    except (IndexError, struct.error):
        raise machine.refused("which needs what is not there", "it is damaged or cut off") from None
    finally:
        if was_enabled:
            gc.enable()


class TooLarge(NotPlain):
    """A pickle that would take more memory or time than is allowed."""


class Machine:
    """The stack, the marks on it and the memo of a pickle while it is read.

    `at` is where the instruction at hand begins, `position` where the next byte is. `left_bytes` is the memory that
    values may still take: each instruction that makes something takes of it what that needs at most.
    """

    def __init__(self, data: bytes, most_bytes: int = MOST_BYTES) -> None:
        self.data, self.at, self.position = data, 0, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: list[Any] = []
        self.is_done = False
        self._most_bytes, self.left_bytes = most_bytes, most_bytes // OF_VALUES

    def run(self) -> Any:
        """Follow the instructions up to the last, and give what they have made."""
        data, stack, handlers = self.data, self.stack, [HANDLERS.get(code) for code in range(256)]
        left: float = self._most_bytes // OF_AN_INSTRUCTION
        while left > 0:
            self.at = at = self.position
            code = data[at]
            if code == _LONG_GET or code == _GET:
                left -= OF_A_GET * self._get_in_a_row()
            else:
                left -= 1
                self.position = at + 1
                handler = handlers[code]
                if handler is None:
                    raise self._unknown()
                handler(self)
                if self.is_done:
                    (made,) = stack
                    return made
                if self.left_bytes < 0:
                    raise self._too_large("memory")
            if len(stack) > MOST_WAITING:
                raise self.refused("where too many values wait", f"at most {MOST_WAITING:,d} do")
        raise self._too_large("time")

    def _get_in_a_row(self) -> int:
        """Put what the memo has on the stack, as long as instructions say so, as a snapshot's mostly do; how often."""
        data, at, memo, put, before = self.data, self.at, self.memo, self.stack.append, len(self.stack)
        for _ in range(GETS_IN_A_ROW):
            code = data[at]
            if code == _LONG_GET:
                put(memo[_NUMBER.unpack_from(data, at + 1)[0]])
                at += 5
            elif code == _GET:
                put(memo[data[at + 1]])
                at += 2
            else:
                break
        self.position = at
        return len(self.stack) - before

    def taken(self, n: int) -> bytes:
        """The next `n` bytes."""
        start, self.position = self.position, self.position + n
        if self.position > len(self.data):
            raise self.refused(f"which is to be followed by {n:,d} bytes", "the file ends before them")
        return self.data[start : self.position]

    def number(self, width: int) -> int:
        """The next bytes as a number without a sign."""
        return int.from_bytes(self.taken(width), "little")

    def since_mark(self) -> list[Any]:
        """What lies above the last mark, taken from the stack, with the mark."""
        first = self.marks.pop()
        found = self.stack[first:]
        del self.stack[first:]
        return found

    def new(self, value: Any, n_bytes: int) -> None:
        """Put a value on the stack that takes so much memory."""
        self.left_bytes -= n_bytes
        self.stack.append(value)

    def top(self, kind: type) -> Any:
        """The value on top of the stack, which is to be a list or a dict."""
        value = self.stack[-1]
        if type(value) is not kind or (self.marks and self.marks[-1] >= len(self.stack)):
            raise self.refused(f"which needs a {kind.__name__}", f"there is a {type(value).__name__}")
        return value

    def refused(self, what: str, why: str) -> NotPlain:
        """What to raise at the instruction at hand."""
        name = _NAMES.get(self.data[self.at], "a byte") if self.at < len(self.data) else "its end"
        return NotPlain(f"a snapshot must be a pickle of plain values: at byte {self.at:,d} is {name}, {what}; {why}.")

    def _too_large(self, what: str) -> TooLarge:
        return TooLarge(
            f"a snapshot must take at most {self._most_bytes:,d} bytes of memory, and time in proportion: at byte "
            f"{self.at:,d} of {len(self.data):,d} it takes more {what}."
        )

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
