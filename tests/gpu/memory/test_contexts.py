"""The CUDA context: what is published of it, what is stated, and what a verdict says where it hangs on that."""

import re
from contextlib import closing
from dataclasses import replace

import pytest
import torch
from places import ROOT

from every_byte.gpu.capacity import Fit
from every_byte.gpu.capacity import fit as fit_of
from every_byte.gpu.memory.contexts import CONTEXT_BYTES, PUBLISHED, context_range, stated_context
from every_byte.gpu.memory.specs import SPECS, find_spec, with_context
from every_byte.units import GiB, MiB
from utils import SimulatedGPU, open_gpu

T4 = find_spec("t4-16gb")
MARGIN = 27_852_800  # chapter 4's: GPT-2 large on a T4


def fit(margin_bytes: int, *, said: int | str | None = None, fails_in: str = "", hangs: bool = False) -> Fit:
    """As if a run left so much on a T4; negative: it lacks so much."""
    spec = with_context(T4, said)
    needed = spec.allocator_bytes - margin_bytes
    about = spec.name, spec.total_bytes, spec.context_bytes, needed, 0, fails_in, "", None, False
    return Fit(*about, spec.context_range_bytes, hangs)


def test_what_is_published_has_its_source():
    for source in (one.source for one in PUBLISHED):
        assert source.startswith("https://") or source.endswith("published") or (ROOT / source).is_file()
    assert {(863 * MiB, "https://erees.dev/transformer-memory/")} <= {(one.n_bytes, one.source) for one in PUBLISHED}


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_the_assumed_one_lies_within_what_is_published(spec):
    least, most = spec.context_range_bytes
    assert least < spec.context_bytes == CONTEXT_BYTES < most
    assert (least, most) == context_range(spec.capability)


@pytest.mark.parametrize(
    ("capability", "most"),
    [((7, 5), 1008), ((8, 0), 1001), ((8, 9), 1001), ((9, 0), 871), ((10, 0), 1008), ((12, 0), 828), ((13, 7), 1008)],
)
def test_the_range_of_a_generation(capability, most):
    assert context_range(capability) == (300 * MiB, most * MiB)


def test_a_verdict_that_the_largest_published_one_turns():
    found = fit(MARGIN, hangs=True)
    assert found.headline == "Fits on t4-16gb: 27,852,800 bytes (26.6 MiB) to spare, if the CUDA context is 560 MiB"
    assert found.reasons.endswith(
        "It does not fit with one of 1,008 MiB, and published ones take 300 MiB to 1,008 MiB: do not count on it."
    )


@pytest.mark.parametrize(("margin_mib", "narrow"), [(0, True), (447, True), (448, False), (5000, False)])
def test_a_margin_that_is_less_than_what_is_unknown(margin_mib, narrow):
    """Unused segments go back where there is less room, so that it may fit all the same."""
    found = fit(margin_mib * MiB)
    said = "With a CUDA context of 1,008 MiB, the largest published for its generation, it still fits, more tightly."
    assert found.reasons.endswith(said) == narrow
    assert "if the CUDA context" not in found.headline


def test_what_would_fit_beside_the_least():
    found = fit(-MARGIN, fails_in="step 2 forward", hangs=True)
    assert found.headline.endswith("bytes (26.6 MiB) short, if the CUDA context is 560 MiB")
    assert found.reasons.endswith(
        "With a CUDA context of 300 MiB it would fit, and published ones take 300 MiB to 1,008 MiB."
    )
    assert "published" not in fit(-MARGIN, fails_in="step 2 forward").reasons


def steady(gpu, n_bytes: int) -> None:
    """Two steps that have so much at once, in one segment."""
    for number in (1, 2):
        kept = torch.empty(n_bytes, dtype=torch.uint8, device=gpu.device)
        gpu.trace.mark(f"step {number} forward")
        del kept
        gpu.trace.mark(f"step {number} zero_grad")


@pytest.mark.parametrize(
    ("spare_mib", "fits", "hangs"),
    [
        (1, True, True),
        (440, True, True),
        (460, True, False),
        (-10, False, True),
        (-250, False, True),
        (-270, False, False),
    ],
)
def test_the_run_is_asked_again_beside_the_ends(spare_mib, fits, hangs):
    with SimulatedGPU(replace(T4, total_bytes=40 * GiB)) as gpu:
        steady(gpu, (T4.allocator_bytes // MiB + 1 - spare_mib) // 2 * 2 * MiB)
    how = {"after": "step 1 zero_grad", "until": "step 2 zero_grad"}
    found = fit_of(gpu.trace, T4, **how)
    assert (found.fits, found.hangs_on_context) == (fits, hangs)
    for n_bytes in T4.context_range_bytes:
        assert fit_of(gpu.trace, with_context(T4, n_bytes), **how).hangs_on_context is False
    ends = [fit_of(gpu.trace, with_context(T4, n_bytes), **how).fits for n_bytes in T4.context_range_bytes]
    assert (ends != [fits, fits]) == hangs


@pytest.mark.parametrize("said", [863 * MiB, "863MiB", "863 mib", "0.84277343750GiB"])
def test_one_that_is_stated_is_known(said):
    spec = with_context(T4, said)
    assert spec.context_bytes == 863 * MiB
    assert spec.context_range_bytes == (863 * MiB, 863 * MiB)
    for found in (fit(1, said=said), fit(-1, said=said, fails_in="step 1 forward")):
        assert "if the CUDA context" not in found.headline
        assert "published" not in found.reasons
        assert "less 904,921,088 bytes (863 MiB) as stated for the CUDA context" in found.reasons


def test_the_assumed_one_may_be_stated_too():
    assert with_context(T4, "560MiB").context_range_bytes == (560 * MiB, 560 * MiB)
    assert with_context(T4, 0).allocator_bytes == T4.total_bytes
    assert with_context(T4, None) is T4


def test_one_of_ones_own_is_known():
    """As of a card that another program shares."""
    assert replace(T4, context_bytes=4 * GiB).context_range_bytes == (4 * GiB, 4 * GiB)


@pytest.mark.parametrize("said", ["much", "863XB", "-1", -1, True, 1.5, "0.0MiB"])
def test_what_is_no_size(said):
    with pytest.raises(ValueError, match=re.escape(f'context must be bytes or a size such as "863MiB": got {said!r}')):
        stated_context(said, 2 * GiB)


@pytest.mark.parametrize("said", ["863", 863, "863 KiB"])
def test_bytes_that_were_meant_as_mebibytes(said):
    with pytest.raises(ValueError, match="context must be 0 or at least 1 MiB"):
        stated_context(said, 2 * GiB)


def test_more_than_there_is():
    with pytest.raises(ValueError, match="context must be less than the GPU's memory: got 15,655,829,504 bytes of"):
        SimulatedGPU("t4", context_bytes=T4.total_bytes)


@pytest.mark.parametrize("opened", [SimulatedGPU, lambda *name, **how: closing(open_gpu(*name, **how))])
def test_a_simulated_gpu_has_what_is_stated(opened):
    with opened("t4", context_bytes="863MiB") as gpu:
        assert gpu.mem_get_info() == (T4.total_bytes - 863 * MiB, T4.total_bytes)
        with pytest.raises(torch.OutOfMemoryError, match=r"context takes 904,921,088 bytes \(863 MiB\) \(as stated\)"):
            torch.empty(14 * GiB, dtype=torch.uint8, device=gpu.device)


def test_the_machines_own_has_its_own():
    with pytest.raises(ValueError, match="context_bytes is the context of a simulated GPU: got 1 with 'live'"):
        open_gpu("live", context_bytes=1)
