"""More cases in the form of cases.py: training under other settings of the allocator and of cuBLAS than PyTorch's own.

`case.settings` are variables of the environment. Of each mark the file holds all figures of `memory_stats` too, but for
those that differ between runs of PyTorch itself. Fractions are of GPUs of 79.3 and 79.2 GiB: 0.001 is 81 MiB.
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from every_byte.gpu.cases.programs import load_module

reference = load_module(Path(__file__).with_name("cases.py"))

CASES = {}
WIDE = dict(vocabulary=8000, context=256, batch=4, d=192, layers=2, heads=4)
ALLOCATOR = {  # how the settings are called in a case's name
    "expandable": "expandable_segments:True",
    "split32": "max_split_size_mb:32",
    "split24_leave32": "max_split_size_mb:24,max_non_split_rounding_mb:32",
    "split128": "max_split_size_mb:128",
    "split512": "max_split_size_mb:512",
    "roundup4": "roundup_power2_divisions:4",
    "roundup_list": "roundup_power2_divisions:[1:2,4:4,16:8,>:1]",
    "roundup_large": "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "segments64": "large_segment_size_mb:64",
    "garbage": "garbage_collection_threshold:0.6,per_process_memory_fraction:{fraction}",
    "fraction": "per_process_memory_fraction:{fraction}",
    "expandable_split": "expandable_segments:True,max_split_size_mb:512",
    "expandable_roundup": "expandable_segments:True,roundup_power2_divisions:4",
    "expandable_segments64": "expandable_segments:True,large_segment_size_mb:64",
    "expandable_garbage": (
        "expandable_segments:True,garbage_collection_threshold:0.8,per_process_memory_fraction:{fraction}"
    ),
    "split_garbage": ("max_split_size_mb:24,garbage_collection_threshold:0.6,per_process_memory_fraction:{fraction}"),
    "split_roundup": "max_split_size_mb:32,roundup_power2_divisions:8",
    "off": "expandable_segments:False,throw_on_cudamalloc_oom:True",
}
BLAS = {
    "blas_usual": {"CUBLAS_WORKSPACE_CONFIG": ":4096:2:16:8"},
    "blas_large": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
    "blas_small": {"CUBLAS_WORKSPACE_CONFIG": ":16:8"},
    "blas_none": {"CUBLAS_WORKSPACE_CONFIG": ":0:0"},
    "blaslt": {"CUBLASLT_WORKSPACE_SIZE": "32768"},
    "expandable_blas_none": {"PYTORCH_ALLOC_CONF": "expandable_segments:True", "CUBLAS_WORKSPACE_CONFIG": ":0:0"},
}
OF_A100 = {"CUBLAS_WORKSPACE_CONFIG": ":4096:2:16:8"}  # so that the same fraction is tight on each card
TIGHT = {
    "tight": "per_process_memory_fraction:{fraction}",
    "tight_expandable": "expandable_segments:True,per_process_memory_fraction:{fraction}",
    "tight_garbage": "garbage_collection_threshold:0.5,per_process_memory_fraction:{fraction}",
    "tight_split": "max_split_size_mb:24,per_process_memory_fraction:{fraction}",
    "tight_split_garbage": (
        "max_split_size_mb:20,garbage_collection_threshold:0.7,per_process_memory_fraction:{fraction}"
    ),
    "tight_segments64": "large_segment_size_mb:64,per_process_memory_fraction:{fraction}",
}
NO_CACHING = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def settings_named(name, fraction):
    """The variables that a name stands for."""
    if name in BLAS:
        return BLAS[name]
    if name in TIGHT:
        return OF_A100 | {"PYTORCH_ALLOC_CONF": TIGHT[name].format(fraction=fraction)}
    return NO_CACHING if name == "uncached" else {"PYTORCH_ALLOC_CONF": ALLOCATOR[name].format(fraction=fraction)}


def under(*names, fraction=0.002, events=("a100", "h100"), cards=("a100", "h100")):
    """A program as one case for each of these settings."""

    def add(program):
        for name in names:

            def case(env):
                program(env)

            case.cudnn_sdp, case.cards, case.settings = False, cards, settings_named(name, fraction)
            case.events = () if name == "uncached" else events
            CASES[f"{program.__name__}_{name}"] = case
        return program

    return add


# ---------------------------------------------------------------- training


@under(*ALLOCATOR, *BLAS, "uncached", fraction=0.005)
def lengths(env):
    """GPT-2's shape under autocast with AdamW, each step with sequences of another length."""
    model = reference.GPT(reference.Config(**WIDE)).to(env.device)
    env.mark("model")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for step, s in enumerate((192, 72, 256, 120, 208)):
        tokens = torch.randint(8000, (4, s)).to(env.device)
        with env.autocast(torch.bfloat16):
            _logits, loss = model(tokens, tokens)
        env.mark(f"step {step} forward")
        loss.backward()
        env.mark(f"step {step} backward")
        optimizer.step()
        optimizer.zero_grad()
        env.mark(f"step {step}")


@under("expandable", "split32", "roundup4", "garbage", "segments64", "expandable_garbage", fraction=0.004)
def checkpointed(env):
    """Every block again in backward, batches of several sizes added up, dropout, gradients kept from step to step."""
    shape = {**WIDE, "layers": 3, "context": 128, "recompute": "checkpoint", "dropout": 0.1}
    model = reference.GPT(reference.Config(**shape)).to(env.device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    env.mark("model")
    for step in range(2):
        for micro, b in enumerate((4, 7, 2)):
            tokens = torch.randint(8000, (b, 128)).to(env.device)
            with env.autocast(torch.bfloat16):
                loss = model(tokens, tokens)[1] / 3
            loss.backward()
            env.mark(f"step {step} micro {micro}")
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=step == 1)
        env.mark(f"step {step}")


@under(
    "expandable", "split32", "roundup_list", "garbage", "segments64", "expandable_split", "uncached", fraction=0.0035
)
def growing(env):
    """An MLP in float32 whose batches grow, with evaluation in between; after every second one the cache is emptied."""
    model = nn.Sequential(nn.Linear(700, 2000), nn.GELU(), nn.Linear(2000, 2000), nn.Tanh(), nn.Linear(2000, 30))
    model.to(env.device)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for step, b in enumerate((500, 900, 1300, 1700, 2100)):
        x, y = torch.empty(b, 700).to(env.device), torch.zeros(b, dtype=torch.int64).to(env.device)
        F.cross_entropy(model(x), y).backward()
        env.mark(f"step {step} backward")
        optimizer.step()
        optimizer.zero_grad()
        if step % 2:
            env.gpu.empty_cache()
        with torch.no_grad():
            model(x[: b // 3]).softmax(-1)
        env.mark(f"step {step}")
        del x, y


@under(*TIGHT, fraction=0.0022)
def many(env):
    """A GPT whose batches have many shapes, with little more memory than it needs; now and then there is too little."""
    model = reference.GPT(reference.Config(**WIDE)).to(env.device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    env.mark("model")
    for step, (b, s) in enumerate(((4, 192), (6, 80), (3, 256), (9, 90), (1, 250), (7, 140), (2, 256), (5, 210))):
        tokens = torch.randint(8000, (b, s)).to(env.device)
        try:
            with env.autocast(torch.bfloat16):
                _logits, loss = model(tokens, tokens)
            env.mark(f"step {step} forward")
            loss.backward()
        except torch.OutOfMemoryError:
            pass
        env.mark(f"step {step} backward")
        optimizer.step()
        optimizer.zero_grad()
        env.mark(f"step {step}")
        _logits = loss = None


@under("expandable", "split24_leave32", "roundup4", "garbage", fraction=0.006)
def scaled(env):
    """Attention spelled out under autocast to float16, with a scaled loss."""
    shape = reference.Config(**{**WIDE, "attention": "explicit"})
    reference.train(env, shape, autocast=torch.float16, drop_logits=True, scale_loss=True, steps=2)


@under("expandable", "split128", "roundup_large", "garbage", "segments64", fraction=0.35, events=())
def gpt2_small(env):
    """GPT-2 small: sequences of 1,024 and of 800 in turn."""
    model = reference.GPT(reference.Config()).to(env.device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for step, s in enumerate((1024, 800, 1024)):
        tokens = torch.randint(50304, (12, s)).to(env.device)
        with env.autocast(torch.bfloat16):
            _logits, loss = model(tokens, tokens)
        env.mark(f"step {step} forward")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        env.mark(f"step {step}")


# ---------------------------------------------------------------- streams


@under("off", "expandable", "split24_leave32", "garbage", "roundup4", fraction=0.004)
def prefetched(env):
    """The next batch comes on a stream of its own while this one is computed with."""
    model = nn.Sequential(nn.Linear(1000, 1500), nn.ReLU(), nn.Linear(1500, 10)).to(env.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    aside = env.streams.Stream()

    def fetch(b):
        with env.streams.stream(aside):
            return torch.empty(b, 1000).pin_memory().to(env.device, non_blocking=True)

    batch = fetch(800)
    for step, b in enumerate((1500, 600, 2500, 3000, 700)):
        env.streams.current_stream().wait_stream(aside)
        x = batch
        x.record_stream(env.streams.current_stream())
        batch = fetch(b)
        loss = model(x).logsumexp(-1).mean()
        del x
        env.mark(f"step {step} forward")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        env.mark(f"step {step}")


@under("off", "expandable", "split32", fraction=0.004)
def offloaded(env):
    """What a layer keeps goes to the CPU on a stream of its own, and comes back for backward."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(900, 900), nn.GELU()) for _ in range(4))).to(env.device)
    aside = env.streams.Stream()

    def away(x):
        if x.numel() < 900 * 900 or isinstance(x, nn.Parameter):
            return x
        aside.wait_stream(env.streams.current_stream())
        with env.streams.stream(aside):
            kept = torch.empty(x.shape, dtype=x.dtype).pin_memory()
            kept.copy_(x, non_blocking=True)
        x.record_stream(aside)
        return kept

    def back(kept):
        if kept.device.type != "cpu":
            return kept
        with env.streams.stream(aside):
            x = kept.to(env.device, non_blocking=True)
        env.streams.current_stream().wait_stream(aside)
        x.record_stream(env.streams.current_stream())
        return x

    for step, b in enumerate((2000, 3500, 1200)):
        x = torch.empty(b, 900, device=env.device)
        with torch.autograd.graph.saved_tensors_hooks(away, back):
            loss = model(x).square().mean()
        env.mark(f"step {step} forward")
        loss.backward()
        env.mark(f"step {step}")
        del x, loss


@under("off", "expandable", "blas_large")
def side_products(env):
    """Products on two streams and on the first one: each has a workspace of its own."""
    x = torch.empty(600, 600, device=env.device, requires_grad=True)
    streams = [env.streams.Stream() for _ in range(2)]
    for i, stream in enumerate([*streams, env.streams.current_stream(), streams[0]]):
        with env.streams.stream(stream):
            y = x @ x
            env.mark(f"product {i}")
            y.sum().backward()
            env.mark(f"gradient {i}")
            event = stream.record_event()
        event.synchronize()
        y.record_stream(env.streams.current_stream())
        del y
