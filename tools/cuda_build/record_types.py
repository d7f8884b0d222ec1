"""Finds out which operators have no CUDA kernel for a type of numbers, over the CUDA build on stub libraries.

    python tools/cuda_build/record_types.py                     writes every_byte/gpu/operators/no_kernel.json

Each sample of PyTorch's database of operators (`op_db`) is run with its tensors in every type, forward and backward,
and a dispatch mode notes which operators of ATen say "not implemented for". One that never ran with a type, and said so
each time it was called with tensors of that type alone, goes into the file: the operator, then by the words of its
error the types, {} for the type's name. Where the words begin with "dims: ", it runs with a tensor of no dimensions.
Run tools/cuda_build/setup.sh once before; the database wants `expecttest`, on PYTHONPATH.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import warnings
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]
OUT = ROOT / "every_byte" / "gpu" / "operators" / "no_kernel.json"
KINDS = {
    "bool": "Bool", "uint8": "Byte", "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
    "complex64": "ComplexFloat", "float8_e4m3fn": "Float8_e4m3fn",
}  # fmt: skip
"""One type of each kind that kernels are compiled for together, and what PyTorch's errors call it."""
_BY_ARGUMENTS = {"aten::bmm", "aten::_embedding_bag_backward", "aten::div.Tensor_mode"}
"""What the arguments decide, too: whether it is an outer product, which mode of several."""
_LISTS = "_foreach_"
_SCALAR = "dims: "  # of tensors without dimensions it runs
SAMPLES = 4  # of an operator, spread over all that it has
_OF_TYPES = re.compile("not implemented for|not support|[Uu]nsupported|[Ee]xpected .*(float|complex)|only support")


def try_types(names: list[str]) -> None:
    """Run the samples of these operators in this process; print for each what operators of ATen said."""
    import torch
    from operator_samples import brought, drawn, operators
    from torch.utils._python_dispatch import TorchDispatchMode

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found: dict[tuple, set[str]] = defaultdict(set)

    class Note(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            tensors = list(_tensors((args, kwargs or {})))
            dtype = str(tensors[0].dtype)[6:] if tensors else ""
            try:
                result = func(*args, **kwargs or {})
            except RuntimeError as error:  # NotImplementedError is one
                said = str(error).split("\n")[0]
                alike = len({x.dtype for x in tensors if x.dtype is not torch.int64}) <= 1
                if _OF_TYPES.search(said) and "[" not in said:
                    kind = "" if isinstance(error, NotImplementedError) else "RuntimeError: "
                    found[func.name(), dtype].add(kind + said.replace(KINDS.get(dtype, "-"), "{}") if alike else "")
                raise
            if all(x.numel() for x in (*tensors, *_tensors(result))):
                found[func.name(), dtype].add(_SCALAR if tensors and not tensors[0].dim() else "")
            return result

    def _tensors(value):
        if isinstance(value, torch.Tensor):
            yield value
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ():
            yield from _tensors(item)

    def cast(value, dtype):
        if isinstance(value, torch.Tensor):
            kinds = value.dtype.is_floating_point or value.dtype.is_complex
            if not kinds or value.layout is not torch.strided:
                return value
            can = dtype.is_floating_point or dtype.is_complex
            there = torch.empty_strided(value.shape, value.stride(), dtype=dtype, device="cuda")
            return there.requires_grad_(value.requires_grad and can)
        if isinstance(value, dict):
            return {name: cast(item, dtype) for name, item in value.items()}
        return type(value)(cast(x, dtype) for x in value) if type(value) in (list, tuple) else value

    def try_on_lists() -> None:
        """The operators on lists of tensors, which the database leaves out: each on one, two and three lists."""
        for dtype in (getattr(torch, kind) for kind in KINDS):
            lists = [[torch.empty(n, dtype=dtype, device="cuda") for n in (5, 70)] for _ in range(3)]
            for name in (name for name in dir(torch) if name.startswith(_LISTS)):
                for n in (1, 2, 3):
                    try:
                        with Note():
                            getattr(torch, name)(*lists[:n])
                    except Exception:
                        pass

    for name in names:
        print(json.dumps([name]), flush=True)
        found.clear()
        if name == _LISTS:
            try_on_lists()
            print(json.dumps([name, [[*key, sorted(said)] for key, said in found.items()]]), flush=True)
            continue
        op = operators()[name]
        try:
            samples = list(drawn(op, "float32")) or list(drawn(op, "int64")) or list(drawn(op, "complex64"))
        except Exception:
            samples = []
        for sample in samples[:: max(1, len(samples) // SAMPLES)]:
            for dtype in [getattr(torch, kind) for kind in KINDS]:
                try:
                    operand, args, kwargs = cast(list(brought(sample, torch.device("cuda", 0))), dtype)
                    with Note():
                        out = op(operand, *args, **kwargs)
                        outs = [x for x in _tensors(out) if x.requires_grad]
                        if outs:
                            torch.autograd.backward(outs, [torch.zeros_like(x) for x in outs])
                except Exception:
                    pass
                operand = args = kwargs = out = outs = None
        print(json.dumps([name, [[*key, sorted(said)] for key, said in found.items()]]), flush=True)


def gathered(card: str) -> dict[tuple[str, str], set[str]]:
    """What each operator said of each type; a sample that ends the process is left out with its operator."""
    from operator_samples import operators

    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    waiting = [*sorted(operators()), _LISTS]
    while waiting:
        command = [str(HERE / "run.sh"), __file__, "--child", *waiting]
        environment = os.environ | {"STUB_CUDA_GPU": card}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        begun = waiting[0]
        for line in process.stdout:
            begun, *rows = json.loads(line)
            for func, dtype, said in rows[0] if rows else ():
                found[func, dtype].update(said)
        process.wait()
        waiting = waiting[waiting.index(begun) + 1 :]
        print(f"{begun}: {len(waiting)} left", file=sys.stderr)
    return found


def table(found: dict[tuple[str, str], set[str]]) -> dict[str, dict[str, str]]:
    """By operator and kernel: the types that it has no code for, by PyTorch's names for them."""
    runs = {func for (func, _), said in found.items() if "" in said} - _BY_ARGUMENTS
    missing: dict[str, dict[str, str]] = defaultdict(dict)
    for (func, dtype), said in sorted(found.items()):
        if func in runs and "" not in said and (errors := said - {_SCALAR}):
            words = _SCALAR * (_SCALAR in said) + min(errors)
            missing[func][words] = f"{missing[func].get(words, '')} {dtype}".strip()
    return missing


def main() -> None:
    """The command line: see the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--card", default="h100")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        try_types(arguments.names)
        return
    missing = table(gathered(arguments.card))
    rows = ",\n".join(f"{json.dumps(func)}: {json.dumps(of)}" for func, of in missing.items())
    arguments.out.write_text("{\n" + rows + "\n}\n")
    print(f"{len(missing)} operators: {arguments.out}")


if __name__ == "__main__":
    main()
