"""On which GPUs a run fits: held to the same program run there."""

from dataclasses import replace

import pytest
import torch
from reported import Steps, gpt, mlp, of_a_gpt, of_an_mlp, out_of_memory, reported

from every_byte.gpu.memory.specs import SPECS, find_spec
from every_byte.report.fits import ONCE, REPEATED, UNSETTLED, UP_TO_A_REFUSAL, fits_on
from every_byte.report.report import Report
from every_byte.units import MiB
from utils import SimulatedGPU

A100 = find_spec("a100-80gb")
RUN_ON = {name for name, spec in SPECS.items() if spec.compiled_for}  # PyTorch's builds do


def small(capacity_bytes: int, name: str = "small"):
    return replace(A100, name=name, total_bytes=A100.context_bytes + capacity_bytes)


def test_a_verdict_for_each_gpu_its_own_first():
    found = of_a_gpt().fits
    assert found.own.gpu == "a100-80gb"
    assert {one.gpu for one in found.verdicts} == RUN_ON
    assert [one.gpu for one in found.verdicts if one.is_alike] == ["a100-80gb", "a100-pcie-80gb", "a100-40gb"]
    assert all(one.fits for one in found.verdicts)
    assert not found.is_partial


@pytest.mark.long
@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
@pytest.mark.parametrize("program", [mlp, gpt])
def test_what_three_steps_need_is_what_ten_reserve(program, settings):
    found = reported(program, 3, settings=settings).fits
    with SimulatedGPU("a100-80gb", settings=settings) as gpu:
        program(gpu, 10)
    stats = gpu.memory_stats()
    assert found.basis == REPEATED
    assert found.own.needed_bytes == max(step.max_reserved_bytes for step in program_steps(program, settings))
    assert stats["num_alloc_retries"] == found.own.n_retries == 0


def program_steps(program, settings):
    with SimulatedGPU("a100-80gb", settings=settings) as gpu:
        return program(gpu, 10)


def test_a_run_of_one_step_is_replayed_once():
    report = reported(mlp, 1)
    assert report.fits.basis == ONCE
    assert report.fits.own.needed_bytes == report.peak_reserved_bytes


@pytest.mark.parametrize("missing_bytes", [0, 2 * MiB, 12 * MiB])
def test_on_a_smaller_gpu_it_goes_as_there(missing_bytes):
    """To the last segment: where the verdict says that it fits, it runs there; where not, it does not."""
    report = of_a_gpt()
    spec = small(report.fits.own.needed_bytes - missing_bytes)
    found = fits_on(report.trace, report.steps, spec).own
    with SimulatedGPU(spec) as gpu:
        try:
            gpt(gpu, 10)
            runs = True
        except torch.OutOfMemoryError:
            runs = False
    assert found.fits == runs
    assert (found.margin_bytes >= 0) == (found.fits or found.needed_bytes <= found.room_bytes)


def test_what_is_in_use_at_once_must_be_there():
    report = of_an_mlp()
    found = fits_on(report.trace, report.steps, small(2 * MiB)).own
    assert (found.fits, found.is_cut_up) == (False, False)
    assert 0 < found.in_use_bytes <= report.peak.allocated_bytes
    assert found.needed_bytes == report.peak_reserved_bytes
    assert found.margin_bytes == found.room_bytes - found.in_use_bytes < 0


def test_what_is_cut_up_says_where_it_runs_out():
    """200 MiB would be there, but not in one piece."""

    def pieces(gpu):
        kept = [torch.empty(4 * MiB, dtype=torch.uint8, device=gpu.device) for _ in range(100)]
        del kept[::2]
        large = torch.empty(100 * MiB, dtype=torch.uint8, device=gpu.device)
        del kept, large
        return []

    report = reported(pieces)
    found = fits_on(report.trace, report.steps, small(420 * MiB)).own
    assert (found.fits, found.is_cut_up, found.runs_out) == (False, True, "outside forward and backward")
    assert found.needed_bytes == report.peak_reserved_bytes


def test_a_run_that_ran_out_tells_the_least():
    report = out_of_memory()
    assert report.fits.basis == UP_TO_A_REFUSAL
    assert report.fits.is_partial
    own, *others = report.fits.verdicts
    assert not own.fits
    assert own.needed_bytes >= own.room_bytes
    a100 = next(one for one in others if one.gpu == "a100-80gb")
    with SimulatedGPU(replace(find_spec("t4-16gb"), total_bytes=A100.total_bytes)) as gpu:
        model = torch.nn.Sequential(*[torch.nn.Linear(8000, 8000, device=gpu.device) for _ in range(8)])
        x = torch.randn(60_000, 8000, device=gpu.device)
        for layer in model[: 1 + int(report.shortage.place.module.split()[0])]:
            x = layer(x)
    assert a100.needed_bytes == gpu.max_memory_reserved()


def test_what_came_after_the_last_step_counts():
    def with_evaluation(gpu):
        steps = Steps(gpu)
        model = torch.nn.Linear(100, 100, device=gpu.device)
        optimizer = torch.optim.SGD(model.parameters())
        for _ in range(3):
            model(torch.randn(8, 100, device=gpu.device)).sum().backward()
            optimizer.step()
            steps.end()
            optimizer.zero_grad()
        with torch.no_grad():
            model(torch.randn(100_000, 100, device=gpu.device))
        return steps.found

    report = reported(with_evaluation)
    assert report.fits.basis == REPEATED
    assert report.fits.own.needed_bytes == report.peak_reserved_bytes > report.steps[-1].max_reserved_bytes
    assert report.peak_place.step_name == "after step 3"


def test_a_step_that_takes_more_each_time_says_so():
    def growing(gpu):
        steps, side = Steps(gpu), gpu.Stream()
        for _ in range(3):
            x = torch.empty(30 * MiB, dtype=torch.uint8, device=gpu.device)
            with gpu.stream(side):
                y = torch.empty(3 * MiB, dtype=torch.uint8, device=gpu.device)
            z = torch.empty(28 * MiB, dtype=torch.uint8, device=gpu.device)
            del x, y, z
            steps.end()
        return steps.found

    report = reported(growing, settings="max_split_size_mb:20")
    assert report.fits.basis == REPEATED + UNSETTLED
    assert "it may need more." in " ".join(repr(report).split())
    assert reported(growing).fits.basis == REPEATED


def test_a_report_of_a_gpu_that_no_list_has():
    with SimulatedGPU(small(60 * MiB)) as gpu:
        steps = mlp(gpu, 3)
    found = Report.of(gpu, steps=steps).fits
    assert found.own.gpu == "small"
    assert len(found.verdicts) == len(RUN_ON) + 1


def of_a_fraction(fraction: float, n_asked: int, *, by_settings: bool = False) -> Report:
    """A run that may take this fraction of an A100, and at last asks for so many bytes, by no module."""
    with SimulatedGPU("a100-80gb", settings=f"per_process_memory_fraction:{fraction}" if by_settings else "") as gpu:
        if not by_settings:
            gpu.set_per_process_memory_fraction(fraction)
        kept = torch.empty(2048 * MiB, dtype=torch.uint8, device=gpu.device)
        try:
            torch.empty(n_asked, dtype=torch.uint8, device=gpu.device)
        except torch.OutOfMemoryError as error:
            del kept
            return Report.of(gpu, exit_code=1, ended=f"torch.OutOfMemoryError: {error}")
    return Report.of(gpu)


@pytest.mark.parametrize("by_settings", [True, False])
def test_the_fraction_that_a_run_may_take_is_its_room(by_settings):
    """Whoever has set it; the two bytes are those beyond which the allocator itself refuses."""
    allowed_bytes = A100.total_bytes // 16  # a power of 2: exact as a fraction
    most = (allowed_bytes - 2048 * MiB) // (2 * MiB) * 2 * MiB
    report = of_a_fraction(1 / 16, most, by_settings=by_settings)
    assert not report.ran_out
    assert report.room_bytes == report.fits.own.room_bytes == allowed_bytes
    assert report.fits.own.fits
    said = "5,318,623,232 bytes (4.95 GiB): the fraction of 85,097,971,712 that the settings or the program allow"
    assert said in " ".join(repr(report).split())
    report = of_a_fraction(1 / 16, most + 1, by_settings=by_settings)
    assert report.ran_out
    assert not report.fits.own.fits
    assert report.shortage.driver_bytes == allowed_bytes - 2048 * MiB
