"""Each public name shows an example, and it runs."""

import inspect
import re
import shutil

import pytest
import torch
from recorded_snapshots import FOLDER
from torch import nn

import every_byte
import every_byte.account
import utils
from every_byte.gpu import device

PUBLIC = {name: getattr(room, name) for room in (utils, every_byte.account, every_byte) for name in room.__all__}


def example_of(thing) -> str:
    """What stands behind `Example:`."""
    return re.search(r"Example:\s*(?:>>> )?(.+)", inspect.getdoc(thing))[1]


@pytest.fixture
def names(gpu, tmp_path, monkeypatch):
    """What examples name beside what is public: an open GPU, a model with its input, tokens, a snapshot's file."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(FOLDER / "leak.a100.pickle", tmp_path / "snapshot.pickle")
    model, x = nn.Linear(64, 64, device=gpu.device), torch.ones(8, 64, device=gpu.device)
    model(x)
    inputs = torch.zeros(2, 2, 16, dtype=torch.int64, device=gpu.device)
    of_torch = {"torch": torch, "nn": nn, "GPU": every_byte.gpu.protocol.GPU}
    yield PUBLIC | of_torch | {"gpu": gpu, "model": model, "x": x, "targets": inputs[1]}
    if opened := vars(device._opened).pop("gpu", None):
        opened.close()


@pytest.mark.parametrize("name", PUBLIC)
def test_it_runs(name, names, gpu):
    if name == "GPT":
        names["tokens"] = torch.zeros(2, 16, dtype=torch.int64, device=gpu.device)
    if name == "LiveGPU" and not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="GPU"):
            exec(example_of(PUBLIC[name]), names)
        return
    exec(example_of(PUBLIC[name]), names)
