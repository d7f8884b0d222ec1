"""Runs `every-byte run` and writes what its program brought from the GPU: what the host knows, as answers.c reads it.

    python tools/programs/known.py answers.txt run --gpu a100-80gb train.py

Over the stub libraries each value that is read is zero, and a program that looks at a mask that it has made itself goes
another way than on a card. With these answers in the copies from the card it goes the way that it went here, also
where that depends on computed numbers: those are zeros here and there, and what is asked of them is answered alike.
"""

import ctypes
import sys
from pathlib import Path

import torch

from every_byte.__main__ import main
from every_byte.gpu.dispatch import beforehand, places, values
from every_byte.gpu.known.reading import known_values
from every_byte.gpu.operators import creation

aten = torch.ops.aten
ANSWERS: list[str] = []


def note_bytes(tensor: torch.Tensor, is_known: bool) -> None:
    """A copy of so many bytes; "4 -" is one of four that are zero because nobody knows them."""
    n_bytes = tensor.numel() * tensor.element_size()
    if n_bytes:
        dense = tensor.contiguous()
        content = ctypes.string_at(
            dense.data_ptr(), n_bytes
        )  # no operator: what asks a value is noted as the program's
        ANSWERS.append(f"{n_bytes} {content.hex() if is_known or any(content) else '-'}")


def _noting_number(original):
    def number(mode, tensor, frame):
        found = original(mode, tensor, frame)
        note_bytes(torch.tensor(found, dtype=tensor.dtype, device="cpu"), known_values(tensor) is not None)
        return found

    return number


class _NotingValidation:
    """Of arguments that are not known `torch.distributions` hears that they are valid."""

    def __init__(self) -> None:
        self._asks, self._known = values._is_validation, values.known_values
        self._is_asked = False

    def is_validation(self, frame) -> bool:
        self._is_asked = self._asks(frame)
        return self._is_asked

    def known_values(self, tensor):
        found = self._known(tensor)
        if self._is_asked and found is None:
            ANSWERS.append("1 01")
        self._is_asked = False
        return found


def _noting_copy(original):
    def came(mode, func, target, source, is_known, non_blocking):
        original(mode, func, target, source, is_known, non_blocking)
        note_bytes(target.detach(), is_known)

    return came


def _noting_equal(original):
    def equal(mode, func, args, kwargs):
        found = original(mode, func, args, kwargs)
        if args[0].shape == args[1].shape and args[0].numel():
            note_bytes(torch.tensor(found, device="cpu"), True)
        return found

    return equal


def _noting_count(original, masks_of):
    def counted(mode, func, args, kwargs):
        answer = original(mode, func, args, kwargs)
        for mask in masks_of(args):
            if (known := known_values(mask)) is not None:
                ANSWERS.append(f"count {int(known.count_nonzero())}")
        return answer

    return counted


def _masks_among(args) -> list[torch.Tensor]:
    """The masks of an index whose true values are counted: not those that say where one value is to be filled in."""
    if values.is_fill(*args):
        return []
    return [i for i in args[1] if i is not None and values.is_meta(i) and i.dtype in (torch.bool, torch.uint8)]


def _noting_least(original):
    def look(std):
        original(std)
        if std.numel():
            ANSWERS.append("1 01")

    return look


def observe() -> None:
    """Put what notes before what answers; a read is still noted at the line of the program that asks."""
    places._NOT_THE_PROGRAM += (__file__,)
    asked = beforehand.ASKED
    creation._look_at_least = _noting_least(creation._look_at_least)
    values._came = _noting_copy(values._came)
    values._number = _noting_number(values._number)
    validation = _NotingValidation()
    values._is_validation, values.known_values = validation.is_validation, validation.known_values
    asked[aten.equal.default] = _noting_equal(asked[aten.equal.default])
    asked[aten.nonzero.default] = _noting_count(asked[aten.nonzero.default], lambda args: [args[0]])
    asked[aten.masked_select.default] = _noting_count(asked[aten.masked_select.default], lambda args: [args[1]])
    for index in (aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default):
        asked[index] = _noting_count(asked.get(index, lambda *_: None), _masks_among)


if __name__ == "__main__":
    file = Path(sys.argv[1]).resolve()
    observe()
    try:
        code = main(sys.argv[2:])
    finally:
        file.write_text("".join(f"{line}\n" for line in ANSWERS), encoding="ascii")
    sys.exit(code)
