"""Real ranks, which torchrun starts and gloo connects: beside one process and simulated ranks, and when one fails."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist

from every_byte.gpu import ranks as parallel
from every_byte.gpu.ranks import ranks

HERE = Path(__file__).resolve().parent
LIMIT_S = 180  # a run takes some ten seconds, on a machine with much else to do a few times that
MARKER = "EVERY_BYTE_RANKS"
SUMMED_IN_ANOTHER_ORDER = 1e-14  # in float64, relative to the largest number of a tensor


class Run:
    """One torchrun that has ended: its exit status, what it printed, what its ranks wrote, and who of them is left."""

    def __init__(self, n, folder, *program, options=("--standalone",), script="rank_program.py"):
        marker = uuid.uuid4().hex
        hidden = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
        environment = {key: value for key, value in os.environ.items() if key not in hidden}
        environment |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", MARKER: marker}
        environment["PYTHONPATH"] = str(HERE.parent)
        torchrun = [sys.executable, "-m", "torch.distributed.run", *options, f"--nproc-per-node={n}"]
        command = [*torchrun, str(HERE / script), *program, str(folder)]
        process = subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            self.printed, _ = process.communicate(timeout=LIMIT_S)
        finally:
            self.left = _marked(marker)
            for pid in self.left:
                os.kill(pid, signal.SIGKILL)
            process.kill()
            process.wait()
        self.status = process.returncode
        self.written = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]


def _marked(marker: str) -> list[int]:
    """The processes that carry a marker in their environment, where the system tells."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARKER}={marker}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # it has just ended, or is somebody else's
            continue
    return found


@pytest.mark.parametrize("n", [2, 4])
def test_ranks_agree_with_one_process_and_keep_what_simulated_ranks_keep(n, tmp_path):
    run = Run(n, tmp_path, "check")
    assert run.status == 0, run.printed
    assert not run.left
    assert len(run.written) == n
    for found in run.written:
        message = "all ranks must make the same model: their seeds differ; call torch.manual_seed(0) on each before"
        assert found.pop("seeds that differ").startswith(message)
        assert len(found) == 4
        for item in found.values():
            assert item["difference"] < SUMMED_IN_ANOTHER_ORDER
            assert item["kept"] == item["kept by the simulated rank"] > 0
            assert item["rows"] == item["rows of the simulated rank"]


def test_a_rank_that_dies(tmp_path):
    run = Run(2, tmp_path, "lose")
    assert run.status != 0
    assert not run.left
    assert "exitcode  : 7" in run.printed  # torchrun says who went first
    for lost in run.written:  # none, if torchrun has ended the other one before it noticed
        assert re.search("Connection closed by peer|Connection reset", lost["cause"])
        assert lost["error"].startswith(
            "rank 0 of 2 has lost another rank: it failed, or kept this one waiting for 60 s"
        )
        assert lost["seconds"] < parallel.TIMEOUT.seconds / 2, "nobody waits for a rank that is gone"


def test_ranks_that_do_not_divide_the_heads(tmp_path):
    run = Run(3, tmp_path, "refuse")
    assert run.status != 0
    assert not run.left
    message = "the number of ranks must divide n_heads: got 3 ranks, n_heads=4; take 2 ranks, or 6 heads for 3."
    assert f"ValueError: {message}" in run.printed
    assert "has lost another rank" not in run.printed


def test_torchrun_at_a_port_in_use(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = Run(2, tmp_path, "check", options=("--master-addr=127.0.0.1", f"--master-port={port}"))
    assert run.status != 0
    assert not run.left
    assert "EADDRINUSE" in run.printed
    assert str(port) in run.printed


@pytest.fixture
def as_rank_0(monkeypatch):
    """The environment of the first of two processes, whose other one is not there."""

    def set_up(port):
        for name, value in {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
            monkeypatch.setenv(name, str(value))

    monkeypatch.delenv("TORCHELASTIC_USE_AGENT_STORE", raising=False)
    monkeypatch.setattr(parallel, "TIMEOUT", timedelta(seconds=1))
    yield set_up
    assert not dist.is_initialized()


def test_a_port_in_use(as_rank_0):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        as_rank_0(port)
        message = (
            f"MASTER_PORT must be free: got {port}, which is in use; end what listens there, take another port, or "
            "start with torchrun --standalone, which finds a free one."
        )
        with pytest.raises(RuntimeError, match=message), ranks():
            pass


def test_a_rank_that_never_comes(as_rank_0):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    as_rank_0(port)
    with pytest.raises(RuntimeError, match="rank 0 of 2 has lost another rank: .* waiting for 1 s; the first"), ranks():
        pass
