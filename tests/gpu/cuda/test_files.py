"""Checkpoints of a GPU that stands for "cuda": with holes on the disk, mapped and not read, whole for others."""

import io
import os
import subprocess
import sys

import pytest
import torch
from places import ROOT
from torch import nn

from utils import SimulatedGPU

MiB = 1 << 20


def disk_bytes(path) -> int:
    return os.stat(path).st_blocks * 512


def test_a_large_model_takes_little_of_the_disk(gpu, tmp_path):
    m = nn.Linear(8192, 8192, bias=False, device="cuda")
    torch.save(m.state_dict(), tmp_path / "m.pt")
    assert os.stat(tmp_path / "m.pt").st_size > 256 * MiB
    assert disk_bytes(tmp_path / "m.pt") < 1 * MiB
    read = torch.load(tmp_path / "m.pt")
    assert (read["weight"].device, read["weight"].shape) == (torch.device("cuda", 0), (8192, 8192))
    assert gpu.memory_allocated() == 2 * 256 * MiB


def test_shared_storages_are_shared_again(gpu, tmp_path):
    x = torch.zeros(100, 100, device="cuda")
    torch.save({"x": x, "row": x[3], "same": x, "other": torch.zeros(10)}, tmp_path / "x.pt")
    before = gpu.memory_allocated()
    read = torch.load(tmp_path / "x.pt")
    assert gpu.memory_allocated() - before == 40448
    assert read["row"].data_ptr() - read["x"].data_ptr() == 1200
    assert read["x"].data_ptr() == read["same"].data_ptr() != x.data_ptr()
    assert read["other"].device == torch.device("cpu")


def test_what_is_known_is_kept(gpu):
    file = io.BytesIO()
    torch.save(torch.tensor([1, 2, 3], device="cuda"), file)
    file.seek(0)
    assert torch.load(file, map_location="cpu").tolist() in ([1, 2, 3], [0, 0, 0])  # values are not promised


READ_ALONE = """
import sys, torch
read = torch.load(sys.argv[1], map_location="cpu")
print(read["weight"].device, tuple(read["weight"].shape), float(read["weight"].abs().max()), read["n"].tolist())
"""


@pytest.mark.nightly
def test_others_read_zeros_without_a_simulated_gpu(gpu, tmp_path):
    torch.save({"weight": torch.ones(1000, 1000, device="cuda"), "n": torch.tensor([7, 8])}, tmp_path / "x.pt")
    run = subprocess.run(
        [sys.executable, "-c", READ_ALONE, tmp_path / "x.pt"], capture_output=True, text=True, timeout=120
    )
    assert run.stdout.strip() == "cpu (1000, 1000) 0.0 [7, 8]", run.stderr


@pytest.mark.parametrize(
    ("map_location", "device"),
    [
        (None, "cuda:0"), ("cpu", "cpu"), ("cuda", "cuda:0"), ("cuda:0", "cuda:0"), (torch.device("cuda"), "cuda:0"),
        ({"cuda:0": "cpu"}, "cpu"), (lambda storage, place: storage, "cpu"),
        (lambda storage, place: storage.cuda(), "cuda:0"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mmap", [None, True, False])
def test_where_it_goes(gpu, tmp_path, map_location, device, mmap):
    torch.save(torch.zeros(100, device="cuda"), tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt", map_location=map_location, mmap=mmap).device == torch.device(device)


@pytest.mark.parametrize("old", [False, True])
def test_a_buffer_and_an_old_file(gpu, old):
    file = io.BytesIO()
    torch.save(nn.Linear(10, 10, device="cuda"), file, _use_new_zipfile_serialization=not old)
    file.seek(0)
    assert torch.load(file, weights_only=False).weight.device == torch.device("cuda", 0)


def test_an_optimizers_state(gpu, tmp_path):
    m = nn.Linear(100, 100, device="cuda")
    optimizer = torch.optim.AdamW(m.parameters())
    m(torch.zeros(2, 100, device="cuda")).sum().backward()
    optimizer.step()
    torch.save(optimizer.state_dict(), tmp_path / "o.pt")
    before = gpu.memory_allocated()
    optimizer.load_state_dict(torch.load(tmp_path / "o.pt"))
    assert gpu.memory_allocated() == before
    state = optimizer.state[m.weight]
    assert (state["step"].device.type, state["exp_avg"].device, state["step"].item()) == (
        "cpu",
        torch.device("cuda", 0),
        1.0,
    )
    optimizer.step()


@pytest.mark.long
def test_loading_a_real_checkpoint_reads_only_sizes(tmp_path):
    """Two GiB with holes: read, they would be two GiB of this process's memory."""
    with torch.serialization.skip_data():
        torch.save({"x": torch.empty(2 << 29)}, tmp_path / "x.pt")
    source = f"""
import resource, torch
from utils import SimulatedGPU
with SimulatedGPU("a100-80gb", cuda=True) as gpu:
    torch.zeros(1, device="cuda")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    x = torch.load({str(tmp_path / "x.pt")!r}, map_location="cuda")["x"]
    print(x.device, gpu.memory_allocated() >> 30, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000)
"""
    run = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.stdout.strip() == "cuda:0 4 True", run.stderr


def test_a_file_of_another_gpu_is_of_this_one():
    file = io.BytesIO()
    with SimulatedGPU("a100-80gb", cuda=True):
        torch.save(torch.zeros(1000, device="cuda"), file)
    file.seek(0)
    with SimulatedGPU("t4-16gb", cuda=True) as gpu:
        x = torch.load(file)
        assert (x.device, gpu.memory_allocated()) == (torch.device("cuda", 0), 4096)


def saved_twice(path, first, second):
    torch.save(first, path)
    torch.save(second, path)


def test_a_checkpoint_that_was_there_is_kept_beside_weights_without_values(tmp_path):
    path, other = tmp_path / "best.pt", tmp_path / "host.pt"
    values = torch.arange(100_000.0)
    torch.save({"w": values}, path)
    torch.save({"w": values}, other)
    with SimulatedGPU("a100-80gb", cuda=True):
        m = nn.Linear(300, 300, device="cuda")
        with pytest.warns(UserWarning, match=r"what was there as best.pt is now best.pt.kept"):
            saved_twice(path, m.state_dict(), m.state_dict())  # it warns, and keeps, once
        saved_twice(other, {"w": values + 1}, {"w": values + 2})  # the host's: as ever
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best.pt", "best.pt.kept", "host.pt"]
    assert torch.load(tmp_path / "best.pt.kept")["w"].equal(values)
    assert torch.load(other)["w"].equal(values + 2)
    assert torch.load(path, map_location="cpu")["weight"].eq(0).all()
    with SimulatedGPU("a100-80gb", cuda=True):  # another run finds a file with holes, and keeps none
        torch.save(nn.Linear(300, 300, device="cuda").state_dict(), path)
    torch.save({"w": values + 3}, path)
    with (
        SimulatedGPU("a100-80gb", cuda=True),
        pytest.warns(UserWarning, match="what was there as best.pt is now best.pt.kept2"),
    ):
        torch.save(nn.Linear(300, 300, device="cuda").state_dict(), path)
    assert torch.load(tmp_path / "best.pt.kept2")["w"].equal(values + 3)


def test_a_file_may_be_saved_over_while_its_tensors_are_held(gpu, tmp_path):
    torch.save({"w": torch.ones(512, 512)}, tmp_path / "m.pt")
    read = torch.load(tmp_path / "m.pt")  # of the CPU, mapped
    torch.save({"w": read["w"][:1].clone()}, tmp_path / "m.pt")
    assert read["w"].sum() == 512 * 512


def test_what_fails_to_save_leaves_what_was_there(gpu, tmp_path):
    torch.save({"w": torch.ones(3)}, tmp_path / "m.pt")
    with pytest.raises(Exception, match="pickle|Can't get local object"):  # the latter in 3.13
        torch.save({"w": lambda: None}, tmp_path / "m.pt")
    assert [p.name for p in tmp_path.iterdir()] == ["m.pt"]
    assert torch.load(tmp_path / "m.pt")["w"].equal(torch.ones(3))
