"""What a user should not be able to do, tried: each way is tried by a stranger and by the owner, who must get in.

A way that shuts the owner out too proves nothing, so it counts as failed.
"""

import contextlib
import json
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tornado.httpclient import HTTPClientError

from .browser import Browser, Kernel
from .people import listening_ports

IN, REFUSED = "let in", "refused"
ASK = """
import urllib.error, urllib.request
asked = urllib.request.Request({url!r}, headers={{"Authorization": "token {token}"}})
try:
    urllib.request.urlopen(asked, timeout=60).read()
except urllib.error.HTTPError as error:
    if error.code in (401, 403, 404):
        raise PermissionError(error.code) from None
    raise
"""
CONNECT = "import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
TRY = """
try:
{action}
    print({let_in!r})
except {error}:
    print({refused!r})
"""


@dataclass(frozen=True)
class Attempt:
    """One way: what came of it for a stranger, and for the owner; `owner` is None where nobody has a right."""

    what: str
    stranger: str
    owner: str | None

    @property
    def holds(self) -> bool:
        """Whether the stranger was refused, and nobody else."""
        return self.stranger == REFUSED and self.owner in (IN, None)


@dataclass(frozen=True)
class Seat:
    """A user in class: browser, a kernel of theirs, the folder of their kernels' sockets."""

    browser: Browser
    kernel: Kernel
    runtime: Path


def by_status(code: int) -> str:
    """What an answer's status says: let in, refused, or neither."""
    if 200 <= code < 300:
        return IN
    return REFUSED if code in (401, 403, 404) else f"neither: status {code}"


async def in_kernel(kernel: Kernel, action: str, error: str = "PermissionError") -> str:
    """What comes of a piece of Python in a kernel: refused where it raises that error, neither where another."""
    indented = "\n".join(f"    {line}" for line in action.splitlines())
    outputs = await kernel.run(TRY.format(action=indented, let_in=IN, refused=REFUSED, error=error), stops=False)
    said = "".join(output.get("text", output.get("evalue", "")) for output in outputs).strip()
    return said if said in (IN, REFUSED) else f"neither: {said[:200]}"


async def everything(stranger: Seat, owner: Seat, writable_for_root: Path, too_many_bytes: int) -> list[Attempt]:
    """All ways, one after the other."""
    tried = [await both(what, way, stranger, owner) for what, way in ways(owner).items()]
    write = f"open({str(writable_for_root / 'written')!r}, 'w')"
    tried.append(Attempt("write to the installation", await in_kernel(stranger.kernel, write), None))
    fill = await in_kernel(stranger.kernel, f"bytearray({too_many_bytes})", "MemoryError")
    tried.append(Attempt("take more memory than the limit", fill, None))
    return [*tried, Attempt("find a TCP port of another's kernel", ports_of_kernels(owner), None)]


async def both(what: str, way: Callable[[Seat], Awaitable[str]], stranger: Seat, owner: Seat) -> Attempt:
    """The same way by both."""
    return Attempt(what, await way(stranger), await way(owner))


def ways(owner: Seat) -> dict[str, Callable[[Seat], Awaitable[str]]]:
    """Each way to what is the owner's, as a function of who goes it."""
    person, server = owner.browser.person, owner.browser.server
    theirs = f"{server}/api/contents/chapters"
    (connection, *_), (socket, *_) = sorted(owner.runtime.glob("kernel-*.json")), sorted(owner.runtime.glob("*-ipc-1"))
    forked = max(owner.runtime.glob("forked-*"), key=os.path.getmtime)
    pid, port = server_of(person.uid)

    def python(action: str):
        return lambda seat: in_kernel(seat.kernel, action.format(token=seat.browser.token))

    async def link(seat: Seat) -> str:
        name = f"to-{person.name}.txt"
        await seat.kernel.run(f"import os; os.symlink({str(person.secret)!r}, '../{name}')")
        answer = await seat.browser.ask(f"{seat.browser.server}/api/contents/{name}")
        if person.secret.read_bytes() in answer.body:
            return IN
        return REFUSED if answer.code >= 400 else f"neither: status {answer.code}"  # a server says 500 of such a file

    async def climb(seat: Seat) -> str:
        up = quote(f"../../{person.name}/every-byte/chapters", safe="") if seat is not owner else "chapters"
        return by_status((await seat.browser.ask(f"{seat.browser.server}/api/contents/{up}")).code)

    async def by_proxy(seat: Seat) -> str:
        return by_status((await seat.browser.ask(theirs)).code)

    async def websocket(seat: Seat) -> str:
        try:
            (await seat.browser.channels(owner.kernel.id, server)).close()
        except HTTPClientError as error:
            return by_status(error.code)
        return IN

    async def new_token(seat: Seat) -> str:
        url = f"{seat.browser.address}/hub/api/users/{person.name}/tokens"
        return by_status((await seat.browser.ask(url, "POST", {})).code)

    directly = ASK.replace("{url!r}", repr(f"http://127.0.0.1:{port}/user/{person.name}/api/contents/chapters"))
    return {
        "read another's file with open()": python(f"open({str(person.secret)!r}).read()"),
        "list another's home": python(f"import os; os.listdir({str(person.home)!r})"),
        "read the environment of another's server": python(f"open('/proc/{pid}/environ').read()"),
        "read the key of another's kernel": python(f"open({str(connection)!r}).read()"),
        "connect to another's kernel's socket": python(CONNECT.format(path=str(socket))),
        "connect to the socket of another's forked processes": python(CONNECT.format(path=str(forked))),
        "reach another's server at its port, with one's own token": python(directly),
        "reach another's server by the proxy, with one's own token": by_proxy,
        "reach another's kernel by its websocket, with one's own token": websocket,
        "read another's files by a path upward, from one's own server": climb,
        "read another's file by a link, from one's own server": link,
        "make a token in another's name": new_token,
    }


def server_of(uid: int) -> tuple[int, int]:
    """Process id and port of a user's own server."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.stat().st_uid == uid else []
            if any(word.endswith(b"jupyterhub-singleuser") for word in words):
                told = re.search(rb"\0JUPYTERHUB_SERVICE_URL=http://127.0.0.1:(\d+)", (folder / "environ").read_bytes())
                return int(folder.name), int(told[1])
    raise RuntimeError(f"user {uid} has no server")


def tcp_ports(uid: int) -> set[int]:
    """Where a user's processes listen, by IPv4 and IPv6."""
    texts = [Path(f"/proc/net/{name}").read_text() for name in ("tcp", "tcp6") if os.path.exists(f"/proc/net/{name}")]
    return set().union(*(listening_ports(text, uid) for text in texts))


def ports_of_kernels(owner: Seat) -> str:
    """Refused, if the owner's kernels listen at sockets alone: the one TCP port is the server's."""
    ports = tcp_ports(owner.browser.person.uid)
    kinds = {json.loads(path.read_text())["transport"] for path in owner.runtime.glob("kernel-*.json")}
    return REFUSED if kinds == {"ipc"} and len(ports) == 1 else f"neither: {kinds} and {len(ports)} ports"
