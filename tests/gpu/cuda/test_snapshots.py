"""Snapshots that a program dumps: one of a real GPU that was there keeps its name and what it holds."""

import os
import pickle

import pytest
import torch

from utils import SimulatedGPU

REAL = b"a snapshot of a real GPU"
BESIDE = r"{0} was there and stays as it was: what is dumped here is of a simulated GPU, and goes to {1}\."


def there_before(path):
    """A file that the process did not write, as far as it can tell."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.write(file, REAL)
    os.close(file)


def dump(path):
    """The snapshot of one more tensor: how many requests it has."""
    x = torch.ones(300, device="cuda")
    torch.cuda.memory._dump_snapshot(path)
    del x


def requests_in(path):
    events = pickle.loads(path.read_bytes())["device_traces"][0]
    return sum(event["action"] == "alloc" for event in events)


def test_where_nothing_is_overwritten_it_is_written_as_asked_and_again(gpu, tmp_path, recwarn):
    for n in (1, 2):
        dump(tmp_path / "a.pickle")
        assert requests_in(tmp_path / "a.pickle") == n
    assert [path.name for path in tmp_path.iterdir()] == ["a.pickle"]
    assert gpu.trace.notes.snapshots_beside == {}
    assert not list(recwarn)


@pytest.mark.parametrize(
    ("name", "beside"),
    [
        ("a.pickle", "a.simulated.pickle"),
        ("snapshot", "snapshot.simulated"),
        ("of.rank0.snap", "of.rank0.simulated.snap"),
    ],
)
@pytest.mark.parametrize("kind", [str, lambda path: path, os.fsencode], ids=["text", "path", "bytes"])
def test_one_that_was_there_keeps_its_name_and_what_it_holds(gpu, tmp_path, name, beside, kind):
    there_before(tmp_path / name)
    with pytest.warns(UserWarning, match=BESIDE.format(name, beside)):
        dump(kind(tmp_path / name))
    dump(kind(tmp_path / name))
    assert (tmp_path / name).read_bytes() == REAL
    assert requests_in(tmp_path / beside) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, beside])
    places = os.path.realpath(tmp_path / name), os.path.realpath(tmp_path / beside)
    assert gpu.trace.notes.snapshots_beside == dict([places])


def test_without_a_name_it_is_pytorchs(gpu, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    there_before("dump_snapshot.pickle")
    with pytest.warns(UserWarning, match=BESIDE.format("dump_snapshot.pickle", "dump_snapshot.simulated.pickle")):
        torch.cuda.memory._dump_snapshot()
    assert (tmp_path / "dump_snapshot.pickle").read_bytes() == REAL
    assert requests_in(tmp_path / "dump_snapshot.simulated.pickle") == 0


def test_the_name_may_be_said_by_its_keyword(gpu, tmp_path):
    there_before(tmp_path / "a.pickle")
    with pytest.warns(UserWarning, match="goes to a.simulated.pickle"):
        torch.cuda.memory._dump_snapshot(filename=str(tmp_path / "a.pickle"))
    assert (tmp_path / "a.pickle").read_bytes() == REAL


def test_a_link_to_one_is_no_way_around(gpu, tmp_path):
    (tmp_path / "far").mkdir()
    there_before(tmp_path / "far" / "real.pickle")
    (tmp_path / "a.pickle").symlink_to(tmp_path / "far" / "real.pickle")
    with pytest.warns(UserWarning, match="goes to a.simulated.pickle"):
        dump(tmp_path / "a.pickle")
    assert (tmp_path / "far" / "real.pickle").read_bytes() == REAL
    assert requests_in(tmp_path / "a.simulated.pickle") == 1


def test_one_that_says_simulated_is_of_an_earlier_run(tmp_path):
    there_before(tmp_path / "a.pickle")
    for _ in range(2):
        with SimulatedGPU("a100-80gb", cuda=True), pytest.warns(UserWarning, match="goes to a.simulated.pickle"):
            dump(tmp_path / "a.pickle")
    with SimulatedGPU("a100-80gb", cuda=True):
        dump(tmp_path / "a.simulated.pickle")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pickle", "a.simulated.pickle"]
    assert (tmp_path / "a.pickle").read_bytes() == REAL


def test_what_pytorch_refuses_it_refuses(gpu, tmp_path):
    with pytest.raises(FileNotFoundError):
        dump(tmp_path / "none" / "a.pickle")
    with pytest.raises(IsADirectoryError):
        dump(tmp_path)
    dump(os.devnull)


def test_beside_a_simulated_gpu_that_is_not_cuda_nothing_changes():
    theirs = torch.cuda.memory._dump_snapshot
    with SimulatedGPU("a100-80gb"):
        assert torch.cuda.memory._dump_snapshot is theirs
    with SimulatedGPU("a100-80gb", cuda=True):
        assert torch.cuda.memory._dump_snapshot is not theirs
    assert torch.cuda.memory._dump_snapshot is theirs
