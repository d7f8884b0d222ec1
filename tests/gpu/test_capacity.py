"""Whether a run fits: replayed requests against the simulated GPU of that size, to the last segment."""

import re
from dataclasses import replace

import pytest
import torch

from every_byte.gpu.capacity import Fit, fit
from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.requests import SEGMENT_STEP_BYTES
from every_byte.ledger.trace import Trace
from every_byte.units import MiB
from utils import GPT, SimulatedGPU
from utils.experiments.training import StepSettings, random_tokens, train_steps

V, S, D, N_LAYERS, HEADS = 5001, 96, 192, 4, 3
A100 = find_spec("a100-80gb")
STEP_2 = {"after": "step 1 zero_grad", "until": "step 2 zero_grad"}
WAYS = [
    {},
    {"optimizer": "foreach", "keep_outputs": False},
    {"micro_batches": 2, "autocast": torch.bfloat16},
    {"autocast": torch.bfloat16, "set_to_none": False},
    {"optimizer": "loop", "clip_norm": 1.0},
]


def of_capacity(capacity_bytes):
    return replace(A100, name="small", total_bytes=A100.context_bytes + capacity_bytes)


def train_on(gpu, way, *, n_steps):
    train_steps(
        gpu,
        lambda: GPT(V, S, D, N_LAYERS, HEADS, device=gpu.device),
        lambda: random_tokens(gpu, b=4, s=S, V=V),
        StepSettings(**way),
        n_steps=n_steps,
    )


def train(spec, way, *, n_steps):
    with SimulatedGPU(spec) as gpu:
        train_on(gpu, way, n_steps=n_steps)
    return gpu


def runs_on(capacity_bytes, way) -> int | None:
    """How often the allocator retried, or None if memory ran out."""
    try:
        return train(of_capacity(capacity_bytes), way, n_steps=4).memory_stats()["num_alloc_retries"]
    except torch.OutOfMemoryError:
        return None


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_what_two_steps_need_is_what_six_reserve(way):
    found = fit(train(A100, way, n_steps=2).trace, A100, **STEP_2)
    assert found.needed_bytes == train(A100, way, n_steps=6).max_memory_reserved()
    assert (found.fits, found.n_retries) == (True, 0)
    assert found.margin_bytes == A100.total_bytes - A100.context_bytes - found.needed_bytes


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_the_least_that_would_do_runs_and_a_segment_step_less_does_not(way):
    trace = train(A100, way, n_steps=2).trace
    tiny = of_capacity(4 * MiB)
    found = fit(trace, tiny, **STEP_2)
    assert not found.fits
    assert found.margin_bytes == 4 * MiB - found.needed_bytes
    n_retries = runs_on(found.needed_bytes, way)
    assert n_retries is not None
    assert runs_on(found.needed_bytes - SEGMENT_STEP_BYTES, way) is None
    just = fit(trace, of_capacity(found.needed_bytes), **STEP_2)
    assert just.fits
    assert just.needed_bytes <= found.needed_bytes
    assert (just.n_retries > 0) == (n_retries > 0)


@pytest.mark.nightly
def test_segments_may_grow_after_the_second_step():
    """The largest GPT-2 takes a segment more in the third: two steps alone would say too little."""

    def reserved(n_steps):
        with SimulatedGPU(replace(A100, total_bytes=1 << 50)) as gpu:
            train_steps(
                gpu,
                lambda: GPT.from_name("gpt2-large", device=gpu.device),
                lambda: random_tokens(gpu, b=4, s=1024, V=50304),
                StepSettings(autocast=torch.bfloat16, keep_outputs=False),
                n_steps=n_steps,
            )
        return gpu

    two = reserved(2)
    assert fit(two.trace, A100, **STEP_2).needed_bytes == reserved(3).max_memory_reserved() > two.max_memory_reserved()


@pytest.mark.parametrize("capacity_bytes", [2 * MiB, 40 * MiB, 60 * MiB])
def test_it_names_the_phase_in_which_memory_runs_out(capacity_bytes):
    """As the trace of a GPU of that size does: its last mark is that of the phase before."""
    whole = train(A100, {}, n_steps=2).trace
    gpu = SimulatedGPU(of_capacity(capacity_bytes))
    with gpu, pytest.raises(torch.OutOfMemoryError):
        train_on(gpu, {}, n_steps=2)
    marks, reached = ([event.name for event in trace if event.action == "mark"] for trace in (whole, gpu.trace))
    assert fit(whole, gpu.spec, **STEP_2).fails_in == marks[len(reached)]


def test_a_step_that_is_not_steady_is_refused():
    with SimulatedGPU("a100-80gb") as gpu:
        gpu.trace.mark("begin")
        kept = torch.empty(100, device=gpu.device)
        gpu.trace.mark("middle")
        del kept
        gpu.trace.mark("end")
    with pytest.raises(
        ValueError, match=r"must be steady.* found 1 allocations which it frees, and leaves 0 of its own"
    ):
        fit(gpu.trace, A100, after="middle", until="end")
    with pytest.raises(ValueError, match="mark must be one of this trace's: got 'nothing'"):
        fit(Trace("simulated", "a100-80gb"), A100, after="nothing", until="end")


def test_what_outlives_the_step_stays_while_it_is_repeated():
    """A step that finds two blocks, frees one of them and leaves another in its place; the second one just stays."""
    with SimulatedGPU("a100-80gb") as gpu:
        stays, passes = (torch.empty(5 * MiB, dtype=torch.uint8, device=gpu.device) for _ in range(2))
        gpu.trace.mark("begin")
        passes = torch.empty(5 * MiB, dtype=torch.uint8, device=gpu.device)
        gpu.trace.mark("end")
        del stays, passes
    assert fit(gpu.trace, A100, after="begin", until="end").needed_bytes == 20 * MiB


# ---- words


def test_the_words_of_a_run_that_fits():
    found = Fit("a100-80gb", 85_097_971_712, 587_202_560, 14_883_487_744)
    assert found.headline == "Fits on a100-80gb: 69,627,281,408 bytes (64.8 GiB) to spare"
    assert found.reasons == (
        "PyTorch reserves 14,883,487,744 bytes (13.9 GiB) at most, and there are 84,510,769,152 for it: "
        "85,097,971,712, less 587,202,560 bytes (560 MiB) assumed for the CUDA context."
    )
    tight = replace(found, n_retries=3)
    assert tight.fits
    assert tight.reasons.endswith(
        "It is tight: 3 times the allocator had to give unused segments back to the driver first, which costs time."
    )
    assert "once the allocator" in replace(found, n_retries=1).reasons


def test_the_words_of_a_run_that_does_not_fit():
    found = Fit("t4-16gb", 15_655_829_504, 587_202_560, 21_388_853_248, 2, "step 2 forward")
    assert found.headline == "Does not fit on t4-16gb: 6,320,226,304 bytes (5.89 GiB) short"
    assert re.match(
        r"Memory runs out in step 2 forward; PyTorch has to reserve 21,388,853,248 bytes \(19.9 GiB\) at least, and "
        r"there are 15,068,626,944 for it: ",
        found.reasons,
    )
    assert "tight" not in str(found)
