"""What tests/gpu/test_torchrun.py has torchrun start: a Block and a GPT on real ranks, beside simulated ones.

Each rank writes what it found as JSON into the folder that it is given.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard

from every_byte.gpu.ranks import is_real, ranks
from utils import GPT, Block, SavedTensorContext, SimulatedGPU
from utils.models.tensor_parallel import QKV, own_share, tensor_parallel

B, S, D, A, V = 2, 8, 16, 4, 24


def make(name, device):
    """The same weights wherever it is called."""
    torch.manual_seed(0)
    settings = dict(device=device, dtype=torch.float64, kind="explicit", bias=True)
    if name == "block":
        return Block(D, A, "gelu", context_length=S, **settings)
    return GPT(V, S, D, 2, A, **settings)


def data(name, device):
    """x, or tokens and targets; the same numbers wherever they are real."""
    torch.manual_seed(1)
    if name == "block":
        return [torch.randn(B, S, D, dtype=torch.float64).to(device).requires_grad_()]
    return [torch.randint(V, (B, S)).to(device) for _ in range(2)]


def run(name, device, mesh=None, sequence=False):
    """Model, inputs, output (of a GPT the logits too) and what autograd keeps, after backward."""
    model, given = make(name, device), data(name, device)
    if mesh is not None:
        model = tensor_parallel(model, mesh, sequence=sequence)
        if name == "block" and sequence:
            given = [own_share(given[0].detach(), mesh, 1).requires_grad_()]
    with SavedTensorContext(model.parameters()) as saved:
        made = model(*given)
    logits, result = made if name == "gpt" else (None, made)
    rows = [(r.module, r.node, r.slot, list(r.shape), r.storage_bytes) for r in saved.rows(result)]
    kept_bytes = saved.saved_tensor_mem
    (result if name == "gpt" else (result * torch.arange(D, device=device)).sum()).backward()
    return model, given, [x for x in (logits, result) if x is not None], rows, kept_bytes


def share_of(name, whole, like, mesh):
    """The part of a parameter's whole gradient that a rank has, or the whole where the ranks' sums make it up."""
    [placement] = like.placements
    if isinstance(placement, Shard):
        return own_share(whole, mesh, placement.dim, parts=QKV if ".qkv." in name else 1), like.to_local()
    return whole, like.full_tensor()


def largest_difference(name, alone, here, mesh, sequence):
    """Between one process and these ranks: outputs, gradients of parameters, gradient of x or logits to go on from."""
    (one, x, outputs, *_), (other, own_x, own_outputs, *_) = alone, here
    pairs = []
    for whole, part in zip(outputs, own_outputs, strict=True):
        if isinstance(part, DTensor):
            pairs.append((whole, part.full_tensor()))
        else:
            pairs.append((own_share(whole, mesh, 1) if sequence else whole, part))
    wholes = dict(one.named_parameters())
    for key, parameter in other.named_parameters():
        assert isinstance(parameter.grad, DTensor)
        pairs.append(share_of(f".{key}", wholes[key].grad, parameter.grad, mesh))
    if name == "block":
        pairs.append((own_share(x[0].grad, mesh, 1) if sequence else x[0].grad, own_x[0].grad))
    else:  # without targets, the logits of the last position
        pairs.append((one(x[0])[0], other(own_x[0])[0].full_tensor()))
    assert all(torch.any(whole != 0) for whole, _ in pairs)
    return max(((whole - part).abs().max() / whole.abs().max()).item() for whole, part in pairs)


def check(folder):
    """Each model, with and without sequence parallel: differences, and bytes beside the simulated rank's."""
    rank, n = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    found = {"seeds that differ": differ()}
    for name in ("block", "gpt"):
        alone = run(name, "cpu")
        for sequence in (False, True):
            with ranks() as mesh:
                assert is_real()
                here = run(name, "cpu", mesh, sequence)
                difference = largest_difference(name, alone, here, mesh, sequence)
                norms = here[0].norm1 if name == "block" else here[0].norm
                placement = norms.weight.grad.placements[0]
                assert isinstance(placement, Replicate) != sequence, "a norm's gradient waits for its sum"
            with SimulatedGPU("a100-80gb") as gpu, ranks(n, rank) as mesh:
                assert not is_real()
                simulated = run(name, gpu.device, mesh, sequence)
            found[f"{name}, {'sequence' if sequence else 'tensor'}"] = {
                "difference": difference,
                "kept": here[4],
                "kept by the simulated rank": simulated[4],
                "rows": here[3],
                "rows of the simulated rank": simulated[3],
            }
    write(folder, found)


def differ():
    """What is said where each rank has a seed of its own."""
    with ranks() as mesh:
        torch.manual_seed(mesh.get_local_rank())
        try:
            tensor_parallel(Block(D, A, "gelu"), mesh)
        except ValueError as error:
            return str(error)


def lose(folder):
    """Rank 1 is gone, without a word, when the others want its sums."""
    try:
        with ranks() as mesh:
            if mesh.get_local_rank() == 1:
                os._exit(7)
            start = time.monotonic()
            run("block", "cpu", mesh)
    except RuntimeError as error:
        seconds = time.monotonic() - start
        write(folder, {"error": str(error), "cause": str(error.__cause__), "seconds": seconds})
        raise


def refuse(folder):
    """Four heads."""
    with ranks() as mesh:
        tensor_parallel(Block(D, A, "gelu"), mesh)


def write(folder, found):
    """For the test."""
    (Path(folder) / f"{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"check": check, "lose": lose, "refuse": refuse}[sys.argv[1]](sys.argv[2])
