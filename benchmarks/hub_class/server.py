"""A JupyterHub by tools/hub/jupyterhub_config.py, on loopback, for the time of one run."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from tools.hub.proxy import install

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "tools" / "hub" / "jupyterhub_config.py"
MARK = "EVERY_BYTE_CLASSROOM"
"""In the environment of each process that a run starts as root, with a word that is its own."""
START_S = 120


@contextlib.contextmanager
def hub(group: str, state: Path, port: int = 0) -> Iterator[str]:
    """Starts it for the members of a group, with its files in `state`; yields its address, and ends it and its proxy.

    Raises: RuntimeError, with the end of its log, for one that does not start.
    """
    install()
    word, ports = secrets.token_hex(8), free_ports(3)
    address = f"http://127.0.0.1:{port or ports[0]}"
    command = [
        Path(sys.prefix) / "bin" / "jupyterhub", "-f", CONFIG, f"--JupyterHub.bind_url={address}",
        f"--JupyterHub.hub_bind_url=http://127.0.0.1:{ports[1]}",
        f"--ConfigurableHTTPProxy.api_url=http://127.0.0.1:{ports[2]}",
    ]  # fmt: skip
    state.mkdir(mode=0o700)
    environment = os.environ | {MARK: word, "EVERY_BYTE_GROUP": group}
    with open(state / "hub.log", "wb") as log:
        process = subprocess.Popen(
            command,
            cwd=state,
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        _wait_until_up(address, process, state / "hub.log")
        yield address
    finally:
        process.terminate()  # it ends the users' servers and its proxy itself
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        for pid in marked(word):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def free_ports(n: int) -> list[int]:
    """Ports of loopback that nobody listens at."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(n)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def marked(word: str) -> list[int]:
    """The processes that have a run's mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{MARK}={word}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found


def _wait_until_up(address: str, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"{address}/hub/api/", timeout=5).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"JupyterHub did not start: {log.read_text(encoding='utf-8', errors='replace')[-3000:]}")
