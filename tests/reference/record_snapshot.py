"""Records snapshots/mlp_step.a100.json.gz: what torch.cuda.memory._snapshot() tells of two steps of an MLP.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_snapshot.py

The same with PYTORCH_ALLOC_CONF=expandable_segments:True before it records mlp_expandable.a100.json.gz: a program that
gives pages back, with its segments at the end, and what snapshots say of the settings `TEXTS`. Left out are times and,
of each call stack, all but operators and autograd nodes. tests/ledger/test_formats.py and test_formats_expandable.py
run the programs on a simulated GPU and compare.
"""

import gc
import os
from pathlib import Path

import torch
from torch import nn

from every_byte.gpu.cases.files import save
from every_byte.gpu.live.gpu import LiveGPU

FILE = Path(__file__).parent / torch.__version__.split("+")[0] / "snapshots" / "mlp_step.a100.json.gz"
EXPANDABLE = FILE.with_name("mlp_expandable.a100.json.gz")
TEXTS = (
    "",
    "max_split_size_mb:128",
    "roundup_power2_divisions:4",
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]",
    "garbage_collection_threshold:0.6,per_process_memory_fraction:0.5",
    "max_non_split_rounding_mb:64,large_segment_size_mb:32",
    "expandable_segments:False,throw_on_cudamalloc_oom:True",
    "expandable_segments:True,max_split_size_mb:512",
)
KEPT = ("action", "addr", "size", "stream")
SAYING = ("at::_ops::", "torch::autograd::generated::")


def program(device) -> tuple:
    """Two steps of an MLP with AdamW. Returns both: when they die depends on what else the process did before."""
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(torch.randn(300, 64, device=device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def program_with_pages(gpu) -> tuple:
    """Two steps, then tensors that come and go, so that pages in the middle of a segment go back to the driver."""
    trained = program(gpu.device)
    large = [torch.empty(n << 20, dtype=torch.uint8, device=gpu.device) for n in (30, 45, 25, 7)]
    del large[1]
    gpu.empty_cache()
    large.append(torch.empty(10 << 20, dtype=torch.uint8, device=gpu.device))
    large.append(torch.empty(70 << 20, dtype=torch.uint8, device=gpu.device))
    del large[0]
    gpu.empty_cache()
    return trained, large


def without_frames(segments: list[dict]) -> list[dict]:
    """Segments as they are told, without call stacks, and addresses from the first one's of each kind on."""
    first: dict[str, int] = {}
    told = []
    for segment in segments:
        start = first.setdefault(segment["segment_type"], segment["address"])
        blocks = [{k: v for k, v in block.items() if k != "frames"} for block in segment["blocks"]]
        for block in blocks:
            block["address"] -= start
            if block["state"] == "inactive":  # what its last use asked for
                del block["requested_size"]
        kept = {k: v for k, v in segment.items() if k not in ("frames", "blocks")}
        of_file = {"segment_pool_id": list(segment["segment_pool_id"]), "address": segment["address"] - start}
        told.append(kept | of_file | {"blocks": blocks})
    return sorted(told, key=lambda segment: (segment["segment_type"], segment["address"]))


def trimmed(entry: dict) -> dict:
    """An entry without what differs from run to run, and with the frames that say which operation it is."""
    frames = [frame for frame in entry["frames"] if frame["name"].startswith(SAYING)]
    return {key: entry[key] for key in KEPT} | {"frames": [{"name": frame["name"]} for frame in frames]}


def main_expandable() -> None:
    """Record the program with pages, and what is said of settings."""
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    gc.collect()
    gc.disable()
    gpu = LiveGPU()
    _kept = program_with_pages(gpu)
    snapshot = torch.cuda.memory._snapshot()
    [entries] = snapshot["device_traces"]
    recorded = {
        "torch": torch.__version__,
        "entries": [[entry["action"], entry["size"]] for entry in entries if entry["action"] != "snapshot"],
        "segments": without_frames(snapshot["segments"]),
        "settings": {os.environ["PYTORCH_ALLOC_CONF"]: snapshot["allocator_settings"]},
    }
    for text in TEXTS:
        torch._C._accelerator_setAllocatorSettings(text)
        recorded["settings"][text] = torch.cuda.memory._snapshot()["allocator_settings"]
    save(recorded, EXPANDABLE)


def main() -> None:
    """Record."""
    if "PYTORCH_ALLOC_CONF" in os.environ:
        return main_expandable()
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    gc.collect()
    gc.disable()
    _kept = program("cuda")
    traces = torch.cuda.memory._snapshot()["device_traces"]
    traces = [[trimmed(entry) for entry in trace if entry["action"] != "snapshot"] for trace in traces]
    recorded = {"torch": torch.__version__, "device_name": torch.cuda.get_device_name(0), "device_traces": traces}
    save(recorded, FILE)


if __name__ == "__main__":
    main()
