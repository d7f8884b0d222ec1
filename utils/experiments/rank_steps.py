"""One rank of several: a transformer block under tensor parallelism, and a GPT that trains under data parallelism."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from every_byte.gpu.protocol import GPU
from every_byte.gpu.ranks import ranks
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.saved_tensors import SavedTensor
from every_byte.ledger.trace import Trace
from utils.contexts import SavedTensorContext
from utils.formulas.estimates import half_precision_activations
from utils.formulas.tensor_parallel import rank_saved
from utils.layers import Block
from utils.models.data_parallel import fully_sharded, rank_parameters, replicated, states_sharded
from utils.models.gpt import GPT, VOCABULARY_SIZE, letters
from utils.models.regions import library_checkpoint, set_regions
from utils.models.tensor_parallel import tensor_parallel

from .blocks import without_cudnn
from .training import StepSettings, random_tokens, train_steps

MODELS = {
    "22B": {"L": 48, "d": 6144, "a": 64, "b": 4},
    "175B": {"L": 96, "d": 12288, "a": 96, "b": 1},
    "530B": {"L": 105, "d": 20480, "a": 128, "b": 1},
    "1T": {"L": 128, "d": 25600, "a": 160, "b": 1},
}
"""Korthikanti et al. 2022, table 3: layers, width, heads, micro-batch; each with sequences of 2,048 and t = 8."""
S, T = 2048, 8


class GathersAgain(nn.Module):
    """A layer that gathers its input from all ranks in forward, and again in backward."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = library_checkpoint(self.layer, x)
        return y


def gather_again(block: Block) -> Block:
    """Have a block that is split with `sequence=True` keep this rank's share of its gathered inputs; returns it."""
    for module, name in ((block.attention, "qkv"), (block.mlp, "up")):
        setattr(module, name, GathersAgain(module.get_submodule(name)))
    return block


@dataclass(frozen=True)
class RankStep:
    """Forward and backward of one block as one rank.

    Counts: `rows` and `saved_bytes`: what forward keeps for backward, each storage once, not the parameters.
    Unit:   bytes.
    """

    t: int
    rows: tuple[SavedTensor, ...]
    saved_bytes: int
    trace: Trace

    @property
    def exchanges(self) -> list[tuple[str, str, int]]:
        """What is exchanged, in order: (phase, collective, bytes of the whole tensor that all ranks have a part of)."""
        return [
            (event.phase, name, _whole_bytes(name, event.n_bytes, self.t))
            for event in self.trace
            if event.action == "alloc" and (name := _COLLECTIVES.get(event.operation))
        ]

    @property
    def exchanged(self) -> Counter[tuple[str, str]]:
        """How often each (phase, collective) runs."""
        return Counter((phase, name) for phase, name, _ in self.exchanges)

    @property
    def sent_bytes(self) -> int:
        """What a rank sends if each exchange runs round a ring: (t - 1)/t of the tensor, twice for an all-reduce."""
        return sum(_RING[name] * (self.t - 1) * n_bytes // self.t for _, name, n_bytes in self.exchanges)

    @property
    def n_products(self) -> int:
        """How many matrix products ran: each allocates its result, and the first of a thread a workspace, too."""
        products = ("aten::mm", "aten::addmm", "aten::bmm")
        results = (event for event in self.trace if event.action == "alloc" and event.name != "cuBLAS workspace")
        return sum(event.operation in products for event in results)


_COLLECTIVES = {
    "_c10d_functional::all_reduce": "all-reduce",
    "_c10d_functional::all_gather_into_tensor": "all-gather",
    "_c10d_functional::reduce_scatter_tensor": "reduce-scatter",
}
_RING = {"all-reduce": 2, "all-gather": 1, "reduce-scatter": 1}


def _whole_bytes(collective: str, n_bytes: int, t: int) -> int:
    return n_bytes * t if collective == "reduce-scatter" else n_bytes


def block_as_rank(
    gpu: GPU,
    mesh: DeviceMesh,
    *,
    b: int,
    s: int,
    d: int,
    a: int,
    sequence: bool = False,
    again: bool = False,
    core: bool = True,
    attention: str = "explicit",
    dropout: float = 0.1,
) -> RankStep:
    """Run forward and backward of a bfloat16 `Block` with GELU as this rank, on an open GPU.

    `sequence` splits the positions as well; `again` gathers the block's inputs again in backward; `core=False` makes
    attention's core a checkpoint, the region "attention only" of utils.models.regions. `attention` is "explicit", or
    "fused" for the kernel that PyTorch chooses.

    Shapes: x[b, s, d], or x[b, s/t, d] with `sequence` -> y of the same shape
    Raises: ValueError if the ranks do not divide the heads or the positions; as `tensor_parallel` and `Block` do.
    """
    kind = "explicit" if attention == "explicit" else "sdpa"
    block = Block(d, a, "gelu", dropout, gpu.device, torch.bfloat16, kind=kind, context_length=s)
    block = tensor_parallel(block, mesh, sequence=sequence)
    if again:
        block = gather_again(block)
    if not core:
        set_regions(block, "attention only", run=library_checkpoint)
    own = s // mesh.size() if sequence else s
    x = torch.empty(b, own, d, device=gpu.device, dtype=torch.bfloat16, requires_grad=True)
    ignored = [*block.parameters(), *block.buffers()]
    with gpu.trace.in_phase("forward"), SavedTensorContext(ignored) as saved:
        y = block(x)
    rows, saved_bytes = tuple(saved.rows(y)), saved.saved_tensor_mem
    with gpu.trace.in_phase("backward"):
        y.sum().backward()
    return RankStep(mesh.size(), rows, saved_bytes, gpu.trace)


def as_rank(t: int, *, rank: int = 0, gpu: str = "h200-141gb", **how: Any) -> RankStep:
    """`block_as_rank` as one of t ranks, on a fresh simulated GPU; a block of each of MODELS fits.

    Raises: as `ranks` and `block_as_rank` do.
    """
    with SimulatedGPU(gpu) as own, ranks(t, rank) as mesh:
        return block_as_rank(own, mesh, **how)


def train_on_ranks(
    stage: int,
    n: int,
    *,
    reshard_after_forward: bool | None = None,
    gradient_as_bucket_view: bool = False,
    model: str = "gpt2",
    b: int = 12,
    s: int = 1024,
) -> tuple[Trace, dict[str, int]]:
    """Train a GPT-2 for three steps as rank 0 of n, on a simulated A100, under autocast; return the trace and letters.

    `stage` is ZeRO's: 0 is DDP, 1 is DDP with sharded optimizer state, 3 is FSDP2. Each rank trains on b sequences of s
    tokens. The letters are those of the closed forms in utils.formulas.data_parallel; in stage 1 this rank has the
    optimizer state of P parameters in T tensors.

    Raises: ValueError for a stage without an engine; as `train_steps` does.
    """
    if stage not in (0, 1, 3):
        raise ValueError(f"stage must be 0, 1 or 3, for which PyTorch has an engine: got stage={stage!r}.")
    sizes = letters(model) | {"b": b, "s": s, "n": n}
    with SimulatedGPU("a100-80gb") as gpu, ranks(n) as mesh:

        def make_model() -> nn.Module:
            whole = GPT.from_name(model, context_length=s, device=gpu.device)
            own = rank_parameters(whole, n)[0]
            sizes.update(P=sum(parameter.numel() for parameter in own), T=len(own))
            if stage == 3:
                return fully_sharded(whole, mesh, reshard_after_forward=reshard_after_forward)
            return replicated(whole, mesh, gradient_as_bucket_view=gradient_as_bucket_view)

        optimizer = partial(states_sharded, mesh=mesh, fused=True) if stage == 1 else "fused"
        how = StepSettings(autocast=torch.bfloat16, optimizer=optimizer)
        train_steps(gpu, make_model, lambda: random_tokens(gpu, b=b, s=s, V=sizes["V"]), how)
    return gpu.trace, sizes


def split_and_sharded(gpu: GPU, n: int = 8) -> dict[str, int]:
    """Run a split block, then two steps of a small GPT under FSDP2, as one of n ranks on any open GPU.

    Attention runs one of PyTorch's own kernels.

    Counts: what the block saves for backward; what is allocated after each phase of a step; the second step's peaks.
    Unit:   bytes.
    Raises: as `ranks`, `tensor_parallel` and `train_steps` do.
    """
    with without_cudnn(), ranks(n) as mesh:
        kept_bytes = split_block(gpu, mesh)

        def make_model() -> nn.Module:
            return fully_sharded(GPT.from_name("gpt2", n_layers=2, context_length=256, device=gpu.device), mesh)

        how = StepSettings(autocast=torch.float16)
        run = train_steps(gpu, make_model, lambda: random_tokens(gpu, b=2, s=256, V=VOCABULARY_SIZE), how, n_steps=2)
    return {"a split block keeps": kept_bytes} | {f"FSDP2, {name}": n for name, n in run.with_peaks(2).items()}


def split_block(gpu: GPU, mesh: DeviceMesh) -> int:
    """What a float16 block keeps between forward and backward, split over the ranks with its positions.

    Unit:   bytes.
    """
    b, s, d, a = 2, 256, 1024, 16
    block = tensor_parallel(Block(d, a, "gelu", 0.1, gpu.device, torch.float16), mesh, sequence=True)
    x = torch.empty(b, s // mesh.size(), d, device=gpu.device, dtype=torch.float16, requires_grad=True)
    with SavedTensorContext(block.parameters()) as saved:
        y = block(x)
    kept_bytes = saved.saved_tensor_mem
    y.sum().backward()
    return kept_bytes


def whole_and_divided(
    t: int, *, b: int, s: int, d: int, a: int, sequence: bool = False, again: bool = False, core: bool = True
) -> dict[str, int]:
    """The bytes a rank keeps, in two parts: what is whole on every rank, and what the ranks divide among them.

    Source: `rank_saved`, for explicit attention with GELU and dropout.
    """
    formula = rank_saved(
        attention="explicit", activation="gelu", dropout=0.1, core=core, sequence=sequence, gathers_again=again
    )
    on_one, on_each = (formula.bytes(b=b, s=s, d=d, a=a, t=n, e=2) for n in (1, t))
    # W + D/t on each of t, and W + D on one
    whole = on_one if t == 1 else (t * on_each - on_one) // (t - 1)
    return {"whole on each rank": whole, "divided": on_each - whole}


def kept_of_models() -> dict[str, dict[str, int]]:
    """What a rank keeps of all layers of each of MODELS, by the paper's formulas, on one GPU and on T ranks.

    In "full", each block is a checkpoint and keeps the rank's share of its input, 2sbd/t.

    Unit:   bytes.
    Source: Korthikanti et al. 2022, section 4 and table 2.
    """
    plain, selective = half_precision_activations(), half_precision_activations(sequence=True, selective=True)
    ways = {"one GPU": (plain, 1), "tensor": (plain, T)}
    ways |= {"sequence": (half_precision_activations(sequence=True), T), "selective": (selective, T)}
    kept = {}
    for name, model in MODELS.items():
        kept[name] = {way: formula.bytes(**model, s=S, t=t) for way, (formula, t) in ways.items()}
        kept[name]["full"] = 2 * S * model["b"] * model["d"] * model["L"] // T
    return kept
