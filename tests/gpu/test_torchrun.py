"""Real ranks, which torchrun starts and gloo connects: beside one process and simulated ranks, and when one fails."""

import re
import socket
from datetime import timedelta

import pytest
import torch.distributed as dist
from torchrun import SUMMED_IN_ANOTHER_ORDER, Run

from every_byte.gpu import ranks as parallel
from every_byte.gpu.ranks import ranks


@pytest.mark.long
@pytest.mark.parametrize("n", [2, pytest.param(4, marks=pytest.mark.nightly)])
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


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_ranks_that_do_not_divide_the_heads(tmp_path):
    run = Run(3, tmp_path, "refuse")
    assert run.status != 0
    assert not run.left
    message = "the number of ranks must divide n_heads: got 3 ranks, n_heads=4; take 2 ranks, or 6 heads for 3."
    assert f"ValueError: {message}" in run.printed
    assert "has lost another rank" not in run.printed


@pytest.mark.nightly
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


@pytest.mark.long
def test_a_rank_that_never_comes(as_rank_0):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    as_rank_0(port)
    with pytest.raises(RuntimeError, match="rank 0 of 2 has lost another rank: .* waiting for 1 s; the first"), ranks():
        pass
