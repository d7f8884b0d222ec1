"""What differs between versions of Python: how references are counted, and how a subscription looks in bytecode."""

import dis
import opcode
import sys
from types import FrameType


def _references_of_a_question() -> int:
    named = object()
    return sys.getrefcount(named) - 1


OF_THE_QUESTION = _references_of_a_question()
"""How many of the references that `sys.getrefcount(name)` finds are its own: one, and none where a name is lent to a
call, as from Python 3.14 on."""

_STORES = tuple(dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap)
_LOADS = tuple(dis.opmap[name] for name in ("BINARY_SUBSCR", "BINARY_SLICE") if name in dis.opmap)
_OPERATES = dis.opmap["BINARY_OP"]
_OPERATION_OF_LOADS = next((i for i, (name, _) in enumerate(opcode._nb_ops) if name == "NB_SUBSCR"), None)  # type: ignore[attr-defined]  # private: CPython 3.11 to 3.14 have it


def is_storing(frame: FrameType) -> bool:
    """Whether a frame is at `x[…] = y`."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _STORES


def is_subscribing(frame: FrameType) -> bool:
    """Whether a frame is at `x[…]`, read or written; from Python 3.14 on reading is an operation of two operands."""
    if frame.f_lasti < 0:
        return False
    operation, operand = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
    if operation in _STORES or operation in _LOADS:
        return True
    return operation == _OPERATES and operand == _OPERATION_OF_LOADS
