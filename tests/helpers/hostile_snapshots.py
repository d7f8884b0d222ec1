"""Files that somebody may hand over as a snapshot of GPU memory: hostile ones, damaged ones, odd ones, large ones."""

import io
import os
import pickle
import struct
from collections.abc import Callable, Iterator
from functools import cache

import torch

from every_byte.ledger.plain_instructions import CODES

PROTO = b"\x80\x04"
EMPTY = {"segments": [], "device_traces": [[]]}
FRAME = {"name": "f", "filename": "a.py", "line": 1}
ENTRY = {"action": "alloc", "addr": 512, "size": 512, "stream": 0, "frames": [FRAME], "time_us": 1}
BLOCK = {"address": 0, "size": 512, "requested_size": 4, "state": "active_allocated", "frames": []}
SEGMENT = {"address": 0, "total_size": 2097152, "segment_type": "small", "stream": 0, "device": 0, "blocks": [BLOCK]}


def snapshot_of(entries: list, **more) -> dict:
    """A snapshot with this history."""
    return {"segments": [], "device_traces": [entries], "external_annotations": [], "allocator_settings": {}} | more


def nested(depth: int) -> list:
    """Lists in lists."""
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


class Calls:
    """What asks whoever opens it to call something."""

    def __init__(self, function, *arguments):
        self._what = function, arguments

    def __reduce__(self):
        return self._what


def imports() -> Iterator[tuple[str, bytes]]:
    """A pickle with each instruction that imports, makes, calls or asks, and one that would leave a file `hacked`."""
    for name in ("GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD", "STACK_GLOBAL", "EXT1", "EXT2",
                 "EXT4", "PERSID", "BINPERSID"):  # fmt: skip
        code = bytes([CODES[name]])
        words = b"\x8c\x02os\x8c\x06system"
        yield f"instruction {name}", PROTO + words + b"(" + words + code + b"os\nsystem\n" + b"."
    for function in (os.system, os.popen, eval, exec, __import__, print, os.remove, getattr):
        for protocol in (0, 2, 4, 5):
            data = pickle.dumps(snapshot_of([Calls(function, "touch hacked")]), protocol=protocol)
            yield f"{function.__name__}, protocol {protocol}", data


def structures() -> Iterator[tuple[str, bytes]]:
    """Pickles of plain values that are hostile by their size or shape."""
    yield "a list within 100,000", _deep(100_000)
    yield "doubled lists", PROTO + b"]\x94" + b"".join(b"](" + _get(i) * 2 + b"e\x94" for i in range(200)) + b"."
    yield "doubled lists as events", _doubled_as_events()
    yield "declared 2^62 bytes", PROTO + b"\x8d" + struct.pack("<Q", 2**62) + b"."
    yield "declared 4 GiB", PROTO + b"X" + struct.pack("<I", 2**32 - 1) + b"."
    yield "an integer of 2^31 bytes", PROTO + b"\x8b" + struct.pack("<i", 2**31 - 1) + b"."
    yield "an integer of a million digits", pickle.dumps(snapshot_of([ENTRY | {"size": 10**1_000_000}]))
    yield "an integer of a million digits, protocol 0", b"L" + b"9" * 10**6 + b"L\n."
    yield "a circular list of events", _circular()
    yield "marks", PROTO + b"(" * 1_000_000 + b"."
    yield "memo of a million", PROTO + b"]" + b"\x94" * 1_000_000 + b"."
    yield "one string of 30 MB", pickle.dumps(snapshot_of([ENTRY | {"action": "x" * 30_000_000}]))


def _get(i: int) -> bytes:
    return b"j" + struct.pack("<I", i)


def _deep(n: int) -> bytes:
    return PROTO + b"]\x94" + b"".join(b"]" + _get(i) + b"a\x94" for i in range(n)) + b"."


def _doubled_as_events() -> bytes:
    entries = [ENTRY]
    for _ in range(64):
        entries = [entries, entries]
    return pickle.dumps(snapshot_of(entries))


def _circular() -> bytes:
    entries: list = [ENTRY]
    entries.append(entries)
    return pickle.dumps(snapshot_of(entries))


def values() -> Iterator[tuple[str, bytes]]:
    """Snapshots with one value that no PyTorch writes, at each place."""
    for name in ("action", "addr", "size", "stream", "frames", "time_us", "pool_id"):
        for wrong in (None if name in ("action", "size") else 1.5, "x" if name != "action" else 7, [[]], {}, True, -1,
                      2**63):  # fmt: skip
            if name == "frames" and wrong == {}:
                continue
            yield f"entry's {name}: {type(wrong).__name__} {wrong}", pickle.dumps(snapshot_of([ENTRY | {name: wrong}]))
    for name in FRAME:
        yield f"frame without {name}", pickle.dumps(snapshot_of([ENTRY | {"frames": [_without(FRAME, name)]}]))
        wrong = FRAME | {name: [1]}
        yield f"frame's {name} a list", pickle.dumps(snapshot_of([ENTRY | {"frames": [wrong]}]))
    for name in ("address", "total_size", "segment_type"):
        yield f"segment without {name}", pickle.dumps(EMPTY | {"segments": [_without(SEGMENT, name)]})
    for name in ("device", "stream", "blocks", "is_expandable", "segment_pool_id", "frames"):
        yield f"segment's {name} a word", pickle.dumps(EMPTY | {"segments": [SEGMENT | {name: "x"}]})
    for wrong in ([], 3, "text", None, [1, 2], {"segments": []}, {"device_traces": []},
                  {"segments": 1, "device_traces": 2}, {"segments": {}, "device_traces": {}},
                  EMPTY | {"external_annotations": [1]},
                  EMPTY | {"allocator_settings": [1]}, EMPTY | {"allocator_settings": {"a": [{}]}}):  # fmt: skip
        yield f"as a whole {wrong}", pickle.dumps(wrong)


def _without(value: dict, name: str) -> dict:
    return {key: one for key, one in value.items() if key != name}


def files() -> Iterator[tuple[str, bytes]]:
    """What is no pickle of a snapshot at all."""
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(3)}, buffer)
    yield "a file of torch.save", buffer.getvalue()
    yield "nothing", b""
    yield "text", b"hello\n" * 100
    yield "JSON", b'{"segments": []}'
    yield "zeros", bytes(100_000)
    whole = pickle.dumps(snapshot_of([ENTRY] * 9))
    for n in (1, 5, len(whole) // 2, len(whole) - 1):
        yield f"cut off at {n}", whole[:n]
    for protocol in (0, 1):
        yield f"protocol {protocol}", pickle.dumps(snapshot_of([ENTRY]), protocol=protocol)


def all_files() -> dict[str, bytes]:
    """Each of them, none of which is a snapshot."""
    return dict(one for of_kind in (imports, structures, values, files) for one in of_kind())


@cache
def shared() -> dict[str, bytes]:
    """Snapshots that are small as files and large in what they name: read or refused, but cheap either way."""
    frames = [FRAME] * 1_000_000
    many = [ENTRY | {"frames": frames, "addr": i * 512} for i in range(1000)]
    long_name = FRAME | {"name": "at::_ops::" + "x" * 1_000_000}
    frees = [ENTRY | {"action": "free_requested", "addr": i} for i in range(9999)]
    snapshots = {
        "a stack of a million frames, a thousand times": snapshot_of(many),
        "one event a million times": snapshot_of([ENTRY] * 1_000_000),
        "one event 400,000 times": snapshot_of([ENTRY] * 400_000),
        "one segment 200,000 times": snapshot_of([ENTRY], segments=[SEGMENT] * 200_000),
        "sizes of 2^62": snapshot_of([ENTRY | {"size": 2**62, "addr": i} for i in range(1000)]),
        "a history that only frees": snapshot_of(frees),
        "a name of a million letters": snapshot_of([ENTRY | {"frames": [long_name]}]),
        "maps and unmaps": snapshot_of(
            [ENTRY | {"action": ("segment_map", "segment_unmap")[i % 2], "addr": i * 7} for i in range(100_000)]
        ),
        "nothing but out of memory": snapshot_of([ENTRY | {"action": "oom"} for _ in range(50_000)]),
    }  # fmt: skip
    return {name: pickle.dumps(value) for name, value in snapshots.items()}


def near_the_limit(n_bytes: int) -> dict[str, Callable[[], bytes]]:
    """Pickles of nearly so many bytes, each as costly as its kind of instruction allows."""

    def filled(head: bytes, unit: bytes, tail: bytes) -> bytes:
        return PROTO + head + unit * ((n_bytes - len(head) - len(tail) - 9) // len(unit)) + tail

    return {
        "empty lists": lambda: filled(b"](", b"]" * 900 + b"e(", b"e."),
        "dicts of one": lambda: filled(b"](", b"}K\x01Ns" * 900 + b"e(", b"e."),
        "numbers": lambda: filled(b"](", b"J\xff\xff\xff\x7f" * 900 + b"e(", b"e."),
        "small numbers": lambda: filled(b"](", b"M\xff\x7f" * 900 + b"e(", b"e."),
        "memo": lambda: filled(b"]", b"\x94", b"."),
        "memo and gets": lambda: filled(b"]\x94", b"h\x00a", b"."),
        "empty tuples": lambda: filled(b"](", b")" * 900 + b"e(", b"e."),
        "tuples of one": lambda: filled(b"](", b")\x85" * 900 + b"e(", b"e."),
        "strings": lambda: filled(b"](", b"\x8c\x01a" * 900 + b"e(", b"e."),
        "wide strings": lambda: filled(b"](", b"X\xfc\xff\x0f\x00" + "😀".encode() + b"a" * (2**20 - 8), b"e."),
        "one string": lambda: PROTO + b"X" + struct.pack("<I", n_bytes - 20) + b"a" * (n_bytes - 20) + b".",
        "frames": lambda: filled(b"", b"\x95" + bytes(8), b"N."),
        "a snapshot": lambda: large_snapshot(n_bytes),
    }


def large_snapshot(n_bytes: int) -> bytes:
    """A snapshot of nearly so many bytes, with stacks as PyTorch writes them."""
    frames = [FRAME | {"line": i, "name": f"at::_ops::add_{i}::call("} for i in range(200)]
    entries = [
        ENTRY | {"addr": 2**40 + i * 2, "time_us": 2**50 + i, "size": 9999 + i, "frames": frames[i % 99 : i % 99 + 40]}
        for i in range(n_bytes // 260)
    ]  # fmt: skip
    return pickle.dumps(snapshot_of(entries))[:n_bytes]
