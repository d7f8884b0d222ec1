"""Record what the CUDA build of PyTorch keeps for backward of an MLP with each activation: activations_saved.cuda.json.

    STUB_CUDA_GPU=a100 tools/cuda_build/run.sh tests/reference/record_activations.py

Nothing of it depends on values. A case holds

- `activation` (how it was made), `formula` (the name utils.formulas.mlp knows it by) and the setting;
- `requested_bytes`: by how much the forward raised the allocator's `requested_bytes`. That is what was kept and new, so
  it has the output and lacks the input, which was there before;
- `rows`: [module, node, slot, shape, dtype, bytes of the storage, number of the storage], for every saved slot but
  those of parameters.
"""

import json
import sys
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "helpers"), str(HERE.parents[1])]

from activation_variants import variants  # noqa: E402

from every_byte.whole_files import write_whole  # noqa: E402
from utils.contexts import SavedTensorContext  # noqa: E402
from utils.layers import MLP  # noqa: E402

SETTINGS = [  # b, s, d, dtype, bias, dropout, whether x requires grad
    (2, 3, 5, "float32", True, 0.0, True),
    (1, 1, 1, "bfloat16", False, 0.0, False),
    (3, 7, 2, "float16", True, 0.1, False),
    (2, 64, 33, "float64", False, 0.25, True),
]


def record(label: str, formula: str, make, setting: tuple) -> dict:
    """One case: a forward on CUDA, seen by the allocator and by saved-tensor hooks."""
    b, s, d, dtype_name, bias, dropout, x_grad = setting
    dtype = getattr(torch, dtype_name)
    model = MLP(d, make(), dropout, device="cuda", dtype=dtype, bias=bias).to("cuda", dtype)
    x = torch.randn(b, s, d, device="cuda", dtype=dtype, requires_grad=x_grad)
    before = requested_bytes()
    with SavedTensorContext(model.parameters()) as saved:
        y = model(x)
    after = requested_bytes()
    numbers: dict[int, int] = {}
    rows = [
        [r.module, r.node, r.slot, list(r.shape), str(r.dtype).removeprefix("torch."), r.storage_bytes,
         numbers.setdefault(r.storage, len(numbers))]
        for r in saved.rows(y)
    ]  # fmt: skip
    return {
        "activation": label,
        "formula": formula,
        "setting": dict(zip(("b", "s", "d", "dtype", "bias", "dropout", "x_grad"), setting, strict=True)),
        "saved_bytes": saved.saved_tensor_mem,
        "requested_bytes": after - before,
        "rows": rows,
    }


def requested_bytes() -> int:
    return torch.cuda.memory_stats()["requested_bytes.all.current"]


def main() -> None:
    nn.Linear(2, 2, device="cuda")(torch.ones(2, 2, device="cuda"))  # the cuBLAS workspace is not the MLP's
    cases = [record(label, *variant, setting) for label, variant in variants().items() for setting in SETTINGS]
    lines = ",\n".join(json.dumps(case) for case in cases)
    head = json.dumps({"torch": torch.__version__, "device_name": torch.cuda.get_device_name()})[:-1]
    file = HERE / torch.__version__.split("+")[0] / "activations_saved.cuda.json"
    write_whole(file, f'{head}, "cases": [\n{lines}\n]}}\n')
    print(f"{len(cases)} cases of torch {torch.__version__}")


if __name__ == "__main__":
    main()
