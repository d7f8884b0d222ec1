"""One rank's training steps in data parallel, by PyTorch's own engines: FSDP2, DDP, ZeroRedundancyOptimizer.

The other ranks are those of PyTorch's `fake` process group, which exchanges nothing: on a CUDA build as here, the
program and what it allocates are those of a rank; what a communication library takes for itself is not in it.
"""

import random
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
import torch._dynamo  # if `fully_shard` imports it, amidst its work, that leaves cycles, which hold parameters
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from every_byte.gpu.cases.programs import load_module

reference = load_module(Path(__file__).with_name("cases.py"))

CASES = {}


@dataclass
class Way:
    """How a model is spread over n ranks, and how a step is done."""

    engine: str  # "fsdp", "ddp", "zero"
    n: int
    rank: int = 0
    reshard: bool | None = None
    view: bool = False
    policy: MixedPrecisionPolicy = MixedPrecisionPolicy()
    micro_batches: int = 1
    set_to_none: bool = True
    optimizer: str = "fused"
    weights: torch.dtype = torch.bfloat16
    autocast: torch.dtype | None = None


@contextmanager
def ranks(env, n, rank):
    """This process as one of n ranks, of which the others are not there."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=n)
    try:
        yield init_device_mesh("cuda" if env.device.type == "cuda" else "cpu", (n,))
    finally:
        dist.destroy_process_group()


def spread(model, mesh, way):
    """The model as its engine has it."""
    if way.engine == "fsdp":
        for block in model.blocks:
            fully_shard(block, mesh=mesh, reshard_after_forward=way.reshard, mp_policy=way.policy)
        return fully_shard(model, mesh=mesh, reshard_after_forward=way.reshard, mp_policy=way.policy)
    model = DistributedDataParallel(model, gradient_as_bucket_view=way.view)
    model.register_comm_hook(None, noop_hook)  # the `fake` group's exchanges have no result, and DDP asks for one
    return model


def optimizer_of(model, way):
    how = {"fused": {"fused": True}, "foreach": {"foreach": True}}[way.optimizer]
    if way.engine == "zero":
        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-4, **how)
    return torch.optim.AdamW(model.parameters(), lr=1e-4, **how)


def train(env, config, way, steps=3):
    """Steps of one rank, each of its phases marked."""
    with ranks(env, way.n, way.rank) as mesh:
        model = reference.GPT(config).to(env.device, way.weights)
        env.mark("model")
        model = spread(model, mesh, way)
        env.mark("spread")
        optimizer = optimizer_of(model, way)
        env.mark("optimizer")
        for step in range(1, steps + 1):
            for micro in range(1, way.micro_batches + 1):
                name = f"step {step} micro {micro}"
                tokens = torch.randint(config.vocabulary, (config.batch, config.context)).to(env.device)
                targets = torch.randint(config.vocabulary, (config.batch, config.context)).to(env.device)
                env.mark(f"{name} batch")
                if way.autocast is None:
                    logits, loss = model(tokens, targets)
                else:
                    with env.autocast(way.autocast):
                        logits, loss = model(tokens, targets)
                env.mark(f"{name} forward")
                loss.backward()
                env.mark(f"{name} backward")
            optimizer.step()
            env.mark(f"step {step} optimizer")
            optimizer.zero_grad(set_to_none=way.set_to_none)
            env.mark(f"step {step} zero_grad")


def add(name, config, way):
    def case(env):
        train(env, config, way)

    case.cudnn_sdp, case.cards = False, ("a100", "h100")
    CASES[f"rank_{name}"] = case


TINY = reference.Config(**reference.SIZES["tiny"])
HALF = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
F32 = {"weights": torch.float32}
for n in (2, 4, 8):
    for reshard, how in ((None, "default"), (True, "resharded"), (False, "kept")):
        add(f"fsdp_{how}_{n}", TINY, Way("fsdp", n, reshard=reshard))
    for view in (False, True):
        add(f"ddp_{'view' if view else 'copy'}_{n}", TINY, Way("ddp", n, view=view, **F32))
    add(f"zero_{n}", TINY, Way("zero", n, **F32))
add("fsdp_mixed", TINY, Way("fsdp", 4, policy=HALF, **F32))
add("fsdp_foreach", TINY, Way("fsdp", 4, optimizer="foreach", **F32))
add("fsdp_autocast_accumulated", TINY, Way("fsdp", 2, autocast=torch.bfloat16, micro_batches=2, **F32))
add("ddp_accumulated", TINY, Way("ddp", 2, view=True, micro_batches=2, set_to_none=False, **F32))
add("ddp_autocast", TINY, Way("ddp", 2, autocast=torch.bfloat16, optimizer="foreach", **F32))

WIDE = reference.Config(vocabulary=5001, context=48, batch=3, d=512, layers=3, heads=8, bias=True)
for engine in ("fsdp", "ddp", "zero"):
    add(f"{engine}_wide", WIDE, Way(engine, 3, rank=2, autocast=torch.bfloat16, **F32))  # shares of unequal size


def drawn(seed):
    """A GPT, an engine and a way to train, at random."""
    draw = random.Random(seed)
    heads = draw.choice([1, 2, 3, 4])
    config = reference.Config(
        vocabulary=draw.choice([65, 1000, 5003, 20_000]),
        context=draw.randint(8, 200),
        batch=draw.randint(1, 4),
        d=heads * draw.choice([8, 24, 64, 128]),
        layers=draw.randint(1, 4),
        heads=heads,
        attention=draw.choice(["sdpa", "explicit"]),
        bias=draw.random() < 0.5,
        dropout=draw.choice([0.0, 0.1]),
    )
    n = draw.choice([2, 3, 4, 5, 8, 16])
    is_half = draw.random() < 0.3
    way = Way(
        ["fsdp", "fsdp", "ddp", "zero"][seed % 4],
        n,
        draw.randrange(n),
        draw.choice([None, True, False]),
        draw.random() < 0.5,
        HALF if draw.random() < 0.3 and not is_half else MixedPrecisionPolicy(),
        draw.choice([1, 1, 2]),
        draw.random() < 0.7,
        draw.choice(["fused", "foreach"]),
        torch.bfloat16 if is_half else torch.float32,
        None if is_half or draw.random() < 0.5 else torch.bfloat16,
    )
    return config, way


for seed in range(16):
    add(f"drawn_{seed}", *drawn(seed))
