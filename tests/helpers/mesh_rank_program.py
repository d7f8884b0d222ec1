"""What tests/experiments/test_mesh_step.py has torchrun start: a GPT on a mesh of 2 x 2 real ranks, beside one process.

Each rank writes what it found as JSON into the folder that it is given.
"""

import json
import os
import sys
from pathlib import Path

import torch
from data_rank_program import ADAM, B, all_of, batch, difference
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate

from every_byte.gpu.ranks import is_real, ranks
from utils import GPT
from utils.models.data_parallel import fully_sharded, replicated
from utils.models.tensor_parallel import QKV, own_share, plain_shares, tensor_parallel

N, T = 2, 2
S, D, A, L, V = 8, 16, 2, 2, 26
ENGINES = {"DDP": lambda model, mesh: replicated(plain_shares(model), mesh), "FSDP2": fully_sharded}


def make():
    """The same weights wherever it is called."""
    torch.manual_seed(0)
    return GPT(V, S, D, L, A, dtype=torch.float64, kind="explicit", bias=True)


def train(model, given, steps=2):
    """The losses; the gradients of the last step, which is then done."""
    optimizer = torch.optim.AdamW(model.parameters(), **ADAM)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(*given)[1]
        losses.append(loss.full_tensor().detach() if isinstance(loss, DTensor) else loss.detach())
        loss.backward()
        gradients = [parameter.grad.detach().clone() for parameter in model.parameters()]
        optimizer.step()
    return losses, gradients


def share_in_group(tensor):
    """What the ranks of this data group's number have together: a rank's share of the split model."""
    if not isinstance(tensor, DTensor):
        return tensor
    return tensor.redistribute(placements=[Replicate(), *tensor.placements[1:]]).to_local()


def shares(wholes, mesh):
    """Of each tensor of one process, by name, the share that `tensor_parallel` gives a rank."""
    split = dict(tensor_parallel(make(), mesh).named_parameters())
    placements = {name: split[name].placements[0] for name in wholes}
    return [
        own_share(whole, mesh, placements[name].dim, parts=QKV if ".qkv." in name else 1)
        if placements[name].is_shard()
        else whole
        for name, whole in wholes.items()
    ]


def check(folder):
    """Each engine, with and without sequence parallel: differences from one process that has all the data."""
    tokens = batch(N)
    tokens = [x % V for x in tokens]
    alone = make()
    losses, gradients = train(alone, tokens)
    names = [name for name, _ in alone.named_parameters()]
    found = {}
    for engine, wrap in ENGINES.items():
        for sequence in (False, True):
            with ranks() as all_ranks:
                assert is_real()
                mesh = init_device_mesh("cpu", (N, T), mesh_dim_names=("data", "tensor"))
                data, tensor = mesh["data"], mesh["tensor"]
                group = data.get_local_rank()
                own = [x[group * B : (group + 1) * B].clone() for x in tokens]
                model = wrap(tensor_parallel(make(), tensor, sequence=sequence), data)
                own_losses, own_gradients = train(model, own)
                means = [sum(all_of(loss, data)) / N for loss in own_losses]
                found[f"{engine}, {'sequence' if sequence else 'tensor'}"] = {
                    "losses": difference(losses, means),
                    "gradients": difference(
                        shares(dict(zip(names, gradients, strict=True)), tensor),
                        [share_in_group(x) for x in own_gradients],
                    ),
                    "parameters": difference(
                        shares({name: p.detach() for name, p in alone.named_parameters()}, tensor),
                        [share_in_group(p.detach()) for p in model.parameters()],
                    ),
                    "ranks": all_ranks.size(),
                }
    (Path(folder) / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    torch.set_num_threads(1)
    check(sys.argv[1])
