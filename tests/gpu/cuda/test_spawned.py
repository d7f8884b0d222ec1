"""A process that a program spawns finds "cuda" too: it begins anew, and imports the program."""

import textwrap

import pytest
from forked_runs import Runs

MAIN = """
import os, sys, torch
from torch import nn, multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
net = nn.Linear(64, 64).cuda()
where = net.weight.device, torch.cuda.get_device_name(), torch.cuda.device_count(), torch.cuda.is_available()

class Rows(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i):
        assert torch.zeros(1 << 26, device="cuda").is_cuda
        return torch.full((64,), i), where[1]

def tell(queue):
    queue.put((str(where), torch.cuda.memory_allocated()))

if __name__ == "__main__":
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = Runs(tmp_path_factory.mktemp("programs"))
    yield runs
    runs.close()


@pytest.mark.long
@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_workers_of_a_data_loader(run, how):
    text = f"""
    for batch, names in DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context={how!r}):
        print(batch[:, 0].tolist(), set(names))
        net(batch.float().cuda()).sum().backward()
    """
    found = run(MAIN + textwrap.indent(textwrap.dedent(text), "    "), "--gpu", "t4-16gb")
    assert (found.exit_code, found.out) == (0, "[0, 1] {'Tesla T4'}\n[2, 3] {'Tesla T4'}\n"), found.err
    assert "Traceback" not in found.err
    assert found.figures["peak"]["allocated_bytes"] < 1 << 28, "what a worker takes is not this process's"


@pytest.mark.long
def test_a_process_is_of_the_same_rank_and_settings(run):
    text = """
    context = mp.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=tell, args=(queue,))
    process.start()
    told, n_bytes = queue.get(timeout=300)
    process.join()
    print(told == str(where), where[0], n_bytes == torch.cuda.memory_allocated(), process.exitcode)
    """
    options = ("--ranks", "4", "--rank", "2", "--settings", "expandable_segments:True", "--torch", "2.15")
    found = run(MAIN + textwrap.indent(textwrap.dedent(text), "    "), *options)
    assert (found.exit_code, found.out) == (0, "True cuda:2 True 0\n"), found.err
