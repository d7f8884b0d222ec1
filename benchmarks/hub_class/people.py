"""The Unix users of a class: made for one run, watched while they work, and removed with all that is theirs."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECRET = "secret.txt"
"""A file in each home that is nobody else's business."""


@dataclass(frozen=True)
class Person:
    """A Unix user of this run."""

    name: str
    password: str
    uid: int
    home: Path

    @property
    def secret(self) -> Path:
        """The file that the others try to read."""
        return self.home / SECRET


@contextlib.contextmanager
def people(n: int, group: str, folder: Path) -> Iterator[list[Person]]:
    """Makes `n` users of a new group, homes in `folder`; ends their processes and removes them on the way out.

    A name that is taken stops it: no user that was there before is touched.
    """
    made = []
    _run("groupadd", group)
    try:
        for number in range(1, n + 1):
            made.append(_make(f"{group}-{number}", group, folder))
        yield made
    finally:
        for person in made:
            end_processes(person.uid)
            _run("userdel", person.name)
        _run("groupdel", group)
        shutil.rmtree(folder, ignore_errors=True)


def _make(name: str, group: str, folder: Path) -> Person:
    home, password = folder / name, secrets.token_urlsafe(12)
    options = ["--create-home", "--home-dir", home, "--key", "HOME_MODE=0700", "--user-group", "--groups", group]
    _run("useradd", *options, "--shell", "/bin/bash", "--comment", "a run of benchmarks/classroom.py", name)
    _run("chpasswd", told=f"{name}:{password}\n")
    person = Person(name, password, home.stat().st_uid, home)
    person.secret.write_text(secrets.token_hex(16), encoding="utf-8")
    os.chown(person.secret, person.uid, home.stat().st_gid)
    person.secret.chmod(0o644)  # readable by all, were it not for the home around it
    return person


def _run(command: str, *arguments, told: str = "") -> None:
    done = subprocess.run([command, *map(str, arguments)], input=told, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stderr.strip()}")


# --------------------------------------------------------------------------------------------------- their processes


def processes(uid: int) -> list[int]:
    """The process ids of a user."""
    found = []
    for entry in os.scandir("/proc"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                found.append(int(entry.name))
    return found


def end_processes(uid: int, patience_s: float = 20) -> None:
    """Kills all processes of a user that this run has made.

    Raises: RuntimeError for some that stay.
    """
    deadline = time.monotonic() + patience_s
    while there := [pid for pid in processes(uid) if not _is_dead(pid)]:
        for pid in there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes of user {uid} that do not end: {there}")
        time.sleep(0.1)


def _is_dead(pid: int) -> bool:
    """Gone, or a zombie, whose memory is given back."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def proportional_bytes(smaps_rollup: str) -> int:
    """The proportional set size that a process's smaps_rollup tells: shared pages count by their share."""
    found = re.search(r"^Pss:\s+(\d+) kB$", smaps_rollup, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def memory_of(uid: int) -> dict[int, int]:
    """The proportional set size of each process of a user, in bytes."""
    found = {}
    for pid in processes(uid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found[pid] = proportional_bytes(Path(f"/proc/{pid}/smaps_rollup").read_text())
    return found


def listening_ports(tcp: str, uid: int) -> set[int]:
    """The TCP ports at which a user's processes listen, from the text of /proc/net/tcp or tcp6."""
    rows = [line.split() for line in tcp.splitlines()[1:]]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and int(row[7]) == uid}
