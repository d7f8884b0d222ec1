"""cuDNN's attention and convolutions as a card took them, compared with their simulation and with what is said."""

from dataclasses import replace

import pytest
import torch

from every_byte import SimulatedGPU
from every_byte.gpu.cases.files import read
from every_byte.gpu.cases.programs import load_module
from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.memory.versions import rules_of
from every_byte.report.notes import CONVOLUTION_BYTES, N_CONVOLUTIONS
from every_byte.verify.recordings import REFERENCE

MEASURED = REFERENCE / "2.11.0" / "measured"
SETTINGS = ("mask", "layout", "dtype", "is_causal", "dropout", "gradient")


@pytest.fixture(scope="module")
def recorder():
    """The file that recorded, whose calls run anywhere."""
    return load_module(REFERENCE / "record_on_a_card.py")


pytestmark = [
    pytest.mark.filterwarnings("ignore:PyTorch .* runs here, and a simulated GPU follows the rules"),
    pytest.mark.filterwarnings("ignore:.*_scaled_dot_product_cudnn_attention .* is not modelled"),  # of one query
]


def opened(**options) -> SimulatedGPU:
    """A simulated H200, by the rules of the PyTorch that ran there, whichever runs here."""
    return SimulatedGPU(replace(find_spec("h200-141gb"), rules=rules_of("2.11"), **options))


def events(gpu, act) -> list[int]:
    """The bytes that are allocated, and with a minus freed, in order."""
    start, sizes = len(gpu.trace.sequence()), {}
    act()
    for event in (sequence := gpu.trace.sequence()):
        if event[0] == "alloc":
            sizes[len(sizes)] = event[1]
    new = [event for event in sequence[start:] if event[0] in ("alloc", "free")]
    return [event[1] if event[0] == "alloc" else -sizes[event[1]] for event in new]


def taken(recorder, row: dict) -> tuple[list[int], list[int]]:
    """What a call takes forward and backward on the simulated card."""
    with opened() as gpu:
        recorder.DEVICE, found = gpu.device, []
        run = recorder.attended(row["shape"], **{name: row[name] for name in SETTINGS})
        forward = events(gpu, lambda: found.append(run()))
        if not row["gradient"]:
            return forward, []
        gradient = torch.ones_like(found[0])
        return forward, events(gpu, lambda: found[0].backward(gradient))


def frees_in_order(sizes: list[int]) -> list[tuple[int, ...]]:
    """Runs of frees as sets: their order differs between runs of PyTorch itself."""
    runs: list[list[int]] = []
    for n_bytes in sizes:
        if n_bytes < 0 and runs and runs[-1][0] < 0:
            runs[-1].append(n_bytes)
        else:
            runs.append([n_bytes])
    return [tuple(sorted(run)) for run in runs]


ROWS = read(MEASURED / "attention.h200.json.gz")["rows"]


def test_a_card_was_asked_for_attention_of_many_kinds():
    assert len(ROWS) > 100
    assert {row["layout"] for row in ROWS} == {"bhsd", "bshd", "packed"}
    assert any(row["shape"][1] != row["shape"][2] for row in ROWS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", sorted({tuple(row["shape"]) for row in ROWS}), ids=str)
def test_cudnns_attention_takes_what_it_took_on_the_card(recorder, shape):
    rows = [row for row in ROWS if tuple(row["shape"]) == shape]
    for row in rows:
        forward, backward = taken(recorder, row)
        said = {name: row[name] for name in SETTINGS}
        assert frees_in_order(forward) == frees_in_order(row["forward"]), said
        assert frees_in_order(backward) == frees_in_order(row["backward"]), said


def test_over_stand_ins_its_engine_takes_nothing():
    peaks = []
    for is_over in (False, True):
        with opened(over_stand_ins=is_over) as gpu:
            x = torch.ones(2, 4, 128, 64, device=gpu.device, dtype=torch.bfloat16)
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
                torch.nn.functional.scaled_dot_product_attention(x, x, x)
            peaks.append(gpu.max_memory_allocated())
    assert peaks[0] - peaks[1] == 512


def test_the_note_on_convolutions_has_what_was_measured():
    rows = read(MEASURED / "convolutions.h200.json.gz")["rows"]
    freed = [-n_bytes for row in rows for n_bytes in row["forward"] + row["backward"] if n_bytes < 0]
    assert (len(rows), max(freed)) == (N_CONVOLUTIONS, CONVOLUTION_BYTES)
    assert any(min(row["forward"] + row["backward"]) > 0 for row in rows)  # one that took nothing
