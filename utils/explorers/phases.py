"""The explorer of a training step in five phases: its controls, its prediction, and the account on a GPU."""

from collections.abc import Iterator
from typing import Any

from every_byte.formula.formula import Formula
from every_byte.gpu.device import fresh_gpu
from every_byte.gpu.protocol import GPU
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.ledger.readings import Readings, categories
from every_byte.ledger.requests import Moment, Requests
from every_byte.units import exact
from every_byte.widget import Account, Control, Explorer
from every_byte.widget.gpus import beside_its_simulation, gpu_and_rest, gpu_controls, origin_of
from utils.experiments.first_programs import OPTIMIZERS, train_stack
from utils.experiments.step_run import requests_of
from utils.experiments.training import PHASES
from utils.formulas.phases import FROZEN, WITH_F, frozen_layers, stack_phases

_MARKS = {"model to device": "model to device", "iteration 1": "iteration 1 zero_grad"} | {
    phase: f"iteration 2 {phase}" for phase in PHASES
}
"""The mark behind each stage."""


def _train(gpu: GPU, settings: dict[str, Any]) -> Readings:
    frozen = frozen_layers(settings["frozen"], L=settings["L"], f=settings["f"])
    choices = {name: settings[name] for name in ("b", "d", "n_in", "n_out", "relu", "optimizer")}
    return train_stack(gpu, **choices, n_hidden=settings["L"], frozen=frozen, n_iterations=2)


def predicted(settings: dict[str, Any]) -> dict[str, Formula]:
    """The formulas of a setting, one for each moment."""
    return stack_phases(**{name: settings[name] for name in ("frozen", "relu", "optimizer")}, workspace_bytes="W")


def account(settings: dict[str, Any]) -> Account:
    """Two iterations on a fresh GPU: the first one's end, and each phase of the second."""
    with fresh_gpu(gpu_and_rest(settings)[0]) as gpu:
        found_bytes = gpu.memory_allocated()
        run = _train(gpu, settings)
    highest = max(run.of(2), key=lambda row: row.peak_bytes)
    before = {"model to device": run[0, "model to device"].parts, "iteration 1": run[1, "zero_grad"].parts}
    parts = before | {row.phase: row.parts for row in run.of(2)}
    remark = f"The second iteration peaks in {highest.phase}, at {exact(highest.peak_bytes - found_bytes)}."
    return Account(parts, **origin_of(gpu.origin, gpu.name, gpu.spec), remark=remark)


def requests(settings: dict[str, Any]) -> Requests:
    """What the same iterations ask of a simulated GPU with room for them, and what each allocation counts as."""

    def run(gpu: SimulatedGPU) -> Iterator[Moment]:
        _train(gpu, settings)
        category = categories(gpu.trace)
        for stage, mark in _MARKS.items():
            position = gpu.trace.position(mark)
            kept: dict[str, list[int]] = {}
            for number in gpu.trace.live_at(position):
                kept.setdefault(category[number], []).append(number)
            yield Moment(stage, position, kept, in_blocks=True)

    return requests_of(gpu_and_rest(settings)[0], run)


def phases_explorer() -> Explorer:
    """What a stack of Linears holds after each phase of a training step."""
    return Explorer(
        title="A training step in five phases",
        controls=[
            Control.range("L", "hidden layers", 1, 200, value=200, unit="layers"),
            Control.range("b", "batch", 1, 1024, value=64, log=True, unit="rows"),
            Control.range("d", "width", 1, 256, value=100, unit="features"),
            Control.range("n_in", "inputs", 1, 256, value=100, unit="features"),
            Control.range("n_out", "outputs", 1, 256, value=10, unit="features"),
            Control.choice("frozen", "which are frozen", list(FROZEN)),
            Control.range("f", "layers to freeze", 1, 200, value=100, unit="layers", when={"frozen": WITH_F}),
            Control.toggle("relu", "ReLU after each hidden layer"),
            Control.choice("optimizer", "optimizer", list(OPTIMIZERS), value="Adam"),
            *gpu_controls(workspace=True),
        ],
        formula=predicted,
        measure=beside_its_simulation(account),
    )
