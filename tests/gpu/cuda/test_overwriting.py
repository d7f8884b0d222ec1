"""Checkpoints that were there before a program began are there after it, however it writes and removes its own."""

import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:nothing is computed on a simulated GPU")


def there_before(path, content=b"weights of last night"):
    """A file that the process did not write, as far as it can tell."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.write(file, content)
    os.close(file)


def atomically(path):
    torch.save({"w": torch.ones(300, device="cuda")}, f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def renamed(path):
    torch.save({"w": torch.ones(300, device="cuda")}, Path(f"{path}.tmp"))
    Path(f"{path}.tmp").rename(path)


def into_an_open_file(path):
    with open(path, "wb") as file:
        torch.save({"w": torch.ones(300, device="cuda")}, file)


def by_path_open(path):
    with Path(path).open(mode="wb") as file:
        pickle.dump(torch.ones(300, device="cuda").cpu(), file)


def removed(path):
    os.remove(path)


def unlinked(path):
    Path(path).unlink()


def saved(path):
    torch.save({"w": torch.ones(300, device="cuda")}, path)


WAYS = [atomically, renamed, into_an_open_file, by_path_open, removed, unlinked, saved]


@pytest.mark.parametrize("way", WAYS)
def test_what_was_there_is_kept_once(gpu, tmp_path, way):
    path = tmp_path / "best.pt"
    there_before(path)
    with pytest.warns(UserWarning, match=r"what was there as best.pt is now best.pt.kept"):
        way(str(path))
    assert (tmp_path / "best.pt.kept").read_bytes() == b"weights of last night"
    assert path.exists() == (way not in (removed, unlinked))
    saved(path)
    way(str(path))  # what the program has written is the program's
    assert {found.name for found in tmp_path.iterdir()} <= {"best.pt", "best.pt.kept"}


def test_a_folder_of_checkpoints_that_is_rotated_away_is_kept(gpu, tmp_path):
    folder = tmp_path / "checkpoint-500"
    folder.mkdir()
    there_before(folder / "model.safetensors")
    with pytest.warns(UserWarning, match="what was there as checkpoint-500 is now checkpoint-500.kept"):
        shutil.rmtree(folder)
    assert not folder.exists()
    assert (tmp_path / "checkpoint-500.kept" / "model.safetensors").read_bytes() == b"weights of last night"
    folder.mkdir()
    saved(folder / "model.pt")
    shutil.rmtree(folder)
    assert {found.name for found in tmp_path.iterdir()} == {"checkpoint-500.kept"}


def test_other_files_are_the_programs(gpu, tmp_path):
    for name in ("log.txt", "state.json"):
        path = tmp_path / name
        there_before(path)
        with open(path, "w") as file:
            file.write("new")
        (tmp_path / "next").write_text("newer")
        os.replace(tmp_path / "next", path)
        assert path.read_text() == "newer"
        os.remove(path)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_take_a_place_moves_nothing(gpu, tmp_path):
    path = tmp_path / "best.pt"
    there_before(path)
    with pytest.raises(FileNotFoundError):
        os.replace(tmp_path / "missing.pt", path)
    os.replace(path, path)
    assert [found.name for found in tmp_path.iterdir()] == ["best.pt"]


def test_a_file_that_the_program_saved_from_the_host_goes_when_it_is_removed(gpu, tmp_path):
    torch.save({"step": 3}, tmp_path / "state.pt")
    os.remove(tmp_path / "state.pt")
    assert list(tmp_path.iterdir()) == []


def test_weights_without_values_take_no_other_files_place_either(gpu, tmp_path):
    path = tmp_path / "state"
    there_before(path)
    torch.save(torch.ones(300, device="cuda"), tmp_path / "next")
    with pytest.warns(UserWarning, match="what was there as state is now state.kept"):
        os.replace(tmp_path / "next", path)
    assert (tmp_path / "state.kept").read_text() == "weights of last night"


def test_the_trace_knows_what_was_saved_without_values(gpu, tmp_path):
    saved(tmp_path / "a.pt")
    torch.save({"step": 3}, tmp_path / "b.pt")
    assert list(gpu.trace.notes.files_of_zeros) == [os.path.realpath(tmp_path / "a.pt")]


def test_when_the_gpu_is_closed_files_go_as_ever(gpu, tmp_path):
    path = tmp_path / "best.pt"
    there_before(path)
    gpu.close()
    os.remove(path)
    assert list(tmp_path.iterdir()) == []
    assert os.remove.__module__ == "posix"
