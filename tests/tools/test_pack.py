"""Packing a version's recordings: what is as the book's is left out, and what was packed before is kept when asked."""

import sys
from pathlib import Path

import pytest

from every_byte.gpu.cases.files import write
from every_byte.verify.recordings import Recorded, Recordings, unpacked
from tools.cuda_build import pack as tool

ONES = [Recorded(Path("cases.py"), folder, name, "a100") for folder, name in (("", "one"), ("zoo", "two"), ("", "new"))]


def recording(name, allocated, torch):
    marks = [{"name": "m", "requested": 8, "allocated": allocated, "reserved": 2_097_152, "peak": allocated}]
    return {"torch": torch, "card": "a100", "device_name": "A", "case": name, "marks": marks, "events": []}


def store(folder, one, allocated, torch="2.15.0+cu132"):
    write(recording(one.name, allocated, torch), folder / one.folder)


@pytest.fixture
def reference(tmp_path, monkeypatch):
    """The recordings of the book's version: of the first two cases."""
    folder = tmp_path / "reference"
    for one in ONES[:2]:
        store(folder / tool.BOOK, one, 512, "2.13.0+cu130")
    monkeypatch.setattr(tool, "REFERENCE", folder)
    monkeypatch.setattr(tool, "jobs", lambda patterns: ONES)
    return folder


def pack(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["pack.py", *map(str, arguments)])
    tool.main()


def test_what_is_as_the_books_is_not_held_twice(reference, tmp_path, monkeypatch, capsys):
    new = tmp_path / "2.15.0"
    store(new, ONES[0], 512)
    store(new, ONES[1], 1024)
    pack(monkeypatch, new)
    place = reference / "2.15.0" / tool.PACKED
    assert unpacked(place) == {"one.a100": None, "zoo/two.a100": recording("two", 1024, "2.15.0+cu132")}
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith(f"{place}: 2 recordings, 1 of them other than 2.13.0's; ")
    assert said[1] == "Not recorded, 1: new.a100"
    read = Recordings("2.15.0", reference)
    assert [one in read for one in ONES] == [True, True, False]
    assert [read[one]["marks"][0]["allocated"] for one in ONES[:2]] == [512, 1024]


def test_what_was_packed_before_is_kept_and_what_is_recorded_again_replaced(reference, tmp_path, monkeypatch, capsys):
    new, later = tmp_path / "2.15.0", tmp_path / "later" / "2.15.0"
    store(new, ONES[0], 512)
    store(new, ONES[1], 1024)
    pack(monkeypatch, new)
    store(later, ONES[1], 2048)
    store(later, ONES[2], 4096)
    pack(monkeypatch, "--add", later)
    place = reference / "2.15.0" / tool.PACKED
    found = {key: one and one["marks"][0]["allocated"] for key, one in unpacked(place).items()}
    assert found == {"one.a100": None, "zoo/two.a100": 2048, "new.a100": 4096}
    pack(monkeypatch, later)
    assert list(unpacked(place)) == ["new.a100", "zoo/two.a100"]
    assert "Not recorded, 1: one.a100" in capsys.readouterr().out


def test_a_card_that_no_case_names_is_packed_as_another_where_it_did_the_same(tmp_path, monkeypatch, capsys):
    ones = [Recorded(Path("cases.py"), "", name, "l40s") for name in ("one", "two")]
    folder, reference = tmp_path / "recorded", tmp_path / "reference"
    store(reference / tool.BOOK, ones[0], 512, "2.13.0+cu130")
    monkeypatch.setattr(tool, "REFERENCE", reference)
    monkeypatch.setattr(tool, "jobs", lambda patterns, cards=(): [one for one in ones if one.card in cards])
    for one in ones:
        alike = recording(one.name, 512, "2.13.0+cu130") | {"card": "l40s", "device_name": "L"}
        write(alike | {"events": [["alloc", 0, 8, "zeros", "Node", "m"]] * (one.name == "two")}, folder)
    pack(monkeypatch, "--cards", folder)
    place = reference / tool.BOOK / tool.CARDS / "l40s.json.xz"
    assert capsys.readouterr().out.startswith(f"{place}: 2 recordings, 1 its own; ")
    held = unpacked(place)
    assert held["one.l40s"] == "a100"
    assert held["two.l40s"]["events"] == [["alloc", 0, 8, "", None, "m"]]
    read = Recordings(tool.BOOK, reference)
    assert read.cards == ["l40s"]
    assert [one in read for one in ones] == [True, True]
    assert read[ones[0]] == recording("one", 512, "2.13.0+cu130") | {"card": "l40s"}
    assert read[ones[1]] == held["two.l40s"]
