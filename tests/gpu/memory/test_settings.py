"""A text of settings is read as PyTorch's CUDA build was recorded to read it, right or wrong."""

import ast
import builtins
import json

import pytest
from places import RECORDED

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.environment import VARIABLES, Environment
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.gpu.memory.settings import UNLIMITED, AllocatorSettings
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.units import MiB

TOLD = json.loads((RECORDED / "settings_texts.json").read_text())
TOTAL_BYTES = 85_097_971_712
"""Of the card that they were recorded of."""

OF_THE_HOST = ("max_round_threshold", "max_cached_size", "pinned_num_register_threads")
OF_THE_HOST += ("release_lock_on_cudamalloc", "pinned_use_cuda_host_register", "graph_capture_record_stream_reuse")
"""What is told of settings that change nothing on the GPU."""


def seen(settings: AllocatorSettings) -> dict:
    """What the recorder would see of settings: all that is not as by default."""
    large, limit = settings.large_segment_bytes, settings.max_split_bytes
    found = {
        "expandable_segments": settings.expandable_segments,
        "garbage_collection_threshold": settings.garbage_collection_threshold,
        "rejects": settings.throw_on_cudamalloc_oom,
        "large_segment": (large if large < TOTAL_BYTES else "more than there is") if large != 20 * MiB else 0,
        "max_split_size": (limit + 2**63) % 2**64 - 2**63 if limit != UNLIMITED else 0,  # told as a signed number
        "roundup_power2_divisions": {str(2**i): n for i, n in enumerate(settings.roundup_power2_divisions) if n},
    }
    return {name: value for name, value in found.items() if value}


def answer(read, text) -> dict:
    """As the recorder writes it down, with PyTorch's part of a message alone."""
    try:
        return {"error": None} | seen(read(text))
    except (ValueError, RuntimeError, IndexError) as error:
        return {"error": [type(error).__name__, str(error).rpartition(" (in the allocator's")[0].strip()]}


def recorded(told: dict) -> dict:
    """A recorded answer, without where in the C++ code it arose, and without what is the host's."""
    told = {name: value for name, value in told.items() if name not in OF_THE_HOST}
    if told["error"]:
        kind, message = told["error"]
        message = message.rpartition("please report a bug to PyTorch. ")[-1]
        told["error"] = ["RuntimeError" if kind == "the process ends" else kind, message]
    return told


READABLE = [row for row in TOLD["texts"] if "cudaMallocAsync" not in row["text"]]
AT_START = [row for row in READABLE if "in_environment" in row]


@pytest.mark.parametrize("row", READABLE, ids=lambda row: repr(row["text"]))
def test_a_text_that_is_set_is_read_as_recorded(row):
    assert answer(AllocatorSettings().changed_by, row["text"]) == recorded(row["at_run_time"])


@pytest.mark.parametrize("row", AT_START, ids=lambda row: repr(row["text"]))
def test_a_text_at_the_start_is_read_as_recorded(row):
    expected = recorded(row["in_environment"])
    if expected["error"] and expected["error"][1] in ("stoull", "stod"):
        expected["error"][0] = "ValueError"  # as at run time; what CUDA's beginning raises is a RuntimeError
    assert answer(AllocatorSettings.parse, row["text"]) == expected


def test_the_driver_s_own_pool_is_refused():
    for read in (AllocatorSettings.parse, AllocatorSettings().changed_by):
        with pytest.raises(ValueError, match="^backend:cudaMallocAsync is not modelled: "):
            read("backend:cudaMallocAsync")


@pytest.mark.parametrize("row", TOLD["variables"], ids=lambda row: str(row["variables"]))
def test_of_several_variables_the_recorded_one_is_read(row):
    """But for a run without a cache, which has no large segments and other errors."""
    assert row["variables"].keys() <= set(VARIABLES)
    expected = row["in_environment"]
    if expected["error"]:
        with pytest.raises(ValueError, match=expected["error"][1]):
            Environment.read(row["variables"])
        return
    environment = Environment.read(row["variables"])
    assert environment.caches == ("large_segment" not in expected)
    fraction = environment.allocator.per_process_memory_fraction
    found = seen(environment.allocator) | ({"fraction": fraction} if fraction < 1 else {})
    assert {name: value for name, value in expected.items() if name in found or environment.caches and value} == found


@pytest.mark.parametrize(("value", "error", "fraction"), TOLD["fractions"])
def test_a_fraction_is_answered_to_the_bit(value, error, fraction):
    value = float(value) if value in ("nan", "inf") else ast.literal_eval(value)
    with SimulatedGPU("a100-80gb") as gpu:
        if error is None:
            gpu.set_per_process_memory_fraction(value)
            assert gpu.get_per_process_memory_fraction() == fraction
            return
        with pytest.raises(getattr(builtins, error[0])) as raised:
            gpu.set_per_process_memory_fraction(value)
    assert str(raised.value).startswith(error[1])


def test_a_limit_is_rounded_and_other_shares_are_cut_off():
    """As the CUDA build of 2.13 does on a card of 200 MiB less 4 bytes, of which a tenth is 20 MiB less 0.4 bytes."""
    total_bytes = 200 * MiB - 4
    for text, is_rejected in (("", False), ("throw_on_cudamalloc_oom:True,", True)):
        settings = AllocatorSettings.parse(text + "per_process_memory_fraction:0.1")
        allocator = CachingAllocator(184 * MiB, settings=settings, total_bytes=total_bytes)
        assert allocator.allowed_bytes == 20 * MiB
        if is_rejected:
            with pytest.raises(OutOfMemory):
                allocator.malloc(3 * MiB)
        else:
            allocator.malloc(3 * MiB)
        assert allocator.memory_stats()["num_oom_rejections"] == is_rejected


def test_settings_that_a_text_does_not_name_stay_or_go_back():
    text = "max_split_size_mb:64,max_non_split_rounding_mb:48,garbage_collection_threshold:0.5,"
    text += "roundup_power2_divisions:4,expandable_segments:True,large_segment_size_mb:32,"
    text += "throw_on_cudamalloc_oom:True,per_process_memory_fraction:0.5"
    settings = AllocatorSettings.parse(text).changed_by("")
    assert settings == AllocatorSettings(
        expandable_segments=True,
        large_segment_bytes=32 * MiB,
        max_non_split_rounding_bytes=32 * MiB,
        per_process_memory_fraction=0.5,
        throw_on_cudamalloc_oom=True,
    )
