"""One rank of several: its environment, its groups, its GPU, and the parts that it holds."""

import os
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from every_byte.gpu.cuda.ranks import as_rank
from every_byte.gpu.ranks import ranks
from utils import Ledger, SimulatedGPU

D = 64


@pytest.fixture(autouse=True)
def _alone():
    """No group and no environment are left behind."""
    before = dict(os.environ)
    yield
    left = dist.is_initialized()
    if left:
        dist.destroy_process_group()
    os.environ.clear()
    os.environ.update(before)
    assert not left


def ended():
    dist.destroy_process_group()


@pytest.fixture
def rank_3():
    with SimulatedGPU("a100-80gb", cuda=as_rank(8, 3)) as gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        yield gpu
        if dist.is_initialized():
            dist.destroy_process_group()


def test_the_environment_is_torchruns():
    as_rank(8, 3)
    said = {name: os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")}
    assert said == {
        "RANK": "3",
        "LOCAL_RANK": "3",
        "WORLD_SIZE": "8",
        "LOCAL_WORLD_SIZE": "8",
        "MASTER_ADDR": "127.0.0.1",
    }


def test_without_ranks_the_environment_is_left_alone():
    before = dict(os.environ)
    assert (as_rank(None).index, as_rank(None).n_devices) == (0, 1)
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("n", "rank", "message"),
    [
        (0, 0, "ranks must be 1 or more: got 0; try 8"),
        (4, 4, "rank must be one of the 4 ranks, 0 to 3: got 4"),
        (4, -1, "got -1"),
        (None, 1, "--rank is which of --ranks: got 1 of no ranks"),
    ],
)
def test_what_is_no_rank(n, rank, message):
    with pytest.raises(ValueError, match=message):
        as_rank(n, rank)


@pytest.mark.parametrize(
    ("backend", "told"),
    [
        ("nccl", "nccl"), ("gloo", "gloo"), (None, "undefined"), ("NCCL", "nccl"), ("cuda:nccl", "cuda:nccl"),
        ("cpu:gloo,cuda:nccl", "cpu:gloo,cuda:nccl"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", [{}, {"init_method": "env://"}, {"rank": 2, "world_size": 5}])
def test_a_group_says_what_was_asked(rank_3, capfd, backend, told, where):
    dist.init_process_group(backend, **where)
    assert (dist.get_rank(), dist.get_world_size()) == (where.get("rank", 3), where.get("world_size", 8))
    assert dist.get_backend() == told
    assert (dist.is_initialized(), dist.is_nccl_available()) == (True, True)
    ranks = list(range(dist.get_world_size()))
    group, other = dist.new_group(ranks), dist.new_group(ranks, backend="gloo")
    assert (dist.get_backend(group), dist.get_backend(other), dist.get_world_size(group)) == (told, "gloo", len(ranks))
    x = torch.ones(3, device="cuda")
    for each in (None, group, other):
        dist.all_reduce(x, group=each)
    dist.barrier()
    assert "Warning" not in capfd.readouterr().err


def test_a_timeout_can_be_longer(rank_3):
    """As that of each group is, where the compiler finds in its cache what it would have taken long to make."""
    dist.init_process_group("nccl")
    dist.distributed_c10d._add_ephemeral_timeout_for_all_pgs(timedelta(seconds=9))


def test_exchanges(rank_3):
    dist.init_process_group("nccl")
    x, parts = torch.ones(4, device="cuda"), [torch.empty(4, device="cuda") for _ in range(8)]
    dist.broadcast(x, 0)
    dist.all_gather(parts, x)
    dist.reduce_scatter_single(torch.empty(4, device="cuda"), torch.ones(32, device="cuda"))
    dist.all_gather_single(torch.empty(32, device="cuda"), x)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(torch.ones(3))


def test_the_gpu_of_another_rank_is_refused_by_name(rank_3):
    assert torch.cuda.device_count() == 8
    assert torch.zeros(1, device="cuda").device == torch.device("cuda", 3)
    with pytest.raises(RuntimeError, match=r"this process is the rank of cuda:3, and something was to lie on cuda:5"):
        torch.zeros(1, device="cuda:5")
    torch.cuda.set_device(5)
    with pytest.raises(RuntimeError, match=r"to lie on cuda:5; call torch\.cuda\.set_device\(3\) first"):
        torch.zeros(1).cuda()
    torch.cuda.set_device(3)
    with pytest.raises(torch.AcceleratorError, match="there are 8 GPUs, from cuda:0 on"):
        torch.cuda.set_device(8)


def test_each_ranks_gpu_says_what_it_is(rank_3):
    own = torch.cuda.get_device_properties(3)
    assert [torch.cuda.get_device_name(i) for i in range(8)] == [own.name] * 8
    assert [torch.cuda.get_device_capability(i) for i in range(8)] == [(8, 0)] * 8
    assert torch.cuda.get_device_properties("cuda:5").total_memory == own.total_memory
    with pytest.raises(AssertionError, match="^Invalid device id: cuda:8 was asked for, and there are 8 GPUs"):
        torch.cuda.get_device_properties(8)
    with pytest.raises(RuntimeError, match="a simulated rank has its own GPU alone"):  # how full it is, nobody knows
        torch.cuda.mem_get_info(1)


SEVERAL = {
    "DataParallel": lambda m: nn.DataParallel(m.cuda(), device_ids=[0, 1]),
    "to": lambda m: m.to("cuda:1"),
    "cuda": lambda m: m.cuda(1),
    "number": lambda m: torch.ones(2, device=1),
    "device": lambda m: m.to(torch.device("cuda", 1)),
    "set_device": lambda m: torch.cuda.set_device(1),
    "context": lambda m: torch.cuda.device(1).__enter__(),
    "properties": lambda m: torch.cuda.get_device_properties(1),
    "name": lambda m: torch.cuda.get_device_name(1),
    "capability": lambda m: torch.cuda.get_device_capability("cuda:1"),
    "memory": lambda m: torch.cuda.mem_get_info(1),
    "stats": lambda m: torch.cuda.memory_stats(1),
    "stream": lambda m: torch.cuda.Stream(device=1),
}


@pytest.mark.parametrize("spelling", SEVERAL)
def test_one_process_on_several_gpus_is_told_what_to_do(gpu, spelling):
    before = torch.cuda.current_device()
    with pytest.raises(
        (RuntimeError, AssertionError), match=r"(?s)cuda:1 was asked .* one GPU, cuda:0\. One process on"
    ):
        SEVERAL[spelling](nn.Linear(2, 2))
    assert torch.cuda.current_device() == before


def test_data_parallel_of_ranks_is_told_what_to_do(rank_3):
    with pytest.raises(RuntimeError, match=r"own GPU alone.* One process on several GPUs is not simulated.*--ranks 2"):
        nn.DataParallel(nn.Linear(2, 2).to("cuda:0"))(torch.ones(4, 2, device="cuda"))


@pytest.mark.parametrize("options", [{}, {"device_ids": [0]}, {"device_ids": ["cuda:0"], "output_device": 0}])
def test_data_parallel_on_the_one_card_is_the_module(gpu, options):
    m, x = nn.Linear(2, 2).cuda(), torch.ones(4, 2, device="cuda")
    gpu.load_libraries()
    before = gpu.memory_allocated()
    y = nn.DataParallel(m, **options)(x)
    assert gpu.memory_allocated() - before == 512
    y.sum().backward()
    assert m.weight.grad.device == torch.device("cuda", 0)


def test_ddp(rank_3, capfd):
    dist.init_process_group("nccl")
    m = DistributedDataParallel(nn.Linear(D, D, device="cuda"), device_ids=[3])
    before = rank_3.memory_allocated()
    m(torch.ones(2, D, device="cuda")).sum().backward()
    with m.no_sync():
        m(torch.ones(2, D, device="cuda")).sum().backward()
    assert (m.module.weight.grad.device, m.device_ids) == (torch.device("cuda", 3), [3])
    assert rank_3.memory_allocated() > before
    assert "Warning" not in capfd.readouterr().err


def test_ddp_of_the_host(rank_3):
    dist.init_process_group("gloo")
    m = DistributedDataParallel(nn.Linear(4, 4))
    m(torch.ones(2, 4)).sum().backward()
    assert m.module.weight.grad.tolist() == [[2.0] * 4] * 4


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_fsdp_holds_an_eighth(rank_3):
    dist.init_process_group("nccl")
    with torch.device("meta"):
        m = nn.Sequential(*[nn.Linear(D, D, bias=False) for _ in range(4)])
    mesh = init_device_mesh("cuda", (8,))
    for layer in m:
        fully_shard(layer, mesh=mesh)
    fully_shard(m, mesh=mesh)
    m.to_empty(device="cuda")
    assert rank_3.memory_allocated() == 4 * D * D * 4 // 8
    m(torch.ones(2, D, device="cuda")).sum().backward()
    torch.optim.AdamW(m.parameters()).step()
    assert {p.to_local().device for p in m.parameters()} == {torch.device("cuda", 3)}
    assert {tuple(p.to_local().shape) for p in m.parameters()} == {(D // 8, D)}


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning", "ignore:nothing is computed")
def test_fsdp_with_its_parameters_on_the_host(rank_3):
    """Between two steps the GPU holds none of them, no gradient and no average; in forward, what a layer gathers."""
    dist.init_process_group("nccl")
    m = nn.Sequential(*[nn.Linear(D, D, bias=False) for _ in range(4)])
    mesh = init_device_mesh("cuda", (8,))
    for part in (*m, m):
        fully_shard(part, mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=False))
    optimizer = torch.optim.AdamW(m.parameters())
    assert rank_3.memory_allocated() == 0
    for _ in range(2):
        m(torch.ones(2, D, device="cuda")).sum().backward()
        gradients = {p.grad.device.type for p in m.parameters()}
        optimizer.step()
        optimizer.zero_grad()
    kept = {x.device.type for state in optimizer.state.values() for x in state.values()}
    assert kept == gradients == {p.device.type for p in m.parameters()} == {"cpu"}
    assert {row.category for row in Ledger.now(rank_3)} == {"cuBLAS workspace"}
    assert rank_3.max_memory_allocated() > rank_3.memory_allocated() + D * D * 4


def sharded_steps(device, mesh) -> None:
    """Two steps of a model that is divided among ranks."""
    m = nn.Sequential(*[nn.Linear(D, D, device=device) for _ in range(3)])
    for layer in m:
        fully_shard(layer, mesh=mesh)
    fully_shard(m, mesh=mesh)
    optimizer = torch.optim.AdamW(m.parameters())
    for _ in range(2):
        m(torch.ones(2, D, device=device)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_fsdp_takes_what_it_takes_on_a_mesh_of_the_gpus_own(monkeypatch):
    """Which is what was recorded: tests/models/test_data_parallel_recorded.py."""
    found = []
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with SimulatedGPU("a100-80gb") as gpu, ranks(8, 3) as mesh:
        sharded_steps(gpu.device, mesh)
        found.append([(e.action, e.n_bytes, e.stream) for e in gpu.trace])
    with SimulatedGPU("a100-80gb", cuda=as_rank(8, 3)) as gpu:
        torch.cuda.set_device(3)
        dist.init_process_group("nccl")
        sharded_steps("cuda", init_device_mesh("cuda", (8,)))
        dist.destroy_process_group()
        found.append([(e.action, e.n_bytes, e.stream) for e in gpu.trace])
    assert found[0] == found[1]


def test_tensor_parallel_holds_an_eighth(rank_3):
    dist.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (8,))
    m = nn.Sequential(nn.Linear(D, 4 * D, bias=False), nn.GELU(), nn.Linear(4 * D, D, bias=False)).cuda()
    whole = sum(p.nbytes for p in m.parameters())
    m = parallelize_module(m, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    assert sum(p.to_local().nbytes for p in m.parameters()) == whole // 8
    m(torch.ones(2, D, device="cuda")).sum().backward()
    assert mesh.get_local_rank() == 3


def told(rank: int, seen: list) -> None:
    seen.append((rank, str(torch.ones(2, device=f"cuda:{rank}").device)))


def test_spawned_ranks_are_this_one(rank_3):
    seen: list = []
    assert mp.spawn(told, args=(seen,), nprocs=8) is None
    assert mp.spawn(told, (seen,), nprocs=8, join=False).join() is True
    assert seen == [(3, "cuda:3")] * 2
    with pytest.raises(
        NotImplementedError, match="4 processes were to be started, and the machine has 8 GPUs here; run it"
    ):
        mp.spawn(told, (seen,), nprocs=4)


def test_one_spawned_process_is_this_one():
    seen: list = []
    with SimulatedGPU("a100-80gb", cuda=True):
        mp.spawn(told, args=(seen,), nprocs=1)
    assert seen == [(0, "cuda:0")]


def test_modules_that_had_the_functions_by_name_have_them_back():
    before = dist.init_process_group, dist.new_group, dist.get_backend, DistributedDataParallel.__init__, mp.spawn
    with SimulatedGPU("a100-80gb", cuda=True):
        held = dist.get_backend
    assert (
        dist.init_process_group,
        dist.new_group,
        dist.get_backend,
        DistributedDataParallel.__init__,
        mp.spawn,
    ) == before
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        held()


def test_batch_norm_by_the_statistics_of_all_ranks(rank_3):
    """Each rank had an input, as this one has; nothing but random numbers is unknown."""
    dist.init_process_group("nccl")
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8 * 16, 8), nn.BatchNorm1d(8))
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model).cuda()
    model = DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    optimizer, ends = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(3):
        model(torch.randn(5, 3, 4, 4).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        ends.append(torch.cuda.memory_allocated())
    assert ends[1] == ends[2]
    assert not [name for name in rank_3.trace.notes.unmodelled if "onvolution" not in name]
    assert not rank_3.values_read
