"""Pickles of strangers: what is plain is read as Python's pickle reads it, and nothing else is made, called or run."""

import builtins
import io
import os
import pickle
import random
import struct
import time
import tracemalloc
from collections import OrderedDict
from datetime import date
from fractions import Fraction

import numpy
import pytest
import torch
from mutated import mutated

from every_byte.ledger.plain_instructions import MOST_MARKS
from every_byte.ledger.plain_pickles import MOST_WAITING, Machine, NotPlain, TooLarge, load, loads

MOST_BYTES, MOST_SECONDS = 2**30, 10
N_MUTATED = 200
FRAMES = [
    {"name": "train", "filename": "train.py", "line": 12},
    {"name": "main", "filename": "größer.py", "line": 70_000},
]
SNAPSHOT = {
    "segments": [{"address": 139_000_000_000_000, "total_size": 2 << 20, "segment_pool_id": (0, 0), "frames": []}],
    "device_traces": [
        [{"action": "alloc", "addr": i << 9, "size": i * i, "stream": 0, "frames": FRAMES} for i in range(1500)],
        [],
    ],
    "allocator_settings": {"max_split_size": -1, "threshold": 0.5, "is_expandable": False, "other": None, 7: True},
    "long": "x" * 70_000,
    "large": [2**31, 2**32 - 1, 2**62, 2**64 - 1, -(2**40), -1, 255, 256, 65_535, 65_536],
    "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_is_plain_is_read_as_python_reads_it(protocol, tmp_path):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(SNAPSHOT, protocol=protocol))
    found = load(path)
    assert found == SNAPSHOT
    assert found["device_traces"][0][0]["frames"] is found["device_traces"][0][1]["frames"]  # kept once, as it was


def test_lists_that_hold_themselves_are_read():
    it = [1]
    it.append(it)
    found = loads(pickle.dumps(it))
    assert found[0] == 1
    assert found[1] is found


class Reduces:
    def __reduce__(self):
        return os.system, ("touch hacked",)


class Builds:
    def __init__(self):
        self.a = 1


class Persists(pickle.Pickler):
    def persistent_id(self, thing):
        return "elsewhere" if thing == "ask" else None


def _persistent() -> bytes:
    file = io.BytesIO()
    Persists(file).dump(["ask"])
    return file.getvalue()


PROTO = b"\x80\x04"
HOSTILE = {
    "reduce": (pickle.dumps([Reduces()]), "STACK_GLOBAL, which would import or call posix.system"),
    "reduce, protocol 2": (pickle.dumps([Reduces()], protocol=2), "GLOBAL, which would import or call posix.system"),
    "reduce, protocol 0": (pickle.dumps(Reduces(), protocol=0), "GLOBAL, which would import or call posix.system"),
    "an object": (pickle.dumps(Builds()), "STACK_GLOBAL, which would import or call"),
    "an exception": (pickle.dumps(ValueError("x")), "builtins.ValueError"),
    "eval": (b"c__builtin__\neval\n(S'1'\ntR.", "__builtin__.eval"),
    "inst": (b"(S'ls'\nios\nsystem\n.", "is STRING"),
    "inst without a string": (b"(ios\nsystem\n.", "os.system"),
    "obj": (PROTO + b"(" + b"\x8c\x01aob.", "is OBJ, which would import or call"),
    "an extension": (PROTO + b"\x82\x01.", "is EXT1, which would import or call"),
    "a persistent id": (_persistent(), "is BINPERSID, which would import or call"),
    "a persistent id as text": (b"Pelsewhere\n.", "is PERSID, which would import or call"),
    "build": (PROTO + b"}}b.", "is BUILD, which would import or call"),
    "a tensor": (pickle.dumps(torch.ones(2)), "torch._utils._rebuild_tensor_v2"),
    "an array": (pickle.dumps(numpy.ones(2)), "which would import or call"),
    "other types": (pickle.dumps([OrderedDict(a=1), Fraction(1, 2), date(2026, 1, 1)]), "collections.OrderedDict"),
    "bytes": (pickle.dumps([b"abc"]), "is SHORT_BINBYTES, which PyTorch's snapshots do not have"),
    "a gigantic bytearray": (PROTO + b"\x96" + struct.pack("<Q", 2**62), "is BYTEARRAY8"),
    "a gigantic string": (PROTO + b"\x8d" + struct.pack("<Q", 2**62) + b"a.", "by 4,611,686,018,427,387,904 bytes"),
    "a gigantic integer": (PROTO + b"\x8a\xff" + b"\xff" * 255 + b".", "an integer of 255 bytes"),
    "a gigantic integer, long": (PROTO + b"\x8b" + struct.pack("<i", 2**31 - 1), "is LONG4"),
    "a far place in the memo": (PROTO + b"]r" + struct.pack("<I", 2**32 - 1) + b".", "at place 4,294,967,295"),
    "a set": (pickle.dumps({1, 2}), "is EMPTY_SET"),
    "nothing": (b"", "is its end"),
    "text": (b"hello, this is no pickle", "at byte 0"),
    "lists in lists": (PROTO + b"(" * 10**6, f"at most {MOST_MARKS} are, one within the other"),
    "a million empty lists": (PROTO + b"]" * 10**6 + b".", "too many values wait"),
    "tuples around tuples, as a key": (PROTO + b"})" + b"\x85" * 10**5 + b"Ns.", "whose keys are not words or numbers"),
    "values that nobody takes": (PROTO + b"K\x01" * (MOST_WAITING + 2) + b".", "too many values wait"),
    "a protocol to come": (b"\x80\x09N.", "of protocol 9"),
    "a buffer from elsewhere": (b"\x80\x05\x97.", "is NEXT_BUFFER"),
    "a list as a key": (PROTO + b"}]K\x01s.", "whose keys are not words or numbers"),
    "setting a number's item": (PROTO + b"K\x01K\x02K\x03s.", "which needs a dict; there is a int"),
}  # fmt: skip


class _Bounded:
    """Sees that what is done within takes little memory and work."""

    def __enter__(self):
        tracemalloc.start()
        self._start = time.process_time()

    def __exit__(self, *exception):
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < MOST_BYTES
        assert time.process_time() - self._start < MOST_SECONDS


@pytest.fixture
def nothing_runs(monkeypatch, tmp_path):
    """Whatever a pickle would call leaves a word here."""
    called = []
    monkeypatch.chdir(tmp_path)
    for module, name in ((os, "system"), (os, "popen"), (builtins, "eval"), (pickle, "loads"), (pickle, "Unpickler")):
        monkeypatch.setattr(module, name, lambda *args, name=name: called.append(name))
    yield
    assert called == os.listdir(tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_is_refused_by_name_and_costs_little(name, nothing_runs):
    data, said = HOSTILE[name]
    with _Bounded(), pytest.raises(NotPlain, match="a snapshot must be a pickle of plain values") as caught:
        loads(data)
    assert said in str(caught.value)


def test_mutated_pickles_are_read_or_refused_and_run_nothing(nothing_runs):
    drawn = random.Random(7)
    wholes = [pickle.dumps(SNAPSHOT | {"device_traces": [FRAMES] * 9}, protocol=protocol) for protocol in (2, 4)]
    refused = 0
    for _ in range(N_MUTATED):
        data = mutated(drawn.choice(wholes), drawn, 8)
        with _Bounded():
            try:
                loads(data)
            except NotPlain:
                refused += 1
    assert refused > N_MUTATED // 2


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "large.pickle"
    path.write_bytes(pickle.dumps(SNAPSHOT))
    with pytest.raises(
        TooLarge, match=r"at most 10,000 bytes where 80,000 of memory may be taken: large.pickle has 114,700"
    ):
        load(path, most_bytes=80_000)


def test_what_takes_more_memory_or_time_than_is_allowed_is_not_made():
    with pytest.raises(
        TooLarge, match=r"at most 100,000 bytes of memory, and time in proportion: .* it takes more memory"
    ):
        loads(pickle.dumps([str(i) * 300 for i in range(1000)]), most_bytes=100_000)
    with pytest.raises(TooLarge, match="it takes more time"):
        loads(pickle.dumps([None] * 1000), most_bytes=100_000)
    assert loads(pickle.dumps([[i] for i in range(1000)]), most_bytes=10**6) == [[i] for i in range(1000)]


@pytest.mark.long
def test_what_is_counted_is_what_is_taken():
    """No kind of value takes more than its instructions count: else many of it would take more than is allowed."""
    for value in ([], [()], {}, {"a": None}, {i: i for i in range(99)}, [1] * 99, [2**40] * 9, "x" * 999, 0.5, (1, 2)):
        data = pickle.dumps([pickle.loads(pickle.dumps(value)) for _ in range(2000)])
        tracemalloc.start()
        made = Machine(data)
        left = made.left_bytes
        kept = made.run()
        taken = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert len(kept) == 2000
        assert taken < left - made.left_bytes + 100_000
