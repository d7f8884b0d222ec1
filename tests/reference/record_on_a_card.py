"""Records on a card what libraries below PyTorch ask its allocator for, and where the driver puts segments.

    python tests/reference/record_on_a_card.py attention --out attention.h200.json.gz

What is recorded: `attention` (cuDNN's), `convolutions`, `recurrent`, `linear_algebra`: of each call its settings, and
the bytes that it allocates, and with a minus frees, forward and backward. `addresses`: segments that are asked of
cudaMalloc and given back, with their addresses less the first. It needs a GPU: over stub libraries these take nothing.
"""

import argparse
import ctypes
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from every_byte.gpu.cases.files import save
from every_byte.gpu.cases.recorder import driver_version

Call = tuple[dict, Callable[[], torch.Tensor | None]]
DEVICE = "cuda"
MIB = 2**20
N_ADDRESSES, MOST_BYTES = 500, 9 * 2**30
SEGMENTS_MIB = (2, 2, 2, 20, 20, 12, 34, 100, 4, 22, 512, 1024)


def _random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=True)


# ------------------------------------------------------------------------------------------------------------ attention

SHAPES = (  # batch, heads of query, heads of key and value, queries, keys, dimensions of a head, and of a value
    *((2, 4, 4, 256, 256, 64, 64), (8, 12, 12, 1024, 1024, 64, 64), (1, 32, 8, 2048, 2048, 128, 128)),
    *((3, 5, 5, 333, 333, 64, 64), (2, 4, 4, 100, 100, 128, 128), (2, 8, 8, 512, 512, 96, 96)),
    *((2, 4, 4, 128, 256, 64, 64), (2, 4, 4, 256, 128, 64, 64), (2, 4, 4, 1, 300, 64, 64), (1, 8, 1, 77, 77, 32, 32)),
    *((2, 8, 2, 300, 500, 64, 64), (3, 6, 3, 129, 129, 80, 80), (2, 4, 4, 200, 200, 160, 160)),
    *((1, 2, 2, 128, 128, 256, 256), (2, 4, 4, 128, 128, 192, 128), (2, 4, 4, 64, 64, 8, 8), (2, 4, 4, 70, 70, 16, 16)),
    *((2, 4, 4, 128, 128, 64, 32), (4, 16, 16, 4096, 4096, 64, 64), (1, 4, 4, 8000, 8000, 128, 128)),
    *((5, 3, 3, 65, 193, 40, 40), (16, 12, 12, 512, 512, 64, 64), (64, 8, 8, 50, 50, 48, 48)),
)


def attended(shape, mask: str, layout: str, dtype: str, is_causal: bool, dropout: float, gradient: bool):
    """cuDNN's attention of that shape; `layout` is the order of dimensions in memory, "packed" for one projection."""
    b, h, h_key, s, t, d, d_value = shape
    kind = getattr(torch, dtype)
    if layout == "packed":
        q, k, v = (x.transpose(1, 2) for x in _random(b, s, 3, h, d, dtype=kind).unbind(2))
    else:
        sizes = ((h, s, d), (h_key, t, d), (h_key, t, d_value))
        q, k, v = (_random(b, n, m, w, dtype=kind) for n, m, w in sizes)
        if layout == "bshd":
            q, k, v = (x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for x in (q, k, v))
    masks = {
        "": lambda: None,
        "bool": lambda: torch.ones(s, t, device=DEVICE, dtype=torch.bool).tril(),
        "float": lambda: torch.zeros(b, h, s, t, device=DEVICE, dtype=kind),
    }
    attn_mask = masks[mask]()

    def run() -> torch.Tensor:
        options = {"attn_mask": attn_mask, "is_causal": is_causal, "dropout_p": dropout, "enable_gqa": h != h_key}
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION), torch.set_grad_enabled(gradient):
            return F.scaled_dot_product_attention(q, k, v, **options)

    return run


def attention() -> Iterator[Call]:
    """cuDNN's attention: shapes, masks, orders in memory, and a few settings."""
    usual = {"mask": "", "layout": "bhsd", "dtype": "bfloat16", "is_causal": False, "dropout": 0.0, "gradient": True}
    others = (
        {},
        {"layout": "bshd"},
        {"layout": "bshd", "gradient": False},
        {"layout": "bshd", "mask": "bool"},
        {"layout": "bshd", "mask": "float"},
        {"layout": "packed"},
        *(
            {"dtype": t, "is_causal": c, "dropout": p}
            for t in ("bfloat16", "float16")
            for c in (0, 1)
            for p in (0, 0.1)
        ),
    )
    for shape, other in itertools.product(SHAPES, others):
        b, h, h_key, s, t, d, d_value = shape
        if other.get("layout") == "packed" and (h, s, d) != (h_key, t, d_value):
            continue
        options = usual | other
        yield {"shape": list(shape)} | options, attended(shape, **options)


# --------------------------------------------------------------------------------------- convolutions, recurrent layers

CONVOLUTIONS = {  # channels in and out, kernel, stride, padding, groups, height and width
    "3-64-7s2": (3, 64, 7, 2, 3, 1, 224),
    "64-64-3": (64, 64, 3, 1, 1, 1, 56),
    "64-128-3s2": (64, 128, 3, 2, 1, 1, 56),
    "256-64-1": (256, 64, 1, 1, 0, 1, 56),
    "512-512-3": (512, 512, 3, 1, 1, 1, 7),
    "dw-96-7": (96, 96, 7, 1, 3, 96, 56),
    "dw-32-3": (32, 32, 3, 1, 1, 32, 112),
    "g32-128-3": (128, 128, 3, 1, 1, 32, 28),
    "3-768-16s16": (3, 768, 16, 16, 0, 1, 224),
    "320-320-3": (320, 320, 3, 1, 1, 1, 64),
    "1-32-3": (1, 32, 3, 1, 0, 1, 28),
    "32-64-3": (32, 64, 3, 1, 0, 1, 26),
    "3-32-3": (3, 32, 3, 1, 1, 1, 32),
    "128-256-5": (128, 256, 5, 1, 2, 1, 14),
}


def convolutions() -> Iterator[Call]:
    """Convolutions as in published networks, with and without TF32, and channels-last; `cudnn.benchmark` is off."""
    torch.backends.cudnn.benchmark = False
    every = itertools.product(CONVOLUTIONS, (8, 64), ("float32", "tf32", "float16", "bfloat16"), (False, True))
    for name, n, dtype, is_last in every:
        c_in, c_out, k, stride, padding, groups, side = CONVOLUTIONS[name]
        torch.backends.cudnn.allow_tf32 = dtype == "tf32"
        kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
        order = torch.channels_last if is_last else torch.contiguous_format
        x, w = (
            torch.randn(shape, device=DEVICE, dtype=kind).contiguous(memory_format=order).requires_grad_()
            for shape in ((n, c_in, side, side), (c_out, c_in // groups, k, k))
        )
        said = {"name": name, "n": n, "dtype": dtype, "channels_last": is_last}
        yield said, lambda x=x, w=w, how=(stride, padding, 1, groups): F.conv2d(x, w, None, *how)
        torch.cuda.empty_cache()
    torch.backends.cudnn.allow_tf32 = True


def recurrent() -> Iterator[Call]:
    """LSTM, GRU and RNN: widths, layers, directions, dropout between layers, types, lengths."""
    every = itertools.product(
        ("LSTM", "GRU", "RNN"),
        (64, 512),
        (1, 2),
        (False, True),
        (0.0, 0.2),
        ("float32", "float16"),
        ((8, 35), (64, 100)),
    )
    for kind, width, layers, is_bidirectional, dropout, dtype, (b, s) in every:
        if layers == 1 and dropout:
            continue
        options = {"num_layers": layers, "bidirectional": is_bidirectional, "dropout": dropout}
        module = getattr(torch.nn, kind)(100, width, **options).to(DEVICE, getattr(torch, dtype))
        x = _random(s, b, 100, dtype=getattr(torch, dtype))
        said = {"kind": kind, "hidden_size": width, **options, "dtype": dtype, "batch": b, "length": s}
        yield said, lambda module=module, x=x: module(x)[0]


def linear_algebra() -> Iterator[Call]:
    """What cuSOLVER, cuFFT and others take: decompositions, solutions, transforms, of several shapes and types."""
    linalg = torch.linalg
    functions = {
        **{name: getattr(linalg, name) for name in ("inv", "qr", "svd", "svdvals", "eig", "lu", "lu_factor", "det")},
        **{name: getattr(linalg, name) for name in ("slogdet", "pinv", "matrix_exp")},
        **{name: getattr(torch.fft, name) for name in ("fft", "fft2", "ifft")},
        "eigh": lambda a: linalg.eigh(a + a.mH),
        "solve": lambda a: linalg.solve(a, a),
        "lstsq": lambda a: linalg.lstsq(a, a),
        "unique": lambda a: a.real.round().unique(),
        "nonzero": lambda a: (a.real > 0).nonzero(),
    }
    shapes = (
        (8, 8),
        (33, 33),
        (100, 100),
        (512, 512),
        (4, 16, 16),
        (64, 33, 33),
        (3, 256, 256),
        (300, 100),
        (100, 300),
    )
    for (name, function), shape, dtype in itertools.product(
        functions.items(), shapes, (torch.float32, torch.float64, torch.complex64)
    ):
        a = _random(*shape, dtype=dtype)
        said = {"function": name, "shape": list(shape), "dtype": str(dtype).removeprefix("torch.")}

        def run(function=function, a=a) -> torch.Tensor:
            result = function(a)
            return result if isinstance(result, torch.Tensor) else result[0]

        yield said, run


def events(act: Callable[[], object]) -> tuple[object, list[int]]:
    """What an act returns, and the bytes that it allocated, and with a minus freed, in order."""
    torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python", context=None)
    try:
        result = act()
        torch.cuda.synchronize()
        trace = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    signs = {"alloc": 1, "free_completed": -1}
    return result, [signs[e["action"]] * e["size"] for e in trace if e["action"] in signs]


def recorded(calls: Iterator[Call]) -> Iterator[dict]:
    """Each call with what it took, forward and backward, or with the error that it raised."""
    for said, run in calls:
        try:
            out, forward = events(run)
            backward = []
            if isinstance(out, torch.Tensor) and out.requires_grad:
                gradient = torch.ones_like(out)
                _, backward = events(lambda out=out, gradient=gradient: out.backward(gradient))
            yield said | {"forward": forward, "backward": backward}
        except (RuntimeError, NotImplementedError) as error:
            yield said | {"error": f"{type(error).__name__}: {str(error).partition(chr(10))[0][:150]}"}
        out = gradient = None


# ------------------------------------------------------------------------------------------------------------ addresses


def addresses() -> Iterator[dict]:
    """Sequences of segments, bought (bytes above 0) and sold, with their addresses less that of PyTorch's first one."""
    first = torch.zeros(1, device=DEVICE).data_ptr()
    runtime = ctypes.CDLL(f"libcudart.so.{torch.version.cuda.partition('.')[0]}")
    for seed, sizes in itertools.product(range(8), (SEGMENTS_MIB, (2,))):
        draw, held, rows = random.Random(seed), [], []
        while len(rows) < N_ADDRESSES:
            n_bytes = draw.choice(sizes) * MIB
            if held and (draw.random() < 0.42 or sum(n for n, _ in held) + n_bytes > MOST_BYTES):
                n_bytes, address = held.pop(draw.randrange(len(held)))
                runtime.cudaFree(ctypes.c_void_p(address))
                rows.append([-n_bytes, address - first])
                continue
            pointer = ctypes.c_void_p()
            if runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(n_bytes)):
                raise RuntimeError(f"cudaMalloc must give {n_bytes:,d} bytes: it did not; free some of the card.")
            held.append((n_bytes, pointer.value))
            rows.append([n_bytes, pointer.value - first])
        for _, address in held:
            runtime.cudaFree(ctypes.c_void_p(address))
        yield {"seed": seed, "sizes_mib": list(sizes), "segments": rows}


KINDS = {kind.__name__: kind for kind in (attention, convolutions, recurrent, linear_algebra)}


def main() -> int:
    """The command line: see the head of this file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=[*KINDS, "addresses"])
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    rows = addresses() if asked.what == "addresses" else recorded(KINDS[asked.what]())
    about = {"gpu": torch.cuda.get_device_name(), "driver": driver_version(), "torch": torch.__version__}
    save({"about": about | {"cudnn": torch.backends.cudnn.version()}, "rows": list(rows)}, asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
