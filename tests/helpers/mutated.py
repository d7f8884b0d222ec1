"""Damages the bytes of a pickle in drawn ways: a byte, a piece cut out, instructions put in, a piece replaced."""

import random

CHARACTERS_OF_INSTRUCTIONS = b"cRibou()]}ae\x93\x81\x96\x8d\x8a\x94\x85h"


def mutated(data: bytes, drawn: random.Random, most: int) -> bytes:
    """The bytes after up to so many changes."""
    data = bytearray(data)
    for _ in range(drawn.randint(1, most)):
        at = drawn.randrange(len(data))
        how = drawn.randrange(5)
        if how == 0:
            data[at] = drawn.randrange(256)
        elif how == 1:
            del data[at : at + drawn.randint(1, 40)]
        elif how == 2:
            data[at:at] = bytes(drawn.choice(CHARACTERS_OF_INSTRUCTIONS) for _ in range(drawn.choice((5, 9))))
        elif how == 3:
            data[at : at + 3] = data[at + 50 : at + 53]
        else:
            data[at : at + 8] = drawn.randbytes(8)
    return bytes(data)
