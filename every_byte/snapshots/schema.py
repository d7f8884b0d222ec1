"""Sees that a value is what PyTorch's memory snapshots hold, and names the place of what is not; each object once."""

from collections.abc import Callable, Iterable
from typing import Any

MOST_SIZE_BYTES = 2**62
MOST_ADDRESS = 2**64 - 1
EVENT_BYTES = 2048
"""So much memory is counted for each event and each block, when it is decided whether there are too many."""

Check = Callable[[object, str], None]


_KINDS = {kind: i for i, kind in enumerate(("frames", "frame", "segment", "block", "entry", "annotation"))}


class NotASnapshot(ValueError):
    """A value that no PyTorch has written as a snapshot; the message says where and why."""


class TooMany(NotASnapshot):
    """More events and blocks than are allowed."""


class Checker:
    """Checks one snapshot: what is shared is checked where it is met first, so that the work is that of its objects.

    Counts: events and blocks as often as they are named, of which there may be `most` in all.
    Raises: NotASnapshot.
    """

    def __init__(self, most: int) -> None:
        self._seen: set[int] = set()
        self._left = self._most = most

    def snapshot(self, value: Any) -> None:
        """Check all of it."""
        if type(value) is not dict or "device_traces" not in value or "segments" not in value:
            raise NotASnapshot(
                f"a snapshot must be a dict with segments and device_traces: got {_said(value)}; write one with "
                "torch.cuda.memory._dump_snapshot(path)."
            )
        self._each(value["segments"], "segments", self.segment)
        self._list(value["device_traces"], "device_traces")
        for number, entries in enumerate(value["device_traces"]):
            self._each(entries, f"device_traces[{number}]", self.entry)
        self._each(value.get("external_annotations", []), "external_annotations", self.annotation)
        self.settings(value.get("allocator_settings", {}), "allocator_settings")

    def entry(self, value: Any, path: str) -> None:
        """One event."""
        _fields(value, path, {"action": _word, "size": _size, "stream": _address})
        if value["action"] != "oom" or "addr" in value:
            _fields(value, path, {"addr": _address})
        _optional(value, path, {"device_free": _size, "time_us": _time, "pool_id": _pool, "user_metadata": _word})
        self.frames(value.get("frames", []), f"{path}.frames")

    def segment(self, value: Any, path: str) -> None:
        """One segment with its blocks."""
        _fields(value, path, {"address": _address, "total_size": _size, "segment_type": _word})
        _optional(
            value,
            path,
            {"device": _size, "stream": _address, "allocated_size": _size, "active_size": _size,
             "requested_size": _size, "segment_pool_id": _pool, "is_expandable": _truth},
        )  # fmt: skip
        self.frames(value.get("frames", []), f"{path}.frames")
        self._each(value.get("blocks", []), f"{path}.blocks", self.block)

    def block(self, value: Any, path: str) -> None:
        """One block."""
        _fields(value, path, {"size": _size, "state": _word})
        _optional(value, path, {"address": _address, "requested_size": _size})
        self.frames(value.get("frames", []), f"{path}.frames")

    def annotation(self, value: Any, path: str) -> None:
        """The beginning or the end of something that was named."""
        _fields(value, path, {"stage": _word, "name": _word, "time_us": _time})
        _optional(value, path, {"device": _device})

    def settings(self, value: Any, path: str) -> None:
        """The allocator's settings: words and numbers, or one level of such."""
        if type(value) is not dict:
            raise NotASnapshot(f"{path} must be a dict: got {_said(value)}.")
        for name, setting in value.items():
            if type(setting) is dict:
                setting = tuple(setting.values())
            for one in setting if type(setting) in (list, tuple) else [setting]:
                if type(one) not in (str, int, float, bool, type(None)):
                    raise NotASnapshot(f"{path}[{_short(name)}] must be a word or a number: got {_said(one)}.")

    def frames(self, value: Any, path: str) -> None:
        """A call stack."""
        if self._is_new(value, _KINDS["frames"]):
            self._list(value, path)
            for number, frame in enumerate(value):
                if self._is_new(frame, _KINDS["frame"]):
                    _fields(frame, f"{path}[{number}]", {"name": _word, "filename": _word, "line": _line})

    def _each(self, values: Any, path: str, check: Check) -> None:
        """Check a list's values, those that are one object once."""
        self._list(values, path)
        self._left -= len(values)
        if self._left < 0:
            raise TooMany(
                f"a snapshot must have at most {self._most:,d} events and blocks: {path} has {len(values):,d}."
            )
        kind = _KINDS[check.__name__]
        for number, value in enumerate(values):
            if self._is_new(value, kind):
                check(value, f"{path}[{number}]")

    def _is_new(self, value: Any, kind: int) -> bool:
        before = len(self._seen)
        self._seen.add(id(value) * len(_KINDS) + kind)
        return len(self._seen) > before

    def _list(self, value: Any, path: str) -> None:
        if type(value) not in (list, tuple):
            raise NotASnapshot(f"{path} must be a list: got {_said(value)}.")


def check(snapshot: Any, most_bytes: int) -> None:
    """See that it is what `torch.cuda.memory._dump_snapshot()` writes; of an older PyTorch, too.

    Raises: NotASnapshot.
    """
    Checker(most_bytes // EVENT_BYTES).snapshot(snapshot)


def _fields(value: Any, path: str, checks: dict[str, Check]) -> None:
    if type(value) is not dict:
        raise NotASnapshot(f"{path} must be a dict: got {_said(value)}.")
    for name, check_ in checks.items():
        if name not in value:
            raise NotASnapshot(f"{path} must have {name!r}: it has {_names(value)}.")
        check_(value[name], f"{path}.{name}")


def _optional(value: dict[str, Any], path: str, checks: dict[str, Check]) -> None:
    _fields(value, path, {name: check_ for name, check_ in checks.items() if value.get(name) is not None})


def _number(low: int, high: int, said: str) -> Check:
    def check_(value: Any, path: str) -> None:
        if type(value) is not int or not low <= value <= high:
            raise NotASnapshot(f"{path} must be a whole number, {said}: got {_said(value)}.")

    return check_


_size = _number(0, MOST_SIZE_BYTES, "0 or more, and no more than 2^62")
_address = _number(0, MOST_ADDRESS, "0 or more, of 64 bits")
_time = _number(-MOST_SIZE_BYTES, MOST_SIZE_BYTES, "of 64 bits")
_line = _number(-(2**31), 2**32, "of 32 bits")
_device = _number(-1, 2**31, "-1 or more")


def _word(value: Any, path: str) -> None:
    if type(value) is not str:
        raise NotASnapshot(f"{path} must be a string: got {_said(value)}.")


def _truth(value: Any, path: str) -> None:
    if type(value) is not bool:
        raise NotASnapshot(f"{path} must be True or False: got {_said(value)}.")


def _pool(value: Any, path: str) -> None:
    if type(value) not in (list, tuple) or len(value) != 2 or any(type(part) is not int for part in value):
        raise NotASnapshot(f"{path} must be two whole numbers: got {_said(value)}.")


def _said(value: Any) -> str:
    """A value in a message: itself if it is short and plain, else its kind."""
    if type(value) in (str, int, float, bool, type(None)):
        return _short(value)
    return f"a {type(value).__name__}" + (f" of {len(value):,d}" if type(value) in (list, tuple, dict) else "")


def _short(value: Any) -> str:
    text = ascii(value[:60] if type(value) is str else value)
    return text if len(text) <= 66 else f"{text[:60]}…"


def _names(value: Iterable[Any]) -> str:
    names = [_short(name) for name, _ in zip(value, range(12))]
    return ", ".join(names) or "nothing"
