"""What is said of an experiment on a live GPU beside a simulation of it."""

import gc
from contextlib import contextmanager

import pytest
import torch

from every_byte.gpu import side_by_side
from every_byte.gpu.live.gpu import LiveGPU
from every_byte.gpu.live.machine import Machine, conditions
from every_byte.gpu.live.settings import followed_settings
from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.side_by_side import live_beside_simulated
from utils import SimulatedGPU
from utils.experiments.blocks import without_cudnn
from utils.experiments.first_programs import fragmented, mlp_forward, train_stack, two_by_two
from utils.experiments.gpt_article import gpt_steps
from utils.experiments.rank_steps import split_and_sharded
from utils.experiments.training import StepSettings
from utils.models.regions import set_regions

SIZE = {"b": 2, "s": 4096, "d": 1024}
T4 = find_spec("t4-16gb")
TITLE = f"t4-16gb: measured by PyTorch {torch.__version__}"


class StandIn(SimulatedGPU):
    """A simulated T4 in the place of the live GPU, on which a reader has left something."""

    origin, left = "measured", ()


@contextmanager
def cleared(*, traced):
    with StandIn(T4) as gpu:
        kept = [torch.empty(n_bytes, dtype=torch.uint8, device=gpu.device) for n_bytes in gpu.left]
        if kept:
            del kept[0]
        yield gpu


@pytest.fixture
def machine(monkeypatch):
    found = {"name": "t4-16gb", "reason": "", "cannot_be_simulated": ""}
    monkeypatch.setattr(side_by_side, "this_machine", lambda: Machine(**found))
    monkeypatch.setattr(side_by_side, "conditions", lambda device: list(found.get("said", ())))
    monkeypatch.setattr(side_by_side, "cleared", cleared)
    monkeypatch.setattr(side_by_side, "followed_settings", lambda device: ("", []))
    return found


def experiment(gpu):
    return {"allocated": {"measured": 1100, "simulated": 1000}[gpu.origin], "kept": 7}


def test_without_a_gpu_it_says_so(machine):
    machine["reason"] = "There is none."
    assert live_beside_simulated(experiment) == "There is none. Only the simulated figures are shown."


@pytest.mark.usefixtures("machine")
def test_with_a_gpu_it_says_by_how_much_the_measured_is_off():
    assert live_beside_simulated(experiment).splitlines() == [
        f"{TITLE}, simulated by PyTorch 2.13's rules",
        "bytes      measured  simulated  difference",
        "allocated     1,100      1,000        +100",
        "kept              7          7          +0",
        side_by_side.SEND_IN,
    ]


@pytest.mark.usefixtures("machine")
def test_what_was_there_before_is_in_both_columns(monkeypatch):
    monkeypatch.setattr(StandIn, "left", (3 << 20, 7 << 20, 100, 5 << 20))
    *rows, said, _ = live_beside_simulated(two_by_two).splitlines()
    assert {row.split()[-1] for row in rows[2:]} == {"+0"}
    assert said == "12,583,424 bytes (12 MiB) were allocated before; the simulated GPU has them from the start, too."


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("found", [None, 512, {"allocated": 1.5}])
def test_what_is_no_bytes_by_name_is_refused(found):
    with pytest.raises(TypeError, match=r'must give whole bytes by name, as {"allocated": 512}: got '):
        live_beside_simulated(lambda gpu: found)


@pytest.mark.usefixtures("machine")
def test_the_names_are_the_same_on_both():
    with pytest.raises(ValueError, match="the same names on both GPUs: live it gave measured; simulated simulated"):
        live_beside_simulated(lambda gpu: {gpu.origin: 512})


def test_conditions_stand_below(machine, monkeypatch):
    monkeypatch.setattr(side_by_side, "conditions", lambda device: ["One.", "Two."])
    assert live_beside_simulated(experiment).splitlines()[-3:] == ["One.", "Two.", side_by_side.SEND_IN]


def test_the_simulation_follows_the_settings_of_the_machine(machine, monkeypatch):
    """A request of 3 MiB takes a large segment, which a setting makes smaller."""
    followed = ("large_segment_size_mb:12", ["Its simulation follows x."])
    monkeypatch.setattr(side_by_side, "followed_settings", lambda device: followed)

    def reserved(gpu):
        kept = torch.empty(3 << 20, dtype=torch.uint8, device=gpu.device)
        return {"reserved": gpu.memory_reserved() + 0 * len(kept)}

    lines = live_beside_simulated(reserved).splitlines()
    assert lines[2].split() == ["reserved", f"{20 << 20:,d}", f"{12 << 20:,d}", f"+{8 << 20:,d}"]
    assert lines[3] == "Its simulation follows x."


def test_where_no_simulation_is_right_there_is_none(machine):
    machine["cannot_be_simulated"] = "It is another maker's."
    assert live_beside_simulated(experiment).splitlines() == [
        TITLE,
        "bytes      measured",
        "allocated  1,100",
        "kept       7",
        "It is another maker's.",
    ]


@pytest.mark.usefixtures("machine")
def test_out_of_memory_is_a_sentence_and_leaves_nothing():
    held = []

    def too_much(gpu):
        held.append(gpu)
        mine = torch.ones(1 << 30, dtype=torch.uint8, device=gpu.device)
        return {"never": torch.empty(20 << 30, dtype=torch.uint8, device=gpu.device).nbytes + mine.nbytes}

    said = live_beside_simulated(too_much)
    assert said.startswith(f"{TITLE}: the experiment does not fit. CUDA out of memory (simulated t4-16gb):")
    gc.collect()
    assert held[0].memory_allocated() == 0
    assert live_beside_simulated(experiment).startswith(TITLE), "the next one runs"


@pytest.mark.usefixtures("machine")
def test_other_errors_are_raised():
    with pytest.raises(ZeroDivisionError):
        live_beside_simulated(lambda gpu: 1 // 0)


def every_block_checkpointed(gpu):
    how = StepSettings(autocast=torch.float16)
    with without_cudnn():
        run = gpt_steps(gpu, b=2, kind="sdpa", settings=how, wrap=lambda model: set_regions(model, "every block"))
    return run.with_peaks(2)


EXPERIMENTS = {
    "two by two": two_by_two,
    "a stack": lambda gpu: train_stack(gpu).figures,
    "regions": every_block_checkpointed,
    "as rank 0 of 8": split_and_sharded,
    **{
        name: lambda gpu, name=name: mlp_forward(gpu, **SIZE, activation=name, dropout=0.1).figures
        for name in ("relu", "gelu", "leaky_relu_", "softsign")
    },
}


@pytest.mark.gpu
@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_measured_is_simulated(name, leaves):
    left = fragmented(LiveGPU()) if leaves else {}
    rows = live_beside_simulated(EXPERIMENTS[name]).splitlines()
    assert len(rows) > 2
    said = [*conditions(LiveGPU().device), *followed_settings(LiveGPU().device)[1], side_by_side.SEND_IN]
    off = [row for row in rows[2:] if not row.endswith("+0") and "were allocated before" not in row and row not in said]
    assert not off, rows
    del left
