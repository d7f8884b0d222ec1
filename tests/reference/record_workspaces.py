"""Records environment/workspaces.json.gz: what cuBLAS is given to work in by its variables, and what PyTorch says.

    tools/cuda_build/run.sh tests/reference/record_workspaces.py

Each settings run in a process of their own, on an A100 and an H100. tests/gpu/memory/test_workspaces.py runs `record`
on simulated GPUs and compares.
"""

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F

from every_byte.gpu.cases.files import save
from every_byte.gpu.live.gpu import LiveGPU

HERE = Path(__file__).resolve()
FILE = HERE.parent / torch.__version__.split("+")[0] / "environment" / "workspaces.json.gz"
CARDS = ("a100", "h100")
CUBLAS, LT = "CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE"
SETTINGS = (
    {},
    *(
        {CUBLAS: said}
        for said in (":4096:8", ":4096:2:16:8", ":16:8", ":0:0", ":0:5", ":0016:8", ":16:8junk", ":8:3,:2:1")
    ),
    *({CUBLAS: said} for said in ("", "nonsense", ":4096:", "4096:8", "x:1:1y:2:3", ":-4:8", ": 16:8")),
    *({CUBLAS: said} for said in (":1:99999999999999999999999", ":99999999999:1")),
    *({LT: said} for said in ("1024", "32768", "0", "", "nonsense", "12abc", " +12", "99999999999", "-1", "70000")),
    {CUBLAS: ":16:8", LT: "100"},
    {CUBLAS: ":16:8", LT: "1024"},
    {CUBLAS: ":0:0", LT: "1"},
    {CUBLAS: "nonsense", LT: "nonsense"},
)


def record(gpu, streams) -> list:
    """Of a layer with a bias, a product, a backward and a product aside: the bytes asked for, and what was said."""
    x = torch.zeros(512, 512, device=gpu.device, requires_grad=True)
    bias, aside = torch.zeros(512, device=gpu.device), streams.Stream()

    def product_aside():
        with streams.stream(aside):
            return x.detach() @ x.detach()

    steps = (
        lambda: F.linear(x, x, bias),
        lambda: x @ x,
        lambda: torch.autograd.grad(x @ x, x, torch.zeros_like(x)),
        product_aside,
    )
    return list(_told(gpu, steps))


def _told(gpu, steps) -> Iterator[list]:
    for step in steps:
        before = gpu.memory_stats()["requested_bytes.all.allocated"]
        error = ""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                step()
            except RuntimeError as wrong:
                error = type(wrong).__name__
        told = [str(one.message).split(" (Triggered")[0] for one in said]
        yield [gpu.memory_stats()["requested_bytes.all.allocated"] - before, told, error]


def main() -> None:
    """Record."""
    if "--child" in sys.argv:
        print(json.dumps(record(LiveGPU(), torch.cuda)), flush=True)
        return
    recorded = [{"settings": settings} | {card: _of(card, settings) for card in CARDS} for settings in SETTINGS]
    save({"torch": torch.__version__, "recorded": recorded}, FILE)


def _of(card: str, settings: dict[str, str]) -> list:
    """What a process under these settings recorded, which may end badly: PyTorch throws once more at its end."""
    environment = os.environ | settings | {"STUB_CUDA_GPU": card}
    command = [sys.executable, str(HERE), "--child"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
