"""What is printed reaches its reader: escaped, in characters that it has, on the stream that the process began with."""

import io
import json
import os
import sys

import pytest

from every_byte.terminal import StandardError, first_line, in_encoding, json_of, print_text, printable


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain, tab\tand\nline", "plain, tab\tand\nline"),
        ("\x00\x07\x1b[2J\r\x7f\x9b", r"\x00\x07\x1b[2J\x0d\x7f\x9b"),
        ("\u202e\u2066\u200f\u061c\u2028", r"\u202e\u2066\u200f\u061c\u2028"),
        ("\ud800 \udcff", r"\ud800 \udcff"),
        ("×…·é漢👍🏽\u200d", "×…·é漢👍🏽\u200d"),
    ],
)
def test_nothing_steers_a_terminal(text, said):
    assert printable(text) == said


@pytest.mark.parametrize("text", ["\x00\x07\x1b[2J\x7f\x9b", "\u202e\u2066\u200f\u061c\u2028", "\ud800 \udcff"])
def test_nothing_in_json_does_once_it_is_read(text):
    assert json.loads(json_of({text: [text]})) == {(said := "".join(map(escaped, text))): [said]}


def escaped(letter: str) -> str:
    return letter if " " <= letter <= "~" else f"\\u{ord(letter):04x}"


def test_json_is_ascii_and_each_reader_takes_it():
    text = "a\\u202e \\\\u001b \udcff 👍 \u202e \n"
    made = json_of(text)
    assert made.isascii()
    assert json.loads(made) == "a\\u202e \\\\u001b \\udcff 👍 \\u202e \n"


def test_characters_that_an_encoding_lacks():
    assert in_encoding("2 × 1 MiB … é", "utf-8").decode() == "2 × 1 MiB … é"
    assert in_encoding("2 × 1 MiB … é", "ascii") == b"2 x 1 MiB ... \\xe9"
    assert in_encoding("2 × 1 MiB é", "latin-1") == "2 × 1 MiB é".encode("latin-1")


class Silent:
    def __str__(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (ValueError("one\ntwo"), "one"),
        (ValueError(" \n"), "no message"),
        ("a\x1bb", r"a\x1bb"),
        (Silent(), "its message cannot be read, KeyboardInterrupt"),
    ],
)
def test_the_first_line_of_what_an_object_says(value, said):
    assert first_line(value) == said


def test_standard_error_that_is_none_of_the_process(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    kept = StandardError()
    monkeypatch.setattr(sys, "stderr", None)
    kept.say("said\x1b")
    assert stream.getvalue() == "said\\x1b\n"
    stream.close()
    kept.say("lost")
    StandardError().say("lost where there was none from the start")


def test_what_is_printed_where_nothing_can_be(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    print_text("lost")
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(OSError, match="must be somewhere that can be written to: got No space left on device"):
            print_text("x" * 100_000)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        print_text("no one reads it any more")
