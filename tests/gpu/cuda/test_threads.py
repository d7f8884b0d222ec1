"""Threads that a program starts are the GPU's too, several at once; processes that it forks are not."""

import asyncio
import os
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from every_byte.ledger.ledger import Ledger
from utils import SimulatedGPU


def steps(n: int = 3, d: int = 16) -> None:
    """A small training, which leaves nothing behind."""
    m = nn.Sequential(nn.Linear(d, d), nn.GELU(), nn.Linear(d, d)).to("cuda")
    optimizer = torch.optim.AdamW(m.parameters())
    for _ in range(n):
        m(torch.ones(4, d, device="cuda")).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def in_thread(work) -> list:
    seen: list = []
    thread = threading.Thread(target=lambda: seen.append(work()))
    thread.start()
    thread.join()
    return seen


def check(gpu) -> None:
    """What is allocated is what is in use, and what is in use is what the trace says."""
    live: dict[int, int] = {}
    for event in gpu.trace:
        if event.action == "alloc":
            assert event.allocation not in live
            live[event.allocation] = event.block_bytes
        elif event.action == "free":
            del live[event.allocation]
    assert sum(live.values()) == gpu.memory_allocated()
    blocks = [block for segment in gpu.memory_snapshot() for block in segment["blocks"]]
    assert sum(block["size"] for block in blocks if block["state"] == "active_allocated") == gpu.memory_allocated()
    assert sum(segment["total_size"] for segment in gpu.memory_snapshot()) == gpu.memory_reserved()


def test_a_training_in_a_thread_is_that_of_the_program(gpu):
    steps()
    here = [(e.action, e.n_bytes) for e in gpu.trace if e.action in ("alloc", "free")]
    with SimulatedGPU("a100-80gb", cuda=True) as other:
        in_thread(steps)
        assert [(e.action, e.n_bytes) for e in other.trace if e.action in ("alloc", "free")] == here
        check(other)


@pytest.mark.parametrize("n_threads", [2, 4])
def test_threads_at_once(gpu, n_threads):
    """Their events mingle; nothing is lost, and nothing counted twice."""
    steps()
    before = gpu.memory_allocated()
    n_events = len(gpu.trace)
    with ThreadPoolExecutor(n_threads) as pool:
        for done in [pool.submit(steps) for _ in range(8)]:
            assert done.exception() is None
    check(gpu)
    workspaces = gpu.memory_allocated() - before
    assert workspaces % 8519680 == 0
    assert 1 <= workspaces // 8519680 <= n_threads
    alone = [e for e in gpu.trace.events[:n_events] if e.action == "alloc" and not e.name]
    assert len([e for e in gpu.trace if e.action == "alloc" and not e.name]) == 9 * len(alone)


def test_graphs_of_two_threads_whose_nodes_have_the_same_numbers(gpu):
    """Each thread counts its nodes from 0: what one keeps is not taken for what another's node of that number does."""

    def forward():
        m = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16)).to("cuda")
        return m(torch.ones(4, 16, device="cuda")).square().sum()

    held, kept = [], []
    for _ in range(3):
        held += in_thread(forward)
        kept.append(Ledger.now(gpu).of(category="activations").requested_bytes)
    assert kept[0] > 0
    assert kept == [kept[0], 2 * kept[0], 3 * kept[0]]
    held[0].backward()
    del held[0]
    assert Ledger.now(gpu).of(category="activations").requested_bytes == 2 * kept[0]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_threads_at_once_many_times(gpu, seed):
    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(steps, 2, 8 + seed) for _ in range(12)]:
            assert done.exception() is None
    check(gpu)


def test_a_thread_leaves_its_workspace_to_the_next(gpu):
    for _ in range(3):
        in_thread(lambda: torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda") is None)
    assert gpu.memory_allocated() == 8519680


def test_a_prefetching_thread(gpu):
    ready: queue.Queue = queue.Queue(2)

    def load():
        for _ in range(4):
            ready.put(torch.ones(1000).pin_memory().to("cuda", non_blocking=True))
        ready.put(None)

    threading.Thread(target=load, daemon=True).start()
    total = 0
    while (x := ready.get()) is not None:
        total += x.numel()
        del x
    assert (total, gpu.memory_allocated()) == (4000, 0)


def test_threads_by_other_means(gpu):
    class Own(threading.Thread):
        def run(self):
            self.found = torch.ones(3, device="cuda").device

    own = Own()
    own.start()
    own.join()
    assert own.found == torch.device("cuda", 0)

    async def work():
        return (await asyncio.to_thread(lambda: torch.ones(3, device="cuda"))).device

    assert asyncio.run(work()) == torch.device("cuda", 0)


def test_a_thread_that_is_older_is_told_so():
    asked, answered = queue.Queue(), queue.Queue()

    def serve():
        asked.get()
        with pytest.raises(RuntimeError, match=r"on those started since: \"cuda\" is a100-80gb, .* thread 'older'"):
            torch.zeros(1, device="cuda")
        answered.put("done")

    threading.Thread(target=serve, name="older", daemon=True).start()
    with SimulatedGPU("a100-80gb", cuda=True):
        asked.put("now")
        assert answered.get(timeout=300) == "done"


def test_a_thread_that_goes_on_after_the_gpu_closed():
    closed, done = threading.Event(), queue.Queue()

    def work():
        x = torch.zeros(3, device="cuda")
        closed.wait(300)
        done.put((x + 1).shape)

    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        thread = threading.Thread(target=work)
        thread.start()
        while gpu.memory_allocated() == 0:
            pass
    closed.set()
    thread.join()
    assert done.get() == (3,)


def child(work) -> str:
    """What a forked process says."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            said = str(work())
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.waitpid(process, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        return file.read().decode()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_cannot_use_what_was_used(gpu):
    assert child(lambda: torch.zeros(3, device="cuda").device) == "cuda:0"
    torch.zeros(3, device="cuda")
    assert child(lambda: torch.zeros(3, device="cuda")).startswith(
        "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must "
        "use the"
    )
    assert child(torch.cuda._is_in_bad_fork) == "True"
    assert child(lambda: torch.manual_seed(3).initial_seed()) == "3"
    assert not torch.cuda._is_in_bad_fork()
    assert child(lambda: (torch.zeros(3) + 1).tolist()) == "[1.0, 1.0, 1.0]"


class OnTheGPU(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return torch.ones(2, device="cuda")


def test_workers_of_a_loader_cannot_either(gpu):
    torch.zeros(3, device="cuda")
    with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subprocess"):
        list(DataLoader(OnTheGPU(), batch_size=2, num_workers=1))
    assert [x.device for x in DataLoader(OnTheGPU(), batch_size=2)] == [torch.device("cuda", 0)] * 2
