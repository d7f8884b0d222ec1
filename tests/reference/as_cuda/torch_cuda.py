"""What `torch.cuda`, `torch.accelerator` and `torch.backends` answer."""

import torch
import torch.accelerator.memory
import torch.cuda.nccl
import torch.cuda.nvtx
import torch.cuda.profiler
import torch.cuda.tunable as tunable
import torch.distributed as dist
from as_cuda import raised

PROPERTIES = (
    "name", "major", "minor", "total_memory", "multi_processor_count", "max_threads_per_multi_processor", "gcnArchName",
    "shared_memory_per_block", "shared_memory_per_block_optin", "shared_memory_per_multiprocessor", "L2_cache_size",
    "max_threads_per_block", "regs_per_multiprocessor", "warp_size", "is_integrated", "is_multi_gpu_board",
    "pci_bus_id", "pci_device_id", "pci_domain_id",
)  # fmt: skip
ALL = ("", "cuda", "cuda:0", 0, torch.device("cuda"))


def the_gpu():
    cuda = torch.cuda
    yield cuda.is_available(), cuda.is_initialized(), cuda.device_count(), cuda.current_device(), cuda._is_compiled()
    yield [cuda.get_device_name(*each) for each in ((), ("cuda",), (0,), (torch.device("cuda:0"),))]
    yield cuda.get_device_capability(), cuda.is_bf16_supported(), cuda.is_bf16_supported(including_emulation=False)
    yield cuda.is_tf32_supported(), cuda.get_arch_list(), cuda.get_gencode_flags(), cuda.has_half, cuda.has_magma
    yield torch.version.cuda, torch.version.hip, torch._C._cuda_getCompiledVersion(), cuda.mem_get_info()[1]
    yield cuda.init(), cuda.synchronize(), cuda.synchronize("cuda:0"), cuda.ipc_collect(), cuda._is_in_bad_fork()


def properties():
    found = torch.cuda.get_device_properties("cuda")
    yield found
    yield {name: getattr(found, name) for name in PROPERTIES}
    yield str(found.uuid), raised(getattr, found, "no_such_property"), torch.cuda.get_device_properties().name


def devices():
    cuda = torch.cuda
    for device in (0, "cuda:0", torch.device("cuda"), None, -1):
        with cuda.device(device):
            yield cuda.current_device()
    with cuda.device_of(torch.zeros(1, device="cuda")), torch.accelerator.device_index(0):
        yield cuda.current_device()
    for device in (0, "cuda:0", torch.device("cuda", 0), -1):
        cuda.set_device(device)
    asked = cuda.set_device, cuda.get_device_properties, cuda.memory_allocated, cuda.current_stream
    yield [raised(each, "cpu") for each in asked], raised(cuda.synchronize, "cuda:4")
    yield (
        torch.get_device_module().__name__,
        torch.get_device_module("cuda").__name__,
        cuda._get_device_index("cuda", True),
    )


def accelerator():
    it = torch.accelerator
    yield (
        it.is_available(),
        it.current_accelerator(),
        it.current_accelerator(check_available=True).type,
        it.device_count(),
    )
    yield it.current_device_index(), it.set_device_index(0), it.synchronize(), raised(it.get_device_capability)
    yield sorted(it.memory_stats()), it.memory_allocated() == torch.cuda.memory_allocated(), it.get_memory_info()[1]
    yield it.reset_peak_memory_stats(), it.reset_accumulated_memory_stats(), it.empty_cache()
    yield it.max_memory_allocated() == it.memory_allocated(), it.max_memory_reserved() == it.memory_reserved()


def statistics():
    cuda = torch.cuda
    yield sorted(cuda.memory_stats()), sorted(cuda.memory_stats_as_nested_dict()), sorted(cuda.host_memory_stats())
    yield sorted(cuda.host_memory_stats_as_nested_dict())
    x = torch.zeros(1000, device="cuda")
    figures = cuda.memory_allocated, cuda.max_memory_allocated, cuda.memory_reserved, cuda.max_memory_reserved
    yield [len({figure(*each) for each in ((), ("cuda",), (0,), (torch.device("cuda:0"),))}) for figure in figures]
    before = cuda.memory_allocated()
    del x
    yield before - cuda.memory_allocated(), cuda.memory_cached() == cuda.memory_reserved()
    yield cuda.reset_peak_memory_stats(), cuda.reset_max_memory_allocated(), cuda.reset_max_memory_cached()
    yield cuda.max_memory_allocated() == cuda.memory_allocated(), cuda.memory.get_allocator_backend()
    cuda.reset_accumulated_memory_stats()
    yield cuda.memory_stats()["allocation.all.allocated"], cuda.reset_peak_host_memory_stats()


def summary():
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    x = [torch.zeros(n, device="cuda") for n in (3, 1000, 1 << 20, 5 << 20)]
    del x[1]
    yield torch.cuda.memory_summary()
    yield torch.cuda.memory_summary(abbreviated=True)


def snapshots():
    segments = torch.cuda.memory_snapshot()
    yield (
        sorted(segments[0]),
        sorted(segments[0]["blocks"][0]),
        {segment["segment_type"] for segment in segments} <= {"small", "large"},
    )
    torch.cuda.memory._record_memory_history(max_entries=1000)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = torch.ones(1000, device="cuda")
    x = torch.ones(10, device="cuda")
    del x
    seen = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    last = [
        (e["action"], e["size"], e["stream"] == stream.cuda_stream)
        for e in seen["device_traces"][0]
        if e["action"][0] in "af"
    ]
    yield sorted(seen), len(seen["device_traces"]), last[-4:], y.device
    yield [segment["stream"] == stream.cuda_stream for segment in seen["segments"]].count(True)


def limits():
    cuda = torch.cuda
    yield cuda.get_per_process_memory_fraction()
    cuda.set_per_process_memory_fraction(0.5)
    yield cuda.get_per_process_memory_fraction(0), raised(torch.empty, 12_000_000_000, device="cuda")
    cuda.set_per_process_memory_fraction(1.0, 0)
    yield raised(cuda.set_per_process_memory_fraction, 1.5), raised(cuda.set_per_process_memory_fraction, 1)
    cuda.memory._set_allocator_settings("expandable_segments:False")
    yield torch._C._accelerator_getAllocatorSettings(), cuda.OutOfMemoryError is torch.OutOfMemoryError


def out_of_memory():
    try:
        torch.empty(10**12, device="cuda")
    except torch.OutOfMemoryError as error:
        yield str(error).split(". GPU 0")[0], isinstance(error, RuntimeError), len(error.args)
    yield raised(torch.empty, 10**12, device="cuda")


def streams():
    cuda = torch.cuda
    s = cuda.Stream()
    yield (
        s.device,
        s == cuda.current_stream(),
        isinstance(s, cuda.Stream),
        isinstance(s, torch.Stream),
        s.query(),
        s.stream_id != 0,
    )
    with cuda.stream(s):
        x = torch.zeros(5, device="cuda")
        with cuda.stream(None), cuda.stream(cuda.default_stream()):
            yield cuda.current_stream() == s, cuda.current_stream() == cuda.default_stream()
        yield cuda.current_stream() == s
    s.wait_stream(cuda.current_stream())
    x.record_stream(s)
    event = s.record_event()
    cuda.current_stream().wait_event(event)
    yield event.query(), isinstance(event, cuda.Event), s.synchronize(), event.synchronize()
    with s:
        yield cuda.current_stream() == s
    cuda.set_stream(s)
    yield cuda.current_stream() == s
    cuda.set_stream(cuda.default_stream())
    first = cuda.default_stream()
    yield (
        first,
        first.cuda_stream,
        cuda.current_stream("cuda:0").device_index,
        first.stream_id,
        first.device_type,
        first.priority,
    )
    yield (
        hash(first) == hash(cuda.current_stream(0)),
        first._as_parameter_.value,
        first.__cuda_stream__(),
        first.native_handle,
    )
    yield (
        cuda.Stream.priority_range(),
        cuda.Stream(device="cuda:0", priority=5).priority,
        cuda.Stream(torch.device("cuda")).device,
    )
    yield cuda.ExternalStream(s.cuda_stream).cuda_stream == s.cuda_stream, raised(cuda.Stream, device="cpu")
    with torch.Stream("cuda"), cuda.StreamContext(s):
        yield cuda.current_stream() == s
    del x


def events():
    a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    yield a, a.device, a.query(), a.wait(), a.synchronize(), isinstance(a, torch.Event)
    yield raised(a.elapsed_time, b), raised(torch.cuda.Event().elapsed_time, b)
    a.record()
    b.record(torch.cuda.current_stream())
    yield a.device, type(a.elapsed_time(b)), repr(a)[:18], torch.cuda.Event(blocking=True, interprocess=False)
    c, d = (torch.Event("cuda", enable_timing=True) for _ in range(2))
    c.record()
    d.record()
    yield type(c.elapsed_time(d)), c.query()


def libraries():
    backends = torch.backends
    yield backends.cuda.is_built(), backends.cudnn.enabled, backends.cudnn.is_available(), backends.cudnn.version()
    yield (
        backends.cudnn.is_acceptable(torch.zeros(1, device="cuda")),
        backends.cudnn.benchmark,
        backends.cudnn.allow_tf32,
    )
    yield backends.cudnn.benchmark_limit, backends.cuda.matmul.allow_tf32, backends.cuda.cufft_plan_cache[0].max_size
    yield backends.cuda.cufft_plan_cache[0].size, backends.cuda.cufft_plan_cache.clear()
    yield backends.cuda.flash_sdp_enabled(), backends.cuda.mem_efficient_sdp_enabled(), backends.cuda.math_sdp_enabled()
    yield (
        backends.cuda.is_flash_attention_available(),
        backends.cuda.cudnn_sdp_enabled(),
        backends.cuda.preferred_blas_library(),
    )
    backends.cudnn.benchmark = True
    backends.cudnn.benchmark_limit = 3
    yield backends.cudnn.benchmark, backends.cudnn.benchmark_limit
    backends.cudnn.benchmark = False
    backends.cudnn.benchmark_limit = 10
    with backends.cudnn.flags(enabled=False):
        yield backends.cudnn.enabled
    yield (
        torch.cuda.nccl.version(),
        torch.cuda.nccl.is_available([torch.zeros(1, device="cuda")]),
        dist.is_nccl_available(),
    )
    yield dist.get_default_backend_for_device("cuda"), torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("warn")
    yield torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("default")


def tuning():
    yield tunable.is_enabled(), tunable.tuning_is_enabled(), tunable.get_results(), tunable.get_validators()
    yield tunable.get_max_tuning_duration(), tunable.get_max_tuning_iterations(), tunable.record_untuned_is_enabled()
    tunable.enable(True)
    tunable.set_max_tuning_duration(5)
    yield tunable.is_enabled(), tunable.get_max_tuning_duration()
    tunable.enable(False)
    tunable.set_max_tuning_duration(30)


def profiling():
    runtime = torch.cuda.cudart()
    yield (
        runtime.cudaMemGetInfo(0)[1],
        runtime.cudaError.success,
        str(runtime.cudaError.success),
        int(runtime.cudaProfilerStart()),
    )
    yield runtime.cudaGetErrorString(runtime.cudaError.success), runtime.cudaProfilerStop()
    torch.cuda.check_error(0)
    with torch.cuda.nvtx.range("x"), torch.autograd.profiler.emit_nvtx(), torch.cuda.profiler.profile():
        torch.cuda.nvtx.mark("y")
    with torch.autograd.profiler.profile(use_device="cuda") as seen:
        torch.ones(3, device="cuda") + 1
    yield "aten::add" in {each.key for each in seen.key_averages()}
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA], profile_memory=True) as seen:
        torch.ones(3, device="cuda") + 1
    yield "aten::add" in seen.key_averages().table(sort_by="cuda_time_total", row_limit=50)


def graphs():
    yield torch.cuda.is_current_stream_capturing(), isinstance(torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph)
    yield type(torch.cuda.graph_pool_handle())


def sent_elsewhere():
    x = torch.ones(3, device="cuda")
    yield torch.cuda.can_device_access_peer.__name__, x.is_shared(), torch.cuda.ipc_collect()
