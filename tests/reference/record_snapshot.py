"""Records snapshots/mlp_step.a100.json.gz: what torch.cuda.memory._snapshot() tells of two steps of an MLP.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_snapshot.py

Left out are times and, of each call stack, all but operators and autograd nodes. tests/ledger/test_formats.py runs
`program` on a simulated GPU and compares.
"""

import gc
from pathlib import Path

import torch
from torch import nn

from every_byte.gpu.cases.files import save

FILE = Path(__file__).parent / torch.__version__.split("+")[0] / "snapshots" / "mlp_step.a100.json.gz"
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


def trimmed(entry: dict) -> dict:
    """An entry without what differs from run to run, and with the frames that say which operation it is."""
    frames = [frame for frame in entry["frames"] if frame["name"].startswith(SAYING)]
    return {key: entry[key] for key in KEPT} | {"frames": [{"name": frame["name"]} for frame in frames]}


def main() -> None:
    """Record."""
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
