"""Streams and events under CUDA's names: beyond what test_torch_cuda.py holds to the recordings."""

import threading

import pytest
import torch

from every_byte.gpu.cuda.streams import Event, ExternalStream, Stream


def test_each_stream_has_blocks_of_its_own(gpu):
    x = torch.zeros(1000, device="cuda")
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        y = torch.zeros(1000, device="cuda")
    assert [event.stream for event in gpu.trace if event.action == "alloc"] == [0, s.cuda_stream]
    assert gpu.memory_reserved() == 2 * 2097152
    assert {segment["stream"] for segment in torch.cuda.memory_snapshot()} == {0, s.cuda_stream}
    del x, y


def test_a_thread_begins_in_the_first(gpu):
    s, seen = torch.cuda.Stream(), []
    with torch.cuda.stream(s):
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream()))
        thread.start()
        thread.join()
        assert torch.cuda.current_stream() == s
    assert seen == [torch.cuda.default_stream()]


def test_what_is_recorded_waits_for_the_other_stream(gpu):
    s = torch.cuda.Stream()
    x = torch.zeros(1000, device="cuda")
    x.record_stream(s)
    del x
    assert gpu.memory_allocated() == 0
    assert torch.cuda.memory_stats()["active_bytes.all.current"] == 4096
    torch.zeros(1000, device="cuda")
    assert torch.cuda.memory_stats()["active_bytes.all.current"] == 0


def test_kinds(gpu):
    assert (torch.cuda.Stream, torch.cuda.Event, torch.cuda.ExternalStream) == (Stream, Event, ExternalStream)
    assert isinstance(torch.Stream("cuda"), torch.cuda.Stream)
    assert repr(torch.cuda.Stream()).startswith("<torch.cuda.Stream device=cuda:0 cuda_stream=0x")
    assert [torch.cuda.Stream(priority=n).priority for n in (-9, -3, -1, 0, 4)] == [-3, -3, -1, 0, 0]


@pytest.mark.parametrize("device", ["cuda:1", 3])
def test_a_stream_of_another_gpu_is_refused(gpu, device):
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        torch.cuda.Stream(device=device)


def test_time_passes_between_events(gpu):
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    a.record()
    b.record()
    assert a.elapsed_time(b) > 0
    with pytest.raises(ValueError, match="must be created with argument 'enable_timing=True'"):
        a.elapsed_time(torch.cuda.Event())
    with pytest.raises(ValueError, match="must be recorded before calculating elapsed time"):
        a.elapsed_time(torch.cuda.Event(enable_timing=True))
    with pytest.raises(NotImplementedError, match="seen by its own process alone"):
        a.ipc_handle()
