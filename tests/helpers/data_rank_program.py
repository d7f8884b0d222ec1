"""What tests/models/test_data_parallel.py has torchrun start: a GPT on real ranks, beside one process and simulated.

Each rank writes what it found as JSON into the folder that it is given.
"""

import json
import os
import sys
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor

from every_byte.gpu.ranks import is_real, ranks
from every_byte.ledger.saved_tensors import storages_of
from utils import GPT, SavedTensorContext, SimulatedGPU
from utils.models.data_parallel import fully_sharded, replicated, states_sharded

B, S, D, A, L, V = 2, 8, 16, 2, 3, 25  # of each rank; 2 ranks do not divide V
ADAM = dict(lr=0.1, eps=0.01)  # with a small eps, it would make a large step of a gradient's last digit
ENGINES = {
    "DDP": dict(gradient_as_bucket_view=False),
    "DDP, bucket views": dict(gradient_as_bucket_view=True),
    "DDP, states sharded": {},
    "FSDP2": {},
    "FSDP2, let go": dict(reshard_after_forward=True),
    "FSDP2, kept": dict(reshard_after_forward=False),
}


def make(device):
    """The same weights wherever it is called."""
    torch.manual_seed(0)
    return GPT(V, S, D, L, A, device=device, dtype=torch.float64, kind="explicit", bias=True)


def batch(n):
    """Tokens and targets for n ranks, B rows for each."""
    torch.manual_seed(1)
    return [torch.randint(V, (n * B, S)) for _ in range(2)]


def spread(engine, model, mesh):
    """The model on its engine, and its optimizer."""
    wrap = fully_sharded if engine.startswith("FSDP2") else replicated
    model = wrap(model, mesh, **ENGINES[engine])
    if engine == "DDP, states sharded":
        return model, states_sharded(model, mesh, **ADAM)
    return model, torch.optim.AdamW(model.parameters(), **ADAM)


def train(model, optimizer, given, steps=2):
    """The losses, the last gradients, and what is held when they are there; the last step is done then."""
    losses = []
    for step in range(steps):
        with SavedTensorContext() as saved:
            loss = model(*given)[1]
        kept_bytes = saved.saved_tensor_mem
        losses.append(loss.detach())
        loss.backward()
        held = {"kept": kept_bytes} | held_bytes(model, optimizer)
        gradients = [whole(parameter.grad) for parameter in model.parameters()]
        optimizer.step()
        if step < steps - 1:
            optimizer.zero_grad()
    return losses, gradients, held


def whole(tensor):
    """A tensor's values as they are now, of all ranks' shares if it is a DTensor."""
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def held_bytes(model, optimizer):
    """The storages that parameters, gradients and optimizer state lie in."""
    parameters = list(model.parameters())
    inner = getattr(optimizer, "optim", optimizer)
    states = [x for state in inner.state.values() for x in state.values() if isinstance(x, torch.Tensor)]
    groups = {"parameters": parameters, "gradients": [p.grad for p in parameters], "optimizer state": states}
    found = {}
    for name, tensors in groups.items():
        storages = {s._cdata: s.nbytes() for tensor in tensors for s in storages_of(tensor)}
        found[name] = sum(storages.values())
    return found


def difference(wholes, others):
    """The largest, relative to the largest number of each tensor."""
    assert all(torch.any(one != 0) for one in wholes)
    pairs = zip(wholes, others, strict=True)
    return max(((one - other).abs().max() / one.abs().max()).item() for one, other in pairs)


def check(folder):
    """Each engine: differences from one process that has all the data, and bytes beside the simulated rank's."""
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    tokens = batch(n)
    alone = make("cpu")
    losses, gradients, _ = train(alone, torch.optim.AdamW(alone.parameters(), **ADAM), tokens)
    own = [x[rank * B : (rank + 1) * B].clone() for x in tokens]
    found = {}
    for engine in ENGINES:
        with ranks() as mesh:
            assert is_real()
            model, optimizer = spread(engine, make("cpu"), mesh)
            own_losses, own_gradients, held = train(model, optimizer, own)
            means = [sum(all_of(loss, mesh)) / n for loss in own_losses]
            parameters = [whole(p) for p in model.parameters()]
        with SimulatedGPU("a100-80gb") as gpu, ranks(n, rank) as mesh:
            simulated = spread(engine, make(gpu.device), mesh)
            *_, simulated_held = train(*simulated, [x.to(gpu.device) for x in own])
        found[engine] = {
            "losses": difference(losses, means),
            "gradients": difference(gradients, own_gradients),
            "parameters": difference([p.detach() for p in alone.parameters()], parameters),
            "held": held,
            "held by the simulated rank": simulated_held,
        }
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))


def all_of(tensor, mesh):
    """What each rank has."""
    gathered = [torch.empty_like(tensor) for _ in range(mesh.size())]
    torch.distributed.all_gather(gathered, tensor, group=mesh.get_group())
    return gathered


if __name__ == "__main__":
    torch.set_num_threads(1)
    check(sys.argv[1])
