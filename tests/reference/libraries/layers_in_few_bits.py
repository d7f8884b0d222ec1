"""Layers of bitsandbytes, in 4 and in 8 bits: made, trained around, merged and saved."""

import copy
import gc
import warnings

import bitsandbytes as bnb
import torch
from marked_steps import noise, same, steps
from torch import nn
from torch.nn import functional as F


class _Adapted(nn.Module):
    """A frozen layer of few bits with a low-rank adapter beside it."""

    def __init__(self, layer, rank=8):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x.to(self.down.weight.dtype))).to(x.dtype)


def _adapted(make, rows=512, wide=1024, dtype=torch.bfloat16):
    """Two such layers and a GELU: moved to the GPU, then trained under autocast."""
    model = nn.Sequential(_Adapted(make(wide, 4 * wide)), nn.GELU(), _Adapted(make(4 * wide, wide))).cuda()
    yield "made"
    own = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(own)

    def run(x, y):
        with torch.autocast("cuda", dtype=dtype):
            return F.mse_loss(model(x), y)

    yield from steps(run, model, same(noise(rows, wide), noise(rows, wide)), optimizer)


def _four_bits(**kwargs):
    return lambda n_in, n_out: bnb.nn.Linear4bit(n_in, n_out, **({"compute_dtype": torch.bfloat16} | kwargs))


def nf4_double():
    yield from _adapted(_four_bits(quant_type="nf4", bias=False))


def nf4_single():
    yield from _adapted(_four_bits(quant_type="nf4", compress_statistics=False))


def fp4_float16():
    yield from _adapted(_four_bits(quant_type="fp4", compute_dtype=torch.float16), dtype=torch.float16)


def nf4_many_rows():
    yield from _adapted(_four_bits(quant_type="nf4"), rows=2048)


def nf4_few_rows():
    yield from _adapted(_four_bits(quant_type="nf4"), rows=4)


def nf4_stored_as_bfloat16():
    yield from _adapted(_four_bits(quant_type="nf4", quant_storage=torch.bfloat16))


def nf4_of_weights_in_16_bits():
    for dtype in (torch.bfloat16, torch.float16):
        with torch.no_grad():
            model = _Adapted(bnb.nn.Linear4bit(1024, 4096, bias=False, compute_dtype=dtype, quant_type="nf4").to(dtype))
        model = model.to(dtype).cuda()
        yield f"made of {dtype}"
        model(noise(64, 1024, dtype=dtype)).sum().backward()
        yield f"ran in {dtype}"
        del model
        gc.collect()  # a weight of 4 bits and its layer refer to each other


def nf4_odd_sizes():
    yield from _adapted(_four_bits(quant_type="nf4"), rows=77, wide=520)


def int8_without_outliers():
    yield from _adapted(lambda n_in, n_out: bnb.nn.Linear8bitLt(n_in, n_out, has_fp16_weights=False, threshold=0.0))


def int8_with_a_threshold():
    yield from _adapted(lambda n_in, n_out: bnb.nn.Linear8bitLt(n_in, n_out, has_fp16_weights=False, threshold=6.0))


def int8_that_trains():
    model = nn.Sequential(bnb.nn.Linear8bitLt(512, 2048), nn.GELU(), bnb.nn.Linear8bitLt(2048, 512)).cuda().half()
    yield "made"
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = same(noise(256, 512, dtype=torch.float16), noise(256, 512, dtype=torch.float16))
    yield from steps(lambda x, y: F.mse_loss(model(x), y), model, batch, optimizer)


def embeddings_in_few_bits():
    for make in (bnb.nn.EmbeddingNF4, bnb.nn.EmbeddingFP4, bnb.nn.Embedding8bit):
        layer = make(4000, 512).requires_grad_(False).cuda()
        yield f"{make.__name__} made"
        found = layer(torch.randint(4000, (8, 128), device="cuda"))
        yield f"{make.__name__} ran"
        del layer, found
        gc.collect()  # a weight of 4 bits and its layer refer to each other


def stable_embedding():
    model = nn.Sequential(bnb.nn.StableEmbedding(4000, 512), nn.Linear(512, 512)).cuda()
    yield "made"
    batch = same(torch.randint(4000, (8, 128), device="cuda"), noise(8, 128, 512))
    yield from steps(lambda x, y: F.mse_loss(model(x), y), model, batch, bnb.optim.Adam8bit(model.parameters()))


def dequantized_and_merged():
    layer = bnb.nn.Linear4bit(2048, 2048, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4").cuda()
    yield "made"
    weight = bnb.functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    yield "dequantized"
    low = noise(2048, 16, dtype=weight.dtype) @ noise(16, 2048, dtype=weight.dtype)
    layer.weight = bnb.nn.Params4bit((weight + low).to("cpu"), requires_grad=False, quant_type="nf4").to("cuda")
    del weight, low
    yield "merged"
    kept = {name: value.cpu() for name, value in layer.state_dict().items()}
    yield "saved"
    other = copy.deepcopy(layer)
    yield "copied"
    del kept, other
    yield "gone"


def blockwise_by_hand():
    x = noise(1000, 1000)
    yield "made"
    for blocksize in (64, 256, 4096):
        small, state = bnb.functional.quantize_blockwise(x, blocksize=blocksize)
        yield f"quantized by {blocksize}"
        again = bnb.functional.dequantize_blockwise(small, state)
        yield f"dequantized by {blocksize}"
        del small, state, again


def int8_products_by_hand():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, w = noise(300, 512, dtype=torch.float16), noise(1024, 512, dtype=torch.float16)
        yield "made"
        small, rows, _ = bnb.functional.int8_vectorwise_quant(x)
        others, columns, _ = bnb.functional.int8_vectorwise_quant(w)
        yield "quantized"
        product = bnb.functional.int8_linear_matmul(small, others)
        yield "multiplied"
        result = bnb.functional.int8_mm_dequant(product, rows, columns)
        yield "dequantized"
        twice = bnb.functional.int8_double_quant(x)
        yield "quantized both ways"
        del product, result, twice
        yield "gone"
