"""Bytes as text: the only place where a byte count becomes words.

`GiB` is 2**30 bytes everywhere. A short form is rounded and never the only form shown beside a claim.
"""

import re

KiB = 2**10
MiB = 2**20
GiB = 2**30

_UNITS = ((GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB"))


def exact(n_bytes: int) -> str:
    """Every digit, with the short form behind it: `83,886,080 bytes (80 MiB)`."""
    count = f"{n_bytes:,d} byte" + ("" if abs(n_bytes) == 1 else "s")
    return count if abs(n_bytes) < KiB else f"{count} ({short(n_bytes)})"


def short(n_bytes: int) -> str:
    """Three to four digits and a binary unit: `80 MiB`, `1.5 GiB`, `-512 B`."""
    for size, name in _UNITS:
        if abs(n_bytes) >= size:
            return f"{_four_digits(n_bytes / size)} {name}"
    return f"{n_bytes:,d} B"


def in_gib(n_bytes: int) -> str:
    """GiB to one digit, without the unit: `14.0`; of less than half a digit `less than 0.1`."""
    return "less than 0.1" if 0 < n_bytes < GiB / 20 else f"{n_bytes / GiB:,.1f}"


def _four_digits(value: float) -> str:
    decimals = max(0, 3 - len(str(int(abs(value)))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_SIZES = {"B": 1, "KIB": KiB, "MIB": MiB, "GIB": GiB, "TIB": 2**40}


def number_of_bytes(said: object) -> int | None:
    """A number of bytes above zero, or a text such as "24GiB" or "863 MiB"; None for what is neither."""
    if isinstance(said, int) and not isinstance(said, bool) and said > 0:
        return said
    if not isinstance(said, str):
        return None
    written = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?\s*", said, re.IGNORECASE)
    if written is None:
        return None
    number, unit = float(written[1]), f"{written[2] or ''}B".upper()
    return int(number * _SIZES[unit]) if number and unit in _SIZES else None
