"""What each instruction of a pickle of plain values does; none imports, makes or calls anything."""

import pickletools
import struct
import sys
from collections.abc import Callable
from typing import Any, Protocol

MOST_MARKS = 64
MOST_INTEGER_BYTES = 9
"""A number of 64 bits without a sign takes so many."""
MOST_STRING_BYTES = 2**20
HIGHEST_PROTOCOL = 5
OF_A_SLOT, OF_A_NUMBER, OF_A_LIST, OF_A_DICT, OF_A_KEY = 10, 36, 160, 256, 64
"""Memory, in bytes, at most: of a place in a list or the memo, which grow by an eighth; of a number; of a list or tuple
and of a dict without their values, with a place in a set of those that were seen; of a dict's key and value."""
CODES = {opcode.name: ord(opcode.code) for opcode in pickletools.opcodes}


class Machine(Protocol):
    """What the instructions work on: `plain_pickles.Machine`, which says what each of these is."""

    data: bytes
    at: int
    position: int
    left_bytes: int
    stack: list[Any]
    marks: list[int]
    memo: list[Any]
    is_done: bool

    def taken(self, n: int) -> bytes: ...
    def number(self, width: int) -> int: ...
    def since_mark(self) -> list[Any]: ...
    def refused(self, what: str, why: str) -> Exception: ...
    def new(self, value: Any, n_bytes: int) -> None: ...
    def top(self, kind: type) -> Any: ...


Handler = Callable[[Machine], None]
HANDLERS: dict[int, Handler] = {}
"""What is done, by the instruction's code; the machine itself does what takes from the memo."""


def _on(*names: str) -> Callable[[Handler], Handler]:
    """What is done at these instructions."""

    def keep(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(map(CODES.__getitem__, names), handler))
        return handler

    return keep


def _puts(name: str, value: Any) -> None:
    """An instruction that puts a constant on the stack."""
    HANDLERS[CODES[name]] = lambda machine: machine.stack.append(value)


def _reads(name: str, width: int, *, is_signed: bool = False) -> None:
    """An instruction that puts a number on the stack, which stands behind it."""

    def read(machine: Machine) -> None:
        machine.new(int.from_bytes(machine.taken(width), "little", signed=is_signed), OF_A_NUMBER)

    HANDLERS[CODES[name]] = read


def _says(name: str, width: int) -> None:
    """An instruction that puts a string on the stack, which stands behind it, after its length."""

    def say(machine: Machine) -> None:
        length = machine.number(width)
        coded = machine.taken(length)
        if length > MOST_STRING_BYTES:
            raise machine.refused(f"a string of {length:,d} bytes", f"they have at most {MOST_STRING_BYTES:,d}")
        try:
            said = coded.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise machine.refused("whose string is no UTF-8", "it is damaged") from None
        machine.new(said, sys.getsizeof(said))

    HANDLERS[CODES[name]] = say


def _keeps(name: str, width: int) -> None:
    """An instruction that keeps the top of the stack in the memo, at a place: the next one, or one taken before."""

    def keep(machine: Machine) -> None:
        place = machine.number(width)
        if place != len(machine.memo):
            raise machine.refused(f"at place {place:,d} of the memo", f"the next is {len(machine.memo):,d}")
        _memoize(machine)

    HANDLERS[CODES[name]] = keep


_puts("NONE", None)
_puts("NEWTRUE", True)
_puts("NEWFALSE", False)
_reads("BININT", 4, is_signed=True)
_reads("BININT2", 2)
_says("SHORT_BINUNICODE", 1)
_says("BINUNICODE", 4)
_says("BINUNICODE8", 8)
_keeps("BINPUT", 1)
_keeps("LONG_BINPUT", 4)


@_on("MEMOIZE")
def _memoize(machine: Machine) -> None:
    machine.left_bytes -= OF_A_SLOT
    machine.memo.append(machine.stack[-1])


@_on("BININT1")
def _binint1(machine: Machine) -> None:
    machine.stack.append(machine.data[machine.position])
    machine.position += 1


@_on("LONG1")
def _long1(machine: Machine) -> None:
    width = machine.number(1)
    if width > MOST_INTEGER_BYTES:
        raise machine.refused(f"an integer of {width} bytes", f"a snapshot's have at most {MOST_INTEGER_BYTES}")
    machine.new(int.from_bytes(machine.taken(width), "little", signed=True), OF_A_NUMBER)


@_on("BINFLOAT")
def _binfloat(machine: Machine) -> None:
    machine.new(struct.unpack(">d", machine.taken(8))[0], OF_A_NUMBER)


@_on("MARK")
def _mark(machine: Machine) -> None:
    if len(machine.marks) == MOST_MARKS:
        raise machine.refused("where too many lists are open", f"at most {MOST_MARKS} are, one within the other")
    machine.marks.append(len(machine.stack))


@_on("EMPTY_LIST")
def _empty_list(machine: Machine) -> None:
    machine.new([], OF_A_LIST)


@_on("EMPTY_DICT")
def _empty_dict(machine: Machine) -> None:
    machine.new({}, OF_A_DICT)


@_on("EMPTY_TUPLE")
def _empty_tuple(machine: Machine) -> None:
    machine.stack.append(())


@_on("TUPLE")
def _tuple(machine: Machine) -> None:
    values = tuple(machine.since_mark())
    machine.new(values, OF_A_LIST + OF_A_SLOT * len(values))


@_on("TUPLE1", "TUPLE2", "TUPLE3")
def _short_tuple(machine: Machine) -> None:
    n = machine.data[machine.at] - CODES["TUPLE1"] + 1
    if n > len(machine.stack) - (machine.marks[-1] if machine.marks else 0):
        raise machine.refused(f"which needs {n}", "there are fewer")
    values = tuple(machine.stack[-n:])
    del machine.stack[-n:]
    machine.new(values, OF_A_LIST + OF_A_SLOT * n)


@_on("APPEND")
def _append(machine: Machine) -> None:
    value = machine.stack.pop()
    machine.top(list).append(value)
    machine.left_bytes -= OF_A_SLOT


@_on("APPENDS")
def _appends(machine: Machine) -> None:
    values = machine.since_mark()
    machine.top(list).extend(values)
    machine.left_bytes -= OF_A_SLOT * len(values)


@_on("SETITEM")
def _set_item(machine: Machine) -> None:
    value, key = machine.stack.pop(), machine.stack.pop()
    _set(machine, [key, value])


@_on("SETITEMS")
def _set_items(machine: Machine) -> None:
    _set(machine, machine.since_mark())


def _set(machine: Machine, values: list[Any]) -> None:
    """Put keys and values, one after the other, into the dict on top of the stack."""
    keys = values[::2]
    if len(values) % 2 or not all(type(key) in (str, int) for key in keys):
        raise machine.refused("whose keys are not words or numbers", "a snapshot's are")
    machine.top(dict).update(zip(keys, values[1::2]))
    machine.left_bytes -= OF_A_KEY * len(keys)


@_on("PROTO")
def _proto(machine: Machine) -> None:
    if (protocol := machine.number(1)) > HIGHEST_PROTOCOL:
        raise machine.refused(f"of protocol {protocol}", f"they go to {HIGHEST_PROTOCOL}")


@_on("FRAME")
def _frame(machine: Machine) -> None:
    machine.position += 8  # how far one may read ahead


@_on("STOP")
def _stop(machine: Machine) -> None:
    if len(machine.stack) != 1 or machine.marks:
        raise machine.refused(f"where {len(machine.stack):,d} values are left", "it is damaged")
    machine.is_done = True
