"""A training on batches of varying length: what the CUDA build of PyTorch itself did with it under each setting."""

import pytest

from utils.experiments.varying_lengths import SETTINGS, lengths_of, replayed, trace_of

# By the CUDA build of PyTorch 2.13 over the stub libraries, with STUB_CUDA_GPU=a100, STUB_CUDA_MEM=1660944384 and the
# text in PYTORCH_ALLOC_CONF: does the training pass, and at its end max_memory_reserved, max_memory_allocated, and of
# memory_stats num_device_alloc, num_device_free and num_alloc_retries.
RECORDED = {
    (4800, "default"): (True, 1_065_353_216, 870_189_056, 11, 0, 0),
    (4800, "expandable_segments"): (True, 1_050_673_152, 870_189_056, 12, 0, 0),
    (4800, "max_split_size"): (True, 1_054_867_456, 885_262_336, 26, 8, 0),
    (4800, "roundup"): (False, 952_107_008, 767_558_656, 11, 2, 2),
    (4800, "large_segment_size"): (True, 1_071_644_672, 870_189_056, 11, 1, 1),
    (4800, "garbage_collection"): (True, 1_065_353_216, 870_189_056, 11, 0, 0),
    (5760, "default"): (False, 960_495_616, 832_832_512, 9, 0, 1),
    (5760, "expandable_segments"): (True, 1_008_730_112, 946_866_176, 10, 0, 0),
    (5760, "max_split_size"): (True, 1_073_741_824, 962_856_960, 25, 9, 0),
    (5760, "roundup"): (False, 1_002_438_656, 876_610_560, 9, 1, 1),
    (5760, "large_segment_size"): (False, 1_006_632_960, 832_832_512, 9, 0, 1),
    (5760, "garbage_collection"): (False, 960_495_616, 832_832_512, 9, 0, 1),
    (6720, "default"): (False, 874_512_384, 768_869_376, 8, 0, 1),
    (6720, "expandable_segments"): (False, 1_008_730_112, 934_020_096, 8, 3, 2),
    (6720, "max_split_size"): (True, 1_065_353_216, 1_040_451_584, 24, 11, 1),
    (6720, "roundup"): (False, 910_163_968, 809_501_696, 8, 0, 1),
    (6720, "large_segment_size"): (False, 920_649_728, 768_869_376, 8, 0, 1),
    (6720, "garbage_collection"): (False, 874_512_384, 768_869_376, 8, 0, 1),
}
TWO = {
    "expandable_segments:True,large_segment_size_mb:12": (True, 1_059_061_760, 1_023_543_296, 12, 3, 2),
    "expandable_segments:True,large_segment_size_mb:16": (False, 991_952_896, 934_020_096, 8, 3, 2),
    "expandable_segments:True,roundup_power2_divisions:8": (True, 1_071_644_672, 1_033_897_984, 9, 4, 2),
    "max_split_size_mb:64": (True, 1_065_353_216, 1_025_116_160, 22, 9, 1),
}
RUNS = {(s, SETTINGS[name]): figures for (s, name), figures in RECORDED.items()}
RUNS |= {(6720, text): figures for text, figures in TWO.items()}


@pytest.mark.parametrize(("s", "settings"), RUNS)
def test_it_goes_as_recorded(s, settings):
    replay = replayed(s, settings)
    fits, reserved, allocated, n_alloc, n_free, _ = RUNS[s, settings]
    assert (replay.fits, replay.max_reserved_bytes, replay.max_allocated_bytes) == (fits, reserved, allocated)
    assert replay.n_calls == n_alloc + n_free


def test_batches_are_s_half_of_it_and_three_quarters():
    assert lengths_of(5760) == (5760, 2880, 4320)
    for s in (0, -4, 5762):
        with pytest.raises(ValueError, match=f"s must be a positive multiple of 4, .*: got s={s}"):
            lengths_of(s)


def test_a_training_has_some_fifty_requests():
    events = trace_of(5760).events
    assert sum(event.action == "alloc" for event in events) == 52
    assert {event.phase for event in events} == {"", "forward", "batch 1", "batch 2", "batch 3"} - {"forward"}
