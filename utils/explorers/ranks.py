"""The explorer of a mesh of ranks: a model split over t of them, its batch over n groups, and what each one holds."""

from typing import Any

from every_byte.gpu.capacity import Fit
from every_byte.units import exact
from every_byte.widget import Account, Control, Explorer, Limit
from every_byte.widget.gpus import (
    allocator_control,
    available_gpus,
    beside_its_simulation,
    gpu_controls,
    origin_of,
    with_gpu,
)
from utils.experiments.mesh_step import SHAPES, MeshRun, MeshStep
from utils.formulas.mesh import ATTENTIONS, MOMENTS, RECOMPUTE, SEQUENCE, STAGES

from .gpt_controls import judge_of, timeline_of

WITH_BFLOAT16 = (8, 0)
"""The compute capability from which on a GPU computes in bfloat16."""

_SPLIT = (1, 2, 4, 8, 16, 32)
_IS_SPLIT = {"t": [str(t) for t in _SPLIT[1:]]}
_IS_SHARED = {"stage": list(STAGES)[1:]}
_ENGINES = {
    "none": "No data parallelism",
    "0": "DDP",
    "1": "DDP and ZeroRedundancyOptimizer",
    "3": "FSDP2",
    "3, weights kept": "FSDP2 with reshard_after_forward=False",
}

_AS_RANK_0 = "This card is rank 0; PyTorch's fake process group replaces the other ranks, and nothing is exchanged."


def controls() -> list[Control]:
    """One for each setting of `MeshStep`, and that of the verdict."""
    start = MeshStep()
    ranks = {str(t): t for t in _SPLIT}
    return [
        Control.choice("model", "model", list(SHAPES), letters=SHAPES),
        Control.choice("t", "tensor-parallel ranks", ranks, value=start.t, letter="t", letters=ranks, selects=True),
        Control.choice("sequence", "sequence parallel", list(SEQUENCE), value=start.sequence, when=_IS_SPLIT),
        Control.choice("recompute", "recomputed in backward", list(RECOMPUTE), value=start.recompute),
        Control.choice("attention", "attention", list(ATTENTIONS)),
        Control.choice("stage", "ZeRO stage", list(STAGES), value=start.stage),
        Control.range("n", "data-parallel groups", 2, 1024, value=start.n, log=True, unit="groups", when=_IS_SHARED),
        Control.range("b", "micro-batch", 1, 128, value=start.b, log=True, unit="sequences"),
        Control.range("s", "sequence", 16, 16384, value=start.s, log=True, unit="tokens"),
        *gpu_controls("GPU of each rank", least=WITH_BFLOAT16, workspace=True),
        allocator_control(WITH_BFLOAT16),
    ]


def limits() -> dict[str, list[Limit]]:
    """Where a model cannot be split."""
    of_each = ", ".join(f"{shape['a']} of {name}" for name, shape in SHAPES.items())
    heads = Limit("a - up(a/t, 1)*t", f"t must divide the number of heads: {of_each}.")
    way_out = "take another s, or no sequence parallel."
    positions = Limit("s - up(s/t, 1)*t", f"t must divide s: {way_out}", {"sequence": SEQUENCE[1:]})
    return {name: [heads, positions] for name in MOMENTS}


def account(settings: dict[str, Any]) -> Account:
    """A training step as rank 0, on a fresh GPU, as an explorer shows it."""
    run = MeshStep(**settings).run()
    timeline, fit = timeline_of(run), run.fit()
    more = _of_the_figure(max(timeline.reserved), fit) if fit else f" {_AS_RANK_0} {run.room}"
    return Account(
        run.account(),
        **origin_of(run.trace.origin, run.trace.gpu, run.step.spec),
        timeline=timeline,
        fit=fit,
        judge=judge_of(run),
        remark=remark(run) + more,
    )


def _of_the_figure(reserved_bytes: int, fit: Fit) -> str:
    """Why the timeline reserves more than the verdict says, or less, where it all fits without giving segments back.

    The simulated run makes the whole model, cuts it, and gives back what was unused; and it takes two or three steps.
    """
    if not fit.fits or fit.n_retries or reserved_bytes == fit.needed_bytes:
        return ""
    return (
        f" The figure shows this run's step, which reserves {exact(reserved_bytes)} at most. The verdict is for a rank "
        "that makes only its own share, and repeats the step until its segments stop growing."
    )


def remark(run: MeshRun) -> str:
    """How many GPUs there are, which engines ran, and where PyTorch does otherwise than ZeRO."""
    step = run.step
    split = "the model whole" if step.t == 1 else f"tensor parallel over {step.t} ranks"
    said = f"{step.n_ranks:,} {'GPU' if step.n_ranks == 1 else 'GPUs'}. {_ENGINES[step.stage]}, {split}."
    if step.stage != "1":
        return said
    more = run.added_state_bytes
    return (
        f"{said} ZeroRedundancyOptimizer deals out whole parameters, not 1/n of each, so rank 0's state is "
        f"{'larger' if more >= 0 else 'smaller'} by {exact(abs(more))}."
    )


def ranks_explorer() -> Explorer:
    """Any of eight models over up to 32 x 1,024 ranks: one rank's step predicted and accounted, and whether it fits."""
    return Explorer(
        title="One rank of n·t",
        controls=controls(),
        formula=lambda settings: MeshStep(**with_gpu(settings)).held,
        measure=beside_its_simulation(account),
        capacity=("gpu", {name: spec.allocator_bytes for name, spec in available_gpus(WITH_BFLOAT16).items()}),
        limits=limits(),
    )
