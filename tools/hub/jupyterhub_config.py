"""A JupyterHub for a class on one Linux server: `jupyterhub -f tools/hub/jupyterhub_config.py`, as root.

book/jupyterhub.md explains each part; benchmarks/classroom.py starts a class by it and tries what it should refuse.
Who may log in: members of the Unix group `class`, or of the one that EVERY_BYTE_GROUP names.
"""

import os
import pwd
import subprocess
import sys
from pathlib import Path

BOOK = Path(__file__).resolve().parents[2]  # one installation for all: root's, and nobody else can write to it
BIN, SHARE = Path(sys.prefix) / "bin", BOOK / "tools" / "hub" / "share"
sys.path.insert(0, str(BOOK))

from tools import lab_extension  # noqa: E402

GiB = 2**30
DATA_BYTES = 2 * GiB  # of each process of a user: a kernel that asks for more gets a MemoryError
N_TASKS = 512  # processes and threads of a user, all together
IDLE_KERNEL_S, IDLE_SERVER_S = 60 * 60, 120 * 60
THREADS_AND_ARENAS = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}  # many users share few cores


def copy_chapters(name: str) -> None:
    """Lays a copy of the chapters into a user's home, by that user's rights, unless a folder `every-byte` is there.

    Raises: PermissionError for a home that others can enter.
    """
    user = pwd.getpwnam(name)
    home = Path(user.pw_dir)
    if home.stat().st_mode & 0o077:
        raise PermissionError(f"others can enter {home}: chmod 700 {home}")
    folder = home / "every-byte"
    if os.path.lexists(folder):
        return
    rights = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": home, "env": {}, "umask": 0o077}
    for command in (["mkdir", str(folder)], ["cp", "-R", str(BOOK / "chapters"), str(folder)]):
        subprocess.run([f"/bin/{command[0]}", *command[1:]], check=True, **rights)


def runtime_folder(name: str) -> str:
    """Where a user's kernels have their sockets: in the home, by a short name, for a socket's path has 107 bytes."""
    return str(Path(pwd.getpwnam(name).pw_dir) / ".run")


c = get_config()  # noqa: F821, which JupyterHub defines

# Who: Unix users of one group, each by the password that the server has of them.
c.JupyterHub.authenticator_class = "pam"
c.LocalAuthenticator.allowed_groups = {os.environ.get("EVERY_BYTE_GROUP", "class")}
c.PAMAuthenticator.open_sessions = False

# Where: this machine alone; the web server in front of it brings TLS.
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.ConfigurableHTTPProxy.command = [str(BOOK / "build" / "hub" / "node_modules" / ".bin" / "configurable-http-proxy")]
c.JupyterHub.shutdown_on_logout = True

# What: JupyterLab on the user's own copy of the chapters. Limits are set before it starts, and cannot be raised.
LIMITS = ["prlimit", f"--data={DATA_BYTES}", f"--nproc={N_TASKS}", "--core=0"]
c.Spawner.cmd = [*LIMITS, str(BIN / "jupyterhub-singleuser")]
c.Spawner.pre_spawn_hook = lambda spawner: copy_chapters(spawner.user.name)
c.Spawner.notebook_dir = "~/every-byte"
c.Spawner.default_url = "/lab/tree/chapters/00_start_here.ipynb"
c.Spawner.disable_user_config = True
c.Spawner.start_timeout = c.Spawner.http_timeout = 180  # of a whole class that comes at once
c.Spawner.environment = THREADS_AND_ARENAS | {
    "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
    "JUPYTER_RUNTIME_DIR": lambda spawner: runtime_folder(spawner.user.name),
    "JUPYTER_PATH": str(SHARE),  # its kernel has no TCP port: tools/hub/kernel.py
    "JUPYTER_CONFIG_PATH": str(SHARE),  # JupyterLab ends a kernel when its notebook is closed
    "PYTHONDONTWRITEBYTECODE": "1",
}
c.Spawner.args = [
    "--KernelManager.transport=ipc",  # sockets in the runtime folder, whose file modes keep others out; no port
    "--ServerApp.contents_manager_class=tools.lab_contents.Chapters",
    "--ServerApp.kernel_websocket_connection_class=tools.lab_channels.AtOnce",
    f"--LabApp.extra_labextensions_path={lab_extension.build(BOOK / 'build' / 'lab')}",
    f"--MappingKernelManager.cull_idle_timeout={IDLE_KERNEL_S}",
    "--MappingKernelManager.cull_interval=120",  # of kernels that no open tab shows; a reader's own stays
]

# Until when: a server at which nobody works ends.
CULLS = [sys.executable, "-m", "jupyterhub_idle_culler", f"--timeout={IDLE_SERVER_S}"]
MAY = ["list:users", "read:users:activity", "read:servers", "delete:servers"]
c.JupyterHub.services = [{"name": "culler", "command": CULLS}]
c.JupyterHub.load_roles = [{"name": "culler", "scopes": MAY, "services": ["culler"]}]
