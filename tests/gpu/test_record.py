"""The command that records cases on this machine's own GPU."""

import pytest
import torch

from every_byte.gpu import record


def test_without_a_gpu_the_recorder_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as stopped:
        record.main(["three_tensors", "--out", str(tmp_path / "out")])
    assert stopped.value.code == 2
    assert (
        "python -m every_byte.gpu.record: a live GPU needs a CUDA build of PyTorch and a GPU" in capsys.readouterr().err
    )
    assert not (tmp_path / "out").exists()
