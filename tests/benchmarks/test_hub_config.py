"""The configuration of a class's hub, its kernel, and the page that shows both: what can be seen without a hub."""

import json
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager
from jupyterlab_server.settings_utils import _get_overrides
from places import ROOT
from traitlets.config.loader import Config, PyFileConfigLoader

HUB = ROOT / "tools" / "hub"
CONFIG = HUB / "jupyterhub_config.py"
PAGE = (ROOT / "book" / "jupyterhub.md").read_text(encoding="utf-8")
STORED = ROOT / "book" / "classroom"
FORKS = """
import os, time
if not os.fork():
    print("of a child", flush=True)
    time.sleep(1)
    os._exit(0)
_ = os.wait()
"""


@pytest.fixture(scope="module")
def config() -> Config:
    return PyFileConfigLoader(CONFIG.name, path=str(HUB)).load_config()


@pytest.fixture(scope="module")
def named() -> dict:
    """What the file defines beside `c`."""
    names = {"get_config": Config, "__file__": str(CONFIG)}
    exec(compile(CONFIG.read_text(encoding="utf-8"), str(CONFIG), "exec"), names)
    return names


def test_unix_users_of_one_group_log_in(config, monkeypatch):
    assert config.JupyterHub.authenticator_class == "pam"
    assert config.LocalAuthenticator.allowed_groups == {os.environ.get("EVERY_BYTE_GROUP", "class")}
    assert "allow_all" not in config.Authenticator
    monkeypatch.setenv("EVERY_BYTE_GROUP", "monday")
    again = PyFileConfigLoader(CONFIG.name, path=str(HUB)).load_config()
    assert again.LocalAuthenticator.allowed_groups == {"monday"}


def test_it_listens_on_this_machine_alone(config):
    assert config.JupyterHub.bind_url.startswith("http://127.0.0.1:")


def test_a_kernel_is_reached_by_sockets_in_the_users_home(config):
    assert "--KernelManager.transport=ipc" in config.Spawner.args
    me = pwd.getpwuid(os.getuid())
    spawner = type("Spawner", (), {"user": type("User", (), {"name": me.pw_name})})
    assert config.Spawner.environment["JUPYTER_RUNTIME_DIR"](spawner) == os.path.join(me.pw_dir, ".run")


def test_limits_bind_whoever_starts_under_them(named):
    """A process under the same limits gets a MemoryError, and cannot raise them."""
    limits = named["LIMITS"]
    assert named["c"].Spawner.cmd[: len(limits)] == limits
    asks = f"bytearray({named['DATA_BYTES'] + 1})"
    run = subprocess.run([*limits, sys.executable, "-c", asks], capture_output=True, text=True)
    assert run.stderr.strip().endswith("MemoryError")
    shows = "import resource; print(resource.getrlimit(resource.RLIMIT_DATA))"
    run = subprocess.run([*limits, sys.executable, "-c", shows], capture_output=True, text=True)
    assert run.stdout.strip() == str((named["DATA_BYTES"], named["DATA_BYTES"]))


def test_who_has_come_first_has_a_copy_that_is_kept(named, tmp_path, monkeypatch):
    me = pwd.getpwuid(os.getuid())
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setattr(pwd, "getpwnam", lambda name: pwd.struct_passwd([*me[:5], str(home), me.pw_shell]))
    ran = subprocess.run
    kept = ("check", "cwd", "env", "umask")  # another user's rights are for root to take
    monkeypatch.setattr(subprocess, "run", lambda command, **how: ran(command, **{key: how[key] for key in kept}))
    named["copy_chapters"]("ada")
    copy = home / "every-byte" / "chapters" / "02_mlp_memory.ipynb"
    assert copy.read_bytes() == (ROOT / "chapters" / copy.name).read_bytes()
    assert copy.stat().st_mode & 0o077 == 0
    copy.write_text("mine")
    named["copy_chapters"]("ada")
    assert copy.read_text() == "mine"
    home.chmod(0o750)
    with pytest.raises(PermissionError, match="others can enter .*: chmod 700"):
        named["copy_chapters"]("ada")


def test_chapters_are_copied_by_the_users_rights(named, tmp_path, monkeypatch):
    """Root's would follow a link that the user has laid."""
    seen, me = [], pwd.struct_passwd(["ada", "x", 4321, 4322, "", str(tmp_path), ""])
    tmp_path.chmod(0o700)
    monkeypatch.setattr(pwd, "getpwnam", lambda name: me)
    monkeypatch.setattr(subprocess, "run", lambda command, **how: seen.append((how["user"], how["group"])))
    named["copy_chapters"]("ada")
    assert seen == [(4321, 4322)] * 2
    seen.clear()
    (tmp_path / "every-byte").symlink_to(tmp_path / "nowhere")
    named["copy_chapters"]("ada")
    assert seen == []


@pytest.mark.long
def test_the_kernel_listens_at_no_tcp_port_and_hears_the_processes_that_it_forks(monkeypatch, tmp_path):
    monkeypatch.setenv("JUPYTER_PATH", str(HUB / "share"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    manager = KernelManager(kernel_name="python3", transport="ipc", connection_file=str(tmp_path / "k.json"))
    manager.start_kernel()
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=300)
        assert manager.kernel_spec.argv[2] == "tools.hub.kernel"
        assert [path.name for path in tmp_path.glob("forked-*")] == [f"forked-{manager.provisioner.pid}"]
        assert listening(manager.provisioner.pid) == 0
        texts = []
        client.execute_interactive(
            FORKS, timeout=60, output_hook=lambda message: texts.append(message["content"].get("text", ""))
        )
        assert "of a child" in "".join(texts)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    assert list(tmp_path.glob("forked-*")) == []


def listening(pid: int) -> int:
    """How many TCP sockets of a process listen."""
    sockets = set()
    for link in os.scandir(f"/proc/{pid}/fd"):
        sockets |= set(re.findall(r"socket:\[(\d+)\]", os.readlink(link.path)))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "0A" and row[9] in sockets for row in rows)


def test_jupyterlab_ends_a_kernel_with_its_notebook(monkeypatch):
    """By an override that JupyterLab reads, of a setting that it has."""
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", str(HUB / "share"))
    (name, override), *_ = json.loads(
        (HUB / "share" / "labconfig" / "default_setting_overrides.json").read_text(encoding="utf-8")
    ).items()
    folder, plugin = name.split(":")
    schema = json.loads(
        (ROOT / os.path.join(sys.prefix, "share/jupyter/lab/schemas", folder, f"{plugin}.json")).read_text("utf-8")
    )
    assert set(override) <= set(schema["properties"])
    overrides, error = _get_overrides(os.path.join(sys.prefix, "share/jupyter/lab/settings"))
    assert (overrides[name], error) == (override, "")


def test_the_page_shows_the_file_itself():
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    text = CONFIG.read_text(encoding="utf-8")
    assert shown == text[text.index("import os") :]


def test_the_page_says_the_limits_that_the_file_sets(named):
    said = " ".join(PAGE.split())
    assert f"may have {named['DATA_BYTES'] // 2**30} GiB of data, and a user {named['N_TASKS']} processes" in said
    assert (named["IDLE_KERNEL_S"], named["IDLE_SERVER_S"]) == (3600, 2 * 3600)
    assert "after an hour without an open tab. A server stops after two idle hours." in said
    assert named["THREADS_AND_ARENAS"]["OMP_NUM_THREADS"] == "1"


def test_the_page_shows_what_was_measured():
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert shown == (STORED / "eight.txt").read_text(encoding="utf-8")


def figure(name: str, pattern: str) -> str:
    return re.search(pattern, (STORED / name).read_text(encoding="utf-8"))[1]


def test_the_page_says_what_was_measured_with_both_chapters_open_and_with_one_user():
    said = " ".join(PAGE.split())
    most = figure("open.txt", r"at most +([\d,]+) MB")
    median = re.findall(r"first at a setting +median ([\d,]+) ms", (STORED / "one.txt").read_text(encoding="utf-8"))[-1]
    load = figure("one.txt", r"([\d.]+) at work")
    assert f"They took {most} MB, which misses the aim." in said
    assert f"their median was {median} ms, at a load average of {load}," in said


@pytest.mark.parametrize("name", ["eight.txt", "open.txt"])
def test_in_what_is_stored_nobody_failed_and_everything_was_refused(name):
    assert figure(name, r"finished +(\d+ of \d+)") == "8 of 8"
    assert figure(name, r"differ +(\d+) of 8") == "0"
    refused, tried = figure(name, r"refused +(\d+ of \d+)").split(" of ")
    assert refused == tried != "0"
    assert "NO " not in (STORED / name).read_text(encoding="utf-8")


def test_the_page_says_which_aims_are_missed():
    missed = {name: aims(name) for name in ("eight.txt", "open.txt")}
    assert missed == {
        "eight.txt": ["first at a setting"],  # in chapter 4
        "open.txt": ["memory of a user, at most", "first at a setting"],
    }


def aims(name: str) -> list[str]:
    """What has missed its aim."""
    text = (STORED / name).read_text(encoding="utf-8")
    return [line[:28].strip() for line in text.splitlines() if line.endswith(": missed")]
