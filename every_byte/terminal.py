"""What the instrument prints reaches its reader: on the terminal's own stream, escaped, in characters that it has."""

import errno
import json
import os
import re
import sys
from contextlib import suppress
from typing import Any

_write = os.write
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]"
)
"""Control characters but tab and newline, marks that turn the direction of text around, and halves of characters."""
_ESCAPE = re.compile(r"\\(?:u(d[89ab]..)\\u(d[c-f]..)|u(....)|.)")
"""An escape in JSON: a character of two halves, one of four digits, or a letter."""
_PLAIN = str.maketrans({"…": "...", "×": "x", "·": "*", "−": "-", "–": "-", "→": "->", "≥": ">=", "±": "+/-"})


def printable(text: str) -> str:
    r"""A text in which nothing steers a terminal or turns a line around: such characters become `\x1b` or `\u202e`."""
    return _UNSEEN.sub(_escaped, text)


def _escaped(unseen: re.Match[str]) -> str:
    code = ord(unseen.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def json_of(value: object, **options: Any) -> str:
    """JSON in ASCII, which every reader takes: what `printable` escapes, as halves of characters, is escaped twice."""
    return _ESCAPE.sub(_escaped_twice, json.dumps(value, **options))


def _escaped_twice(escape: re.Match[str]) -> str:
    code = escape.group(3)
    return f"\\{escape.group()}" if code and _UNSEEN.match(chr(int(code, 16))) else escape.group()


def in_encoding(text: str, encoding: str) -> bytes:
    """A text in an encoding: characters that it lacks give way to others that read alike, or to escapes."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "backslashreplace")


def first_line(value: object) -> str:
    """The first line of what an object says of itself, printable; it may fail when it is asked, or say nothing."""
    try:
        text = str(value).strip()
    except BaseException as error:
        return f"its message cannot be read, {type(error).__name__}"
    return printable(text.splitlines()[0]) if text else "no message"


class StandardError:
    """The standard error that the process began with, kept for as long as it is open.

    A program may close it, put another stream in its place, or lose who reads it: what is said here still goes there.
    A fork of the process, which may outlive it, lets go of it.
    """

    def __init__(self) -> None:
        self._stream, self._number = sys.stderr, None
        with suppress(OSError, ValueError, AttributeError):
            if self._stream.fileno() == 2:  # not that of a notebook
                self._number = os.dup(2)
        self._encoding = getattr(self._stream, "encoding", None) or "utf-8"
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        if self._number is not None:
            with suppress(OSError):
                os.close(self._number)
        self._stream = self._number = None

    def say(self, text: str) -> None:
        """Print a text and end the line; where no one can read it any more it is lost, without an error."""
        text = printable(text) + "\n"
        with suppress(OSError, ValueError, AttributeError):  # a closed pipe, a full disk
            if self._number is None:
                self._stream.write(text)
                self._stream.flush()
                return
            os.set_blocking(self._number, True)  # a program may have made it another, for all who have it
            data = memoryview(in_encoding(text, self._encoding))
            while data:
                data = data[_write(self._number, data) :]


def print_text(text: str) -> None:
    """Print a text on standard output; its reader may have seen enough, as `head` has.

    Raises: OSError, with a sentence, for a disk that is full.
    """
    if sys.stdout is None:
        return
    text, encoding = f"{printable(text)}\n", getattr(sys.stdout, "encoding", None)
    try:
        sys.stdout.write(in_encoding(text, encoding).decode(encoding) if encoding else text)
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError, ValueError):  # so that Python does not fail at it once more when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            said = f"standard output must be somewhere that can be written to: got {error.strerror}; try another disk."
            raise OSError(said) from None
