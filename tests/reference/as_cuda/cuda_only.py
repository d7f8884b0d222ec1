"""Programs of layers that know no device but CUDA's: nested tensors, DataParallel, graphs of modules, threads."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from as_cuda import raised
from torch import nn


def jagged():
    x = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged, device="cuda")
    y = nn.Linear(4, 4).cuda()(x)
    y.values().sum().backward()
    yield x.device, x.is_cuda, y.device, x.shape[0]
    x = torch.nested.nested_tensor_from_jagged(torch.ones(5, 4, device="cuda"), torch.tensor([0, 2, 5], device="cuda"))
    yield x.device, (x * 2).device


def data_parallel():
    m = nn.DataParallel(nn.Linear(4, 4).cuda())
    y = m(torch.ones(4, 4, device="cuda"))
    y.sum().backward()
    yield m.device_ids, y.device, m.output_device, m.src_device_obj
    yield nn.DataParallel(nn.Linear(4, 4), device_ids=[0]).cuda()(torch.ones(4, 4).cuda()).device


def data_parallel_of_the_host():
    m = nn.DataParallel(nn.Linear(4, 4).cuda())
    yield m(torch.ones(4, 4)).device


def in_a_thread():
    seen = []

    def work():
        m = nn.Linear(8, 8).to("cuda")
        optimizer = torch.optim.Adam(m.parameters())
        for _ in range(2):
            m(torch.ones(2, 8, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        seen.append((m.weight.device, torch.cuda.current_stream().cuda_stream))

    for _ in range(3):  # each takes the cuBLAS handle that the one before has left
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        time.sleep(0.1)  # Python waits for its own end of a thread, not for C++'s, which gives the handle back
    yield seen


def settings_of_threads():
    seen, stream = [], torch.cuda.Stream()

    def work():
        seen.append((torch.cuda.current_stream() == torch.cuda.default_stream(), torch.is_autocast_enabled("cuda")))
        seen.append((torch.ones(2).device, (torch.ones(2, 2, device="cuda") @ torch.ones(2, 2, device="cuda")).dtype))

    with torch.cuda.stream(stream), torch.autocast("cuda", torch.bfloat16), torch.device("cuda"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        time.sleep(0.1)
    yield seen


def errors_of_threads():
    with ThreadPoolExecutor(1) as pool:
        yield type(pool.submit(lambda: torch.ones(2, device="cuda") + torch.ones(2)).exception()).__name__


def workspaces():
    torch._C._cuda_clearCublasWorkspaces()
    yield torch.backends.cuda.cublas_workspace_size(), torch.backends.cuda.cublaslt_workspace_size()
    torch.backends.cuda.cublas_workspace_size(1 << 20)
    x = torch.ones(2, 2, device="cuda", requires_grad=True)
    x @ x
    torch._C._cuda_clearCublasWorkspaces()
    torch.backends.cuda.cublas_workspace_size(8519680)
    torch.cuda.current_blas_handle()
    (x @ x).sum().backward()


def raw_blocks():
    stream = torch.cuda.Stream()
    one, other = torch.cuda.caching_allocator_alloc(1000), torch.cuda.caching_allocator_alloc(1000, stream=stream)
    yield type(one), torch.cuda.memory_allocated() > 2000
    yield [segment["stream"] == stream.cuda_stream for segment in torch.cuda.memory_snapshot()].count(True)
    torch.cuda.caching_allocator_delete(one)
    torch.cuda.caching_allocator_delete(other)
    yield raised(torch.cuda.caching_allocator_delete, 12345)
