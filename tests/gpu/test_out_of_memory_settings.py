"""No room, under other settings than PyTorch's own: what fails, what is held, and PyTorch's figures of it."""

import re
import runpy

import pytest
from places import RECORDED, REFERENCE

from every_byte.gpu.cases.files import read
from every_byte.units import GiB, KiB, MiB
from utils import SimulatedGPU
from utils.experiments.first_programs import SMALL_GPU

SCRIPT = runpy.run_path(str(REFERENCE / "record_out_of_memory_settings.py"))
RECORDS = read(RECORDED / "environment" / "out_of_memory.a100.json.gz")["recorded"]


def size(n_bytes: int) -> str:
    """A size as PyTorch's message has it."""
    for unit, name in ((GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB")):
        if n_bytes >= unit:
            return f"{n_bytes / unit:.2f} {name}"
    return f"{n_bytes} bytes"


def as_pytorch_says(message: str, reading: dict, allowed_bytes: int | None) -> str:
    """The beginning of PyTorch's message, of a simulated GPU's and of the counters after it."""
    asked = re.search(r"asked for ([\d,]+) bytes.*?(?:segment of ([\d,]+) bytes|\. The GPU)", message)
    tried = int((asked[2] or asked[1]).replace(",", ""))
    if "refused before the driver is asked" in message:
        return (
            "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
            f"per_process_memory_fraction limit. Requested size: {size(tried)}"
        )
    allocated, reserved = (reading["stats"][f"{figure}_bytes.all.current"] for figure in ("allocated", "reserved"))
    allowed = f"{size(allowed_bytes)} allowed; " if allowed_bytes is not None else ""
    return (
        f"CUDA out of memory. Tried to allocate {size(tried)}. GPU 0 has a total capacity of 624.00 MiB of which "
        f"{size(reading['free'])} is free. {allowed}Of the allocated memory {size(allocated)} is allocated by PyTorch, "
        f"and {size(reserved - allocated)} is reserved by PyTorch but unallocated."
    )


@pytest.mark.parametrize("recorded", RECORDS, ids=[str(one["settings"]) for one in RECORDS])
def test_no_room_is_as_recorded(recorded):
    settings = recorded["settings"]
    assert settings in SCRIPT["SETTINGS"]
    with SimulatedGPU(SMALL_GPU, settings=settings) as gpu:
        found = SCRIPT["record"](gpu, settings)
        allowed_bytes = gpu._allocator.allowed_bytes
    for ours, theirs in zip(found["answers"], recorded["answers"], strict=True):
        assert ours[1] == theirs[1]
        assert ours[3] == theirs[3]
        if theirs[1] == "AcceleratorError":
            assert all(message.startswith("CUDA error: out of memory") for message in (ours[2], theirs[2]))
        elif theirs[1]:
            assert theirs[2].startswith(as_pytorch_says(ours[2], ours[3], allowed_bytes))
    assert found["at last"] == recorded["at last"]


@pytest.mark.parametrize("recorded", RECORDS, ids=[str(one["settings"]) for one in RECORDS])
def test_a_program_of_cuda_is_told_in_pytorchs_words(recorded):
    settings = recorded["settings"]
    with SimulatedGPU(SMALL_GPU, settings=settings, cuda=True) as gpu:
        found = SCRIPT["record"](gpu, settings)
    for ours, theirs in zip(found["answers"], recorded["answers"], strict=True):
        if theirs[1] == "OutOfMemoryError":
            said = theirs[2].split(" If reserved but")[0].split(" This GPU")[0]
            assert ours[2].startswith(said), theirs[2]


def test_every_setting_is_recorded():
    assert [one["settings"] for one in RECORDS] == list(SCRIPT["SETTINGS"])
    assert {answer[1] for one in RECORDS for answer in one["answers"]} == {"", "OutOfMemoryError", "AcceleratorError"}
