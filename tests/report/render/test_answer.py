"""What a report says to do first: what was replayed and fits, the kernel that fits, or the next GPU; else nothing."""

import pytest
import torch
from forked_runs import Runs, in_lines
from reported import of_an_mlp, out_of_memory, reported

from every_byte.report.render.verdict import verdict
from every_byte.report.report import Report
from every_byte.units import in_gib
from utils import SimulatedGPU

# What is kept lies in segments of tensors that are gone, none of which has room for the next, larger one.
CUT_UP = """
import torch
kept = []
for i in range(200):
    a = torch.empty((40 + 2 * i) << 20, dtype=torch.uint8, device="cuda")
    del a
    kept.append(torch.empty((21 + i) << 20, dtype=torch.uint8, device="cuda"))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = Runs(tmp_path_factory.mktemp("programs"))
    yield runs
    runs.close()


def test_one_that_fits_with_room_to_spare_is_told_nothing_to_do():
    assert verdict(of_an_mlp()).first == ()
    assert of_an_mlp().with_expandable is None


def test_what_is_cut_up_is_told_the_setting_that_was_replayed_and_with_it_the_request_passes(run):
    found = run(CUT_UP, "--gpu", "t4-16gb")
    assert found.figures["out_of_memory"]
    text = in_lines(found)
    assert " of 14.0 GiB, and no free piece is large enough." in text
    assert "With PYTORCH_ALLOC_CONF=expandable_segments:True this request finds room, as a replay shows." in text
    further = run(CUT_UP, "--gpu", "t4-16gb", "--settings", "expandable_segments:True")
    asked = found.figures["n_events"]
    assert further.figures["out_of_memory"] is None or further.figures["n_events"] > asked
    assert "expandable_segments:True this request" not in in_lines(further)


def test_what_needs_more_than_there_is_is_told_the_next_gpu_and_no_setting():
    report = out_of_memory()
    (said,) = verdict(report).first
    room = [one for one in report.fits.verdicts if one.fits]
    least = min(room, key=lambda one: one.room_bytes)
    assert said.startswith("No setting of the allocator makes room for it. The smallest GPU on which this request ")
    assert f"finds room is {least.gpu}, as a replay shows; --gpu {least.gpu} shows" in said
    assert report.with_expandable is None


def test_what_to_do_comes_second():
    lines = repr(out_of_memory()).splitlines()
    assert lines[0].startswith("Out of memory on t4-16gb: ")
    assert lines[1].startswith("No setting of the allocator makes room for it.")
    page = out_of_memory().html()
    assert page.index("Out of memory on") < page.index('class="eb-first"') < page.index("It ran out")


def test_a_fused_kernel_comes_before_all_else():
    with SimulatedGPU("t4-16gb") as gpu:
        query = torch.empty(8, 16, 8192, 64, dtype=torch.bfloat16, device=gpu.device)
        with pytest.raises(torch.OutOfMemoryError):
            torch.nn.functional.scaled_dot_product_attention(query, query, query)
    report = Report.of(gpu, exit_code=1, ended="torch.OutOfMemoryError: no")
    assert verdict(report).first[0].startswith("Compute attention in float16: then a fused kernel takes it.")


def test_a_program_that_goes_on_is_told_nothing():
    def searching(gpu):
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2**36, device=gpu.device)
        torch.empty(8, device=gpu.device)
        return []

    assert verdict(reported(searching)).first == ()


def test_a_tight_one_that_expandable_segments_help_is_told_by_how_much(run):
    program = """
import torch
kept = [torch.empty(11 << 20, dtype=torch.uint8, device="cuda") for _ in range(1180)]
"""
    found = run(program, "--gpu", "t4-16gb")
    text = in_lines(found)
    (own, *_) = found.figures["fits"]["gpus"]
    assert own["fits"]
    assert "It is tight. With PYTORCH_ALLOC_CONF=expandable_segments:True it needs " in text
    settled = run(program, "--gpu", "t4-16gb", "--settings", "expandable_segments:True").figures["fits"]["gpus"][0]
    assert settled["needed_bytes"] < own["needed_bytes"]
    assert f"it needs {in_gib(settled['needed_bytes'])} of " in text
