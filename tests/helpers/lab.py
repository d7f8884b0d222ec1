"""JupyterLab in a real Chromium, on a copy of the chapters: for the browser tests and for the slider benchmark."""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from places import ROOT

from tools import lab_extension
from tools.chromium import chromium

START_SECONDS = 120  # a first start on a slow machine; it takes 3 to 5 here


@contextlib.contextmanager
def lab_server(folder: Path, scratch: Path):
    """A JupyterLab on `folder`, loopback only, that keeps its own files in `scratch`; yields (address, token)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", f"--ServerApp.root_dir={folder}", f"--IdentityProvider.token={token}",
        "--ServerApp.contents_manager_class=tools.lab_contents.Chapters",
        "--ServerApp.kernel_websocket_connection_class=tools.lab_channels.AtOnce",
        f"--LabApp.extra_labextensions_path={lab_extension.build(scratch / 'extensions')}",
    ]  # fmt: skip
    log_path = scratch / "server.log"
    with open(log_path, "wb") as log:
        server = subprocess.Popen(command, cwd=folder, env=_environment(scratch), stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_until_up(address, token, server, log_path)
        yield address, token
    finally:
        server.terminate()  # the server ends its kernels itself
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _environment(scratch: Path) -> dict[str, str]:
    settings = scratch / "settings"
    extension = settings / "@jupyterlab" / "apputils-extension"
    extension.mkdir(parents=True, exist_ok=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (extension / "notification.jupyterlab-settings").write_text(json.dumps(quiet), encoding="utf-8")
    theme = {"theme": "JupyterLab Light"}
    (extension / "themes.jupyterlab-settings").write_text(json.dumps(theme), encoding="utf-8")
    return os.environ | {
        "JUPYTER_CONFIG_DIR": str(scratch / "config"),
        "JUPYTER_DATA_DIR": str(scratch / "data"),
        "JUPYTER_RUNTIME_DIR": str(scratch / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(scratch / "workspaces"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }


def _wait_until_up(address: str, token: str, server: subprocess.Popen, log_path: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            urllib.request.urlopen(f"{address}/api/status?token={token}", timeout=5).close()
            return
        time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start: {log_path.read_text(encoding='utf-8', errors='replace')[-2000:]}")


def run_notebook(page, address: str, token: str, name: str, timeout_s: int = 240) -> None:
    """Opens a notebook in Lab, runs all its cells from the Run menu, and waits until all are done.

    It opens in a workspace of its own, in which no other notebook is open.
    """
    workspace = name.replace("/", "-").removesuffix(".ipynb")
    page.goto(f"{address}/lab/workspaces/{workspace}/tree/{name}?token={token}")
    page.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=START_SECONDS * 1000)
    page.get_by_text("| Idle").wait_for(timeout=START_SECONDS * 1000)  # the status bar: the kernel is there
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    indicator = '.jp-Notebook-ExecutionIndicator[data-status="{}"]'  # busy while any cell is still to run
    page.wait_for_selector(indicator.format("busy"), timeout=START_SECONDS * 1000)
    page.wait_for_selector(indicator.format("idle"), timeout=timeout_s * 1000)


class Lab:
    """A JupyterLab for many notebooks, one after the other, each in a folder of its own."""

    def __init__(self, folder: Path, address: str, token: str) -> None:
        self.folder, self.address, self.token = folder, address, token
        self._n_opened = 0

    @contextlib.contextmanager
    def opened(self, notebook: Path, **context_options):
        """A page with a notebook's copy open, all its cells run. Nothing is written beside the notebook itself."""
        self._n_opened += 1
        place = f"book{self._n_opened}"
        shutil.copytree(notebook.parent, self.folder / place)
        with chromium(**context_options) as page:
            run_notebook(page, self.address, self.token, f"{place}/{notebook.name}")
            yield page
        self.end_kernels()

    def end_kernels(self) -> None:
        """One that is just starting again cannot be ended yet: it is asked once more."""
        deadline = time.monotonic() + START_SECONDS
        while sessions := json.loads(asked(self.address, self.token, "sessions")):
            for session in sessions:
                with contextlib.suppress(urllib.error.HTTPError):
                    asked(self.address, self.token, f"sessions/{session['id']}", "DELETE")
            assert time.monotonic() < deadline, f"kernels that do not end: {sessions}"
            time.sleep(0.1)


def asked(address: str, token: str, path: str, method: str = "GET") -> bytes:
    """What the server's interface answers."""
    header = {"Authorization": f"token {token}"}
    with urllib.request.urlopen(urllib.request.Request(f"{address}/api/{path}", None, header, method=method)) as answer:
        return answer.read()
