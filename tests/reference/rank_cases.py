"""Blocks and GPTs of the book as one rank of 1, 2, 4 and 8: tensor parallel, with and without sequence parallel; and
batch norm by the statistics of all ranks.

The other ranks are PyTorch's `fake` process group. GPTs are drawn at random and trained for two steps.
"""

import random
from functools import partial
from unittest.mock import patch

import torch
import torch.distributed._functional_collectives as functional
from torch.nn.modules._functions import SyncBatchNorm

from every_byte.gpu.ranks import ranks
from utils import GPT, Block
from utils.models.regions import library_checkpoint, set_regions
from utils.models.tensor_parallel import tensor_parallel

CASES = {}
SEED = 700
N_NORMING = 4


def block(env, t, sequence, kind, dropout):
    """One pass of a Block in bfloat16."""
    d, s, dtype, label = 64, 48, torch.bfloat16, f"t={t} {kind} dropout={dropout}"
    with ranks(t, t // 2) as mesh:
        whole = Block(d, 8, "gelu", dropout, env.device, dtype, kind=kind, context_length=64)
        model = tensor_parallel(whole, mesh, sequence=sequence)
        env.mark(f"{label} model")
        x = torch.randn(2, s // t if sequence else s, d, device=env.device, dtype=dtype, requires_grad=True)
        y = model(x)
        env.mark(f"{label} forward")
        y.sum().backward()
        env.mark(f"{label} backward")


def blocks(env, sequence):
    """A Block for each number of ranks, with each kind of attention, without and with dropout."""
    for t in (1, 2, 4, 8):
        for kind in ("sdpa", "explicit"):
            for dropout in (0.0, 0.1):
                block(env, t, sequence, kind, dropout)


def collectives(env):
    """What DTensor calls, on contiguous and other tensors, of even and odd sizes."""
    with ranks(4, 1) as mesh:
        for shape, dtype in (((8, 12), torch.float32), ((4, 3, 20), torch.bfloat16), ((1, 8, 36), torch.float32)):
            x = torch.ones(shape, dtype=dtype, device=env.device)
            sums = [functional.all_reduce(y, op, mesh) for y in (x, x.mT) for op in ("sum", "max")]
            env.mark(f"{shape} sums")
            sums = [y * 2 for y in sums]
            env.mark(f"{shape} waited for")
            whole = [functional.all_gather_single(x, dim, mesh) for dim in range(len(shape))]
            env.mark(f"{shape} gathered")
            parts = [functional.reduce_scatter_single(y, "sum", dim, mesh) for dim, y in enumerate(whole)]
            env.mark(f"{shape} scattered")
            functional.all_reduce_inplace(x, "sum", mesh)
            del sums, whole, parts
            env.mark(f"{shape} gone")


def gathered(gather, output, x, group, async_op):
    """As PyTorch's, but for the shape of the output, which the `fake` group takes apart by its first dimension."""
    gather(output.view(-1), x, group, async_op)


NORMED_SHAPES = (8, 20), (4, 12, 5, 7), (2, 70, 3, 3, 2)


def normed(env):
    """What nn.SyncBatchNorm does forward and backward, and how many ranks had an input, which it counts: all."""
    of_pytorch = torch.nn.modules._functions.dist
    with (
        ranks(N_NORMING),
        patch.object(of_pytorch, "all_gather_single", partial(gathered, of_pytorch.all_gather_single)),
    ):
        group = torch.distributed.group.WORLD
        for shape in NORMED_SHAPES:
            x = torch.empty(shape, device=env.device, requires_grad=True)
            statistics = torch.zeros(2, shape[1], device=env.device)
            for is_affine in (True, False):
                parameters = (torch.ones(shape[1], device=env.device, requires_grad=is_affine) for _ in range(2))
                weight, bias = parameters if is_affine else (None, None)
                y = SyncBatchNorm.apply(x, weight, bias, *statistics, 1e-5, 0.1, group, N_NORMING)
                env.mark(f"{shape}, affine={is_affine} forward")
                y.relu().sum().backward()
                del y, weight, bias
                env.mark(f"{shape}, affine={is_affine} backward")


normed.answers = lambda: [f"count {N_NORMING}"] * (3 * 2 * len(NORMED_SHAPES))  # three masked, of each norm


def draw(rng):
    """How many ranks, which one, a GPT's settings, and how it is trained."""
    t = rng.choice([1, 2, 3, 4, 8])
    heads, s = t * rng.choice([1, 2, 3]), t * rng.randint(2, 24)
    sizes = (
        t * rng.randint(20, 400),
        s + rng.randint(0, 30),
        rng.choice([8 * rng.randint(1, 6), 20]) * heads,
        rng.randint(1, 3),
        heads,
    )
    settings = dict(kind=rng.choice(["sdpa", "explicit"]), bias=rng.random() < 0.5, act_fn=rng.choice(["gelu", "relu"]))
    settings |= dict(dropout_prob=rng.choice([0.0, 0.1]), dtype=rng.choice([torch.bfloat16, torch.float32]))
    return dict(
        t=t,
        rank=rng.randrange(t),
        sequence=rng.random() < 0.6,
        sizes=sizes,
        settings=settings,
        shape=(rng.randint(1, 5), s),
        regions=rng.choice(["none", "none", "attention only", "every block"]),
        optimizer=rng.choice(["fused", "foreach"]),
        clip=rng.random() < 0.5,
        autocast=settings["dtype"] == torch.float32 and rng.random() < 0.7,
    )


def gpt(env, seed):
    """Two steps with AdamW of a GPT drawn at random."""
    drawn = draw(random.Random(seed))
    with ranks(drawn["t"], drawn["rank"]) as mesh:
        whole = GPT(*drawn["sizes"], device=env.device, **drawn["settings"])
        model = tensor_parallel(whole, mesh, sequence=drawn["sequence"])
        set_regions(model, drawn["regions"], run=library_checkpoint)
        optimizer = torch.optim.AdamW(model.parameters(), **{drawn["optimizer"]: True})
        env.mark("model")
        for step in (1, 2):
            tokens, targets = (torch.randint(drawn["sizes"][0], drawn["shape"], device=env.device) for _ in range(2))
            if drawn["autocast"]:
                with env.autocast(torch.bfloat16):
                    logits, loss = model(tokens, targets)
            else:
                logits, loss = model(tokens, targets)
            env.mark(f"step {step} forward")
            loss.backward()
            del logits, loss, tokens, targets
            env.mark(f"step {step} backward")
            if drawn["clip"]:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            env.mark(f"step {step} step")
            optimizer.zero_grad()
            env.mark(f"step {step} zero_grad")


def add(name, case):
    """Enter a case."""
    case.cudnn_sdp, case.cards = False, ("a100", "h100")
    CASES[name] = case


add("ranks_collectives", collectives)
add("ranks_normed", normed)
for which in ("tensor", "sequence"):
    add(f"ranks_block_{which}", lambda env, sequence=which == "sequence": blocks(env, sequence))
for number in range(12):
    add(f"ranks_gpt_{number}", lambda env, seed=SEED + number: gpt(env, seed))
