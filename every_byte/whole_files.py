"""Files that are written as a whole or not at all: Ctrl-C or a full disk leaves what was there, and nothing else."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

# While "cuda" is simulated, a program's own calls are seen to (gpu/cuda/overwriting.py): these are not its own.
_open, _replace, _remove = open, os.replace, os.remove


def write_whole(path: str | Path, content: str | bytes) -> None:
    """Write a file beside it, which then takes its place, with its mode; text is UTF-8.

    Raises: PermissionError for a file that may not be written, FileNotFoundError for a folder that is not there.
    Counts: a device or a pipe, and a file in a folder where no other can be made, are written to as they are.
    """
    place = os.path.realpath(path)
    if os.path.isfile(place) and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    if not os.path.isdir(os.path.dirname(place)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    data = content.encode() if isinstance(content, str) else content
    if not os.path.isfile(place) and os.path.exists(place):
        return _write(place, data)
    partial = f"{place}.{os.getpid()}.partial"
    try:
        try:
            _write(partial, data)
        except PermissionError:
            if not os.path.isfile(place):
                raise
            return _write(place, data)
        with suppress(FileNotFoundError):
            os.chmod(partial, stat.S_IMODE(os.stat(place).st_mode))
        _replace(partial, place)
    except BaseException:
        with suppress(FileNotFoundError):
            _remove(partial)
        raise


def _write(place: str, data: bytes) -> None:
    with _open(place, "wb") as file:
        file.write(data)
