"""An experiment on this machine's own GPU beside the same on a simulation of that GPU."""

from collections.abc import Callable, Mapping

import torch

from every_byte.failures import release, sentence
from every_byte.gpu.live.gpu import LiveGPU, cleared
from every_byte.gpu.live.machine import conditions, this_machine
from every_byte.gpu.live.settings import followed_settings
from every_byte.gpu.protocol import GPU
from every_byte.tables import Table
from every_byte.units import exact

from .simulated import SimulatedGPU

SEND_IN = "`every-byte measure` compares more of this card with its simulation, and writes a file that you can send in."

Experiment = Callable[..., Mapping[str, int]]


def live_beside_simulated(experiment: Experiment, *, traced: bool = False) -> str:
    """Run `experiment(gpu)`, which gives bytes by name, on a live and on a simulated GPU; say what each found.

    The live one is cleared first, as far as nothing refers to it: of garbage, of cuBLAS workspaces and of cached
    segments. What is left, the simulated one has from the start as well. An experiment that does not fit is said to; so
    is all that changes what is measured: settings of the process, other processes, a part of a GPU. With `traced` the
    live GPU has a trace, as the simulated one always has; that takes it some seconds.

    Unit:   bytes.
    Raises: whatever the experiment raises, but for out of memory; TypeError for what is no bytes by name, ValueError
            for other names on the simulated GPU.
    """
    machine = this_machine()
    if machine.reason:
        return f"{machine.reason} Only the simulated figures are shown."
    with cleared(traced=traced) as live:
        said = [*conditions(live.device), *_left_on(live), *filter(None, [machine.cannot_be_simulated])]
        spec, left = live.spec, live.memory_snapshot()
        settings, followed = followed_settings(live.device)
        said += followed
        live.reset_peak_memory_stats()
        measured = _run(experiment, live)
    where = f"{spec.name}: measured by PyTorch {torch.__version__}"
    if isinstance(measured, str):
        return _lines(f"{where}: the experiment does not fit. {measured}", said)
    if machine.cannot_be_simulated:
        return _lines(Table(where, ["bytes", "measured"], [[n, f"{m:,d}"] for n, m in measured.items()]).text(), said)
    with SimulatedGPU(spec, holding=left, settings=settings) as gpu:
        simulated = _run(experiment, gpu)
    if isinstance(simulated, str):
        return _lines(f"{where}; its simulation does not fit, though the measured run did. {simulated}", said)
    if simulated.keys() != measured.keys():
        raise ValueError(
            f"an experiment must give the same names on both GPUs: live it gave {', '.join(measured)}; simulated "
            f"{', '.join(simulated)}."
        )
    title = f"{where}, simulated by PyTorch {spec.torch_version}'s rules"
    rows = [[name, f"{n:,d}", f"{simulated[name]:,d}", f"{n - simulated[name]:+,d}"] for name, n in measured.items()]
    said.append(SEND_IN)
    return _lines(Table(title, ["bytes", "measured", "simulated", "difference"], rows, numbers=3).text(), said)


def _left_on(live: LiveGPU) -> list[str]:
    """What earlier programs left allocated, which is in both columns."""
    n_bytes = live.memory_allocated()
    return [f"{exact(n_bytes)} were allocated before; the simulated GPU has them from the start, too."] * bool(n_bytes)


def _run(experiment: Experiment, gpu: GPU) -> Mapping[str, int] | str:
    """What the experiment gives, or why there was not enough memory."""
    try:
        result = experiment(gpu)
    except torch.OutOfMemoryError as error:
        reason = sentence(error)
        release(error)
        return reason
    if not isinstance(result, Mapping) or not all(isinstance(n_bytes, int) for n_bytes in result.values()):
        raise TypeError(f'an experiment must give whole bytes by name, as {{"allocated": 512}}: got {result!r}.')
    return result


def _lines(first: str, more: list[str]) -> str:
    return "\n".join([first, *more])
