"""The exercises of chapter 6: each answer is held to simulated ranks and to the closed form of a rank."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TypeAlias

import torch
from torch import nn
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from every_byte.gpu.capacity import Fit
from every_byte.gpu.ranks import ranks
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.ledger import Ledger
from every_byte.units import exact
from utils.contexts import SavedTensorContext
from utils.experiments.mesh_step import MeshRun, MeshStep
from utils.experiments.readings import requested
from utils.formulas.tensor_parallel import rank_saved
from utils.layers import MLP
from utils.models.data_parallel import fully_sharded, replicated
from utils.models.gpt import GPT
from utils.models.regions import set_regions

from .judge import Verdict, check, no_function, no_names, not_yet, raised, right

Clip: TypeAlias = Callable[[Iterable[nn.Parameter]], None]
TENSORS = {
    "the input of norm2": "norm2: input",
    "q, k and v": "attention: q, k, v",
    "softmax's result": "attention: weights",
    "the input of out": "attention: output",
    "the input of up": "mlp: input",
    "GELU's input": "mlp: activation input",
    "the mask of the dropout behind down": "mlp: dropout mask",
}
T, B, S, D = 4, 2, 64, 128
ROWS, WIDTH, N_RANKS = 50_257, 768, 8
CROWDED = MeshStep(
    model="gpt2-medium", s=40_960, b=1, t=4, sequence="off", recompute="none", attention="flash", stage="0", n=2,
    gpu="rtx3090-24gb",
)  # fmt: skip
LEAST = replace(CROWDED, b=2, t=8, sequence="on, gathered again", stage="none")
_GIVEN = ("model", "s", "recompute", "attention", "gpu")


def padding(answer: int | None) -> Verdict:
    """Exercise 1: what eight ranks hold of a table and its training beyond 16 bytes a number, all together."""
    one = 4 * WIDTH * (-ROWS % N_RANKS)
    truth = sum(map(_of_table, range(N_RANKS))) - 16 * ROWS * WIDTH
    return check(
        answer,
        truth,
        {
            0: "Eight shares of as many rows each are more rows than the table has.",
            one: "That is what the weights are padded by. What else has their shape, with what the rank does not own?",
            4 * one: "Adam's averages are those of the rows that a rank owns: the last rank's are fewer.",
            3 * one: "Adam has two averages, and neither is padded.",
            one // 4: "That is the numbers; each takes four bytes.",
        },
    )


@cache
def _of_table(rank: int) -> int:
    """What a rank holds of weights, gradients and Adam's averages of the table, requested."""
    with SimulatedGPU("a100-80gb") as gpu, ranks(N_RANKS, rank) as mesh:
        table = fully_sharded(nn.Embedding(ROWS, WIDTH, device=gpu.device), mesh)
        optimizer = torch.optim.AdamW(table.parameters(), foreach=True)
        table(torch.zeros(4, dtype=torch.int64, device=gpu.device)).sum().backward()
        optimizer.step()
        parts = Ledger.now(gpu).parts
        return sum(parts[name] for name in ("parameters", "gradients", "optimizer state"))


def whole(answer: Collection[str] | None) -> Verdict:
    """Exercise 2: which tensors each rank keeps whole in tensor parallel, without sequence parallel."""
    if (wrong := no_names(answer, TENSORS)) is not None:
        return wrong
    formula = rank_saved(attention="explicit", activation="gelu", dropout=0.1)
    one, eight = (formula.by_term(b=2, s=64, d=64, a=8, e=2, t=t) for t in (1, 8))
    truth = {name for name, term in TENSORS.items() if one[term] == eight[term]}
    named = set(answer or ())
    if missing := [name for name in TENSORS if name in truth - named]:
        return not_yet(f"{missing[0]} stands whole, too: it lies between the products, not inside a rank's term.")
    if divided := [name for name in TENSORS if name in named - truth]:
        return not_yet(f"{divided[0]} belongs to a rank's own heads or hidden numbers: it is divided.")
    return right(f"{len(truth)} of {len(TENSORS)}, as the closed form has it for 8 ranks and for 1.")


def plan(function: Callable[[], Mapping[str, ParallelStyle]]) -> Verdict:
    """Exercise 3: a plan for `parallelize_module` that splits an MLP over ranks and keeps as little as it can."""
    if (wrong := no_function(function)) is not None:
        return wrong
    try:
        shape, kept_bytes, exchanged = split_mlp(function())
    except Exception as error:
        return not_yet(raised(error, "your plan"))
    if shape != (B, S, D):
        return not_yet(f"the result must be y[{B}, {S}, {D}], whole on each rank: got {list(shape)}.")
    least_bytes = sum(rank_mlp_bytes().values())
    if kept_bytes != least_bytes:
        return not_yet(
            f"a rank keeps {exact(kept_bytes)}, and can do with {exact(least_bytes)}: x whole, and 1/{T} of what "
            "GELU takes and gives."
        )
    if exchanged != ["all_reduce"]:
        return not_yet(f"forward needs one exchange, a sum: yours has {', '.join(exchanged) or 'none'}.")
    return right(f"a rank keeps {exact(kept_bytes)}, and forward exchanges one sum.")


def split_mlp(styles: Mapping[str, ParallelStyle]) -> tuple[tuple[int, ...], int, list[str]]:
    """Forward of an MLP as one of T ranks: the shape of its result, what it keeps in bytes, and what is exchanged."""
    with SimulatedGPU("a100-80gb") as gpu, ranks(T) as mesh:
        mlp = parallelize_module(MLP(D, "gelu", device=gpu.device), mesh, dict(styles), src_data_rank=None)
        x = torch.empty(B, S, D, device=gpu.device, requires_grad=True)
        with SavedTensorContext(mlp.parameters()) as saved:
            y = mlp(x)
        prefix = "_c10d_functional::"
        exchanged = [event.operation for event in gpu.trace if event.action == "alloc"]
        names = [name.removeprefix(prefix) for name in exchanged if name.startswith(prefix)]
        return tuple(y.shape), saved.saved_tensor_mem, names


def rank_mlp_bytes() -> dict[str, int]:
    """What a rank keeps of that MLP at least, term by term."""
    formula = rank_saved(attention="explicit", activation="gelu")
    terms = formula.by_term(b=B, s=S, d=D, a=T, e=4, t=T)
    return {name: n_bytes for name, n_bytes in terms.items() if name.startswith("mlp: ")}


def clipped(function: Clip) -> Verdict:
    """Exercise 4: clips gradients to -1 .. 1 where they lie, in DDP's buckets, and takes nothing for it."""
    if (wrong := no_function(function)) is not None:
        return wrong
    try:
        complaint = _wrong_gradients(function)
        stays_bytes, more_bytes = _taken_by(function)
    except Exception as error:
        return not_yet(raised(error))
    if complaint:
        return not_yet(complaint)
    if stays_bytes:
        return not_yet(
            f"{exact(stays_bytes)} more are held when it is done: a gradient is a tensor of its own now, and its "
            "bucket is still there."
        )
    if more_bytes:
        return not_yet(f"nothing stays, but {exact(more_bytes)} more stand there for a moment: a copy of a gradient.")
    return right("the gradients are clipped where they lie: 0 bytes more, after it and within.")


def _wrong_gradients(function: Clip) -> str:
    """What is wrong with the gradients that a function leaves, on the CPU; "" if nothing is."""
    torch.manual_seed(0)
    layer = nn.Linear(5, 3)
    expected = []
    for parameter in layer.parameters():
        parameter.grad = 3 * torch.randn_like(parameter)
        expected.append(parameter.grad.clamp(-1, 1))
    function(list(layer.parameters()))
    for parameter, gradient in zip(layer.parameters(), expected, strict=True):
        if parameter.grad is None:
            return "a gradient is gone: the optimizer needs it."
        if not torch.equal(parameter.grad, gradient):
            return f"a gradient reaches {float(parameter.grad.abs().max()):.3g}, or another number in it has changed."
    return ""


def _taken_by(function: Clip) -> tuple[int, int]:
    """By how much more is held after a function has clipped the gradients of a layer in DDP, and while it does."""
    with SimulatedGPU("a100-80gb") as gpu, ranks(N_RANKS) as mesh:
        layer = nn.Linear(1024, 1024, device=gpu.device)
        model = replicated(layer, mesh, gradient_as_bucket_view=True)
        for _ in range(2):
            model(torch.empty(8, 1024, device=gpu.device)).sum().backward()
        before_bytes = requested(gpu)
        gpu.reset_peak_memory_stats()
        function(list(layer.parameters()))
        return requested(gpu) - before_bytes, requested(gpu, "peak") - before_bytes


def copies(answer: int | None) -> Verdict:
    """Exercise 5: autocast's copies on a rank of eight under FSDP2, after forward, if each block is a checkpoint."""
    truth, all_copies = _copies("every block"), _copies("none")
    return check(
        answer,
        truth,
        {
            all_copies: "So many are there without checkpoints: what does one keep of its block?",
            0: "One product lies in no block.",
            truth // 8: "A copy is made of the gathered weight: it is whole on each rank.",
            2 * truth: "A copy is in half precision.",
            all_copies - truth: "That is what the checkpoints let go.",
        },
    )


@cache
def _copies(regions: str) -> int:
    with SimulatedGPU("a100-80gb") as gpu, ranks(N_RANKS) as mesh:
        model = set_regions(fully_sharded(GPT.from_name("gpt2", context_length=64, device=gpu.device), mesh), regions)
        tokens = torch.zeros(1, 64, dtype=torch.int64, device=gpu.device)
        with gpu.autocast(torch.bfloat16):
            _, loss = model(tokens, tokens)
        n_bytes = Ledger.now(gpu).parts["autocast copies"]
        loss.backward()
        return n_bytes


def fits(step: MeshStep) -> Verdict:
    """Exercise 6: the step of `CROWDED` on the same GPUs, with as many sequences, so that it fits."""
    if not isinstance(step, MeshStep):
        return not_yet(f"pass a MeshStep: got {step!r}.")
    for name in _GIVEN:
        if getattr(step, name) != getattr(CROWDED, name):
            return not_yet(f"{name} must stay {getattr(CROWDED, name)!r}: got {getattr(step, name)!r}.")
    if step.n_ranks != CROWDED.n_ranks:
        return not_yet(f"there are {CROWDED.n_ranks} GPUs, t times the groups: yours are {step.n_ranks}.")
    if (n_sequences := _sequences(step)) != _sequences(CROWDED):
        return not_yet(f"a step has {_sequences(CROWDED)} sequences, b in each group: yours has {n_sequences}.")
    try:
        fit = _fit(step)
    except ValueError as error:
        return not_yet(raised(error, "your step"))
    if not fit.fits:
        given = fit.needed_bytes - _fit(CROWDED).needed_bytes
        beside = f"{exact(abs(given))} {'more' if given > 0 else 'fewer'} than the step you were given" if given else ""
        least = f"the ranks have to reserve {exact(fit.needed_bytes)} at least"
        short = f"{exact(-fit.margin_bytes)} short"
        return not_yet(f"{short}: {least}{', ' + beside if beside else ', as in the step you were given'}.")
    above = fit.needed_bytes - _fit(LEAST).needed_bytes
    score = f"{exact(above)} above the least that we know" if above > 0 else "nobody we know does with less"
    return right(f"it reserves {exact(fit.needed_bytes)}, {exact(fit.margin_bytes)} to spare; {score}.")


def _sequences(step: MeshStep) -> int:
    return step.b * step.n_ranks // step.t


@cache
def _run(step: MeshStep) -> MeshRun:
    return step.run()


def _fit(step: MeshStep) -> Fit:
    fit = _run(step).fit()
    assert fit is not None  # it is simulated
    return fit
