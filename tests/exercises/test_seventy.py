"""The replies to a reader of chapter 7 about the chain of four numbers; the chain's links against simulated ranks."""

import json
import os
import subprocess
import sys

import pytest
import torch
from places import ROOT

from every_byte.gpu.ranks import ranks
from every_byte.remedies.losses import recomputed_chunks
from utils import Ledger, SimulatedGPU
from utils.exercises import seventy
from utils.exercises.seventy import PARTS
from utils.experiments.training import StepSettings, random_tokens, train_steps
from utils.models.data_parallel import fully_sharded
from utils.models.llama import Llama
from utils.models.regions import library_checkpoint

RIGHT = dict(zip(PARTS, (52_915_279_872, 7_625_326_592, 22_209_241_088, 1_680_574_464), strict=True))
N, ROOT_SIZE, BLOCK, HEAD = 70_553_706_496, 2 * 128_256 * 8192 + 8192, 855_654_400, 2 * 128_256 * 8192
GRADIENTS, LEFT = RIGHT["gradients"], RIGHT["left"]


@pytest.mark.parametrize(
    ("changed", "reply"),
    [
        ({}, "Right: 1,680,574,464 bytes (1.57 GiB) are left for activations, logits and workspaces."),
        ({"shares": None}, "No answer yet"),
        ({"left": None}, "No answer yet"),
        ({"shares": 6 * N}, "shares: not yet: 423,322,238,976 bytes (394 GiB) is"),
        ({"shares": 6 * N}, "That's everything. A rank has an eighth of it."),
        ({"shares": N // 4}, "That's only the weights."),
        ({"shares": N // 2}, "AdamW has two averages."),
        ({"shares": N}, "Gradients belong to the third number."),
        ({"shares": 12 * N // 8}, "Everything is in bfloat16"),
        ({"shares": 10 * N // 8}, "The averages have the weights' type."),
        ({"gathered": 2 * BLOCK}, "gathered: not yet: 1,711,308,800 bytes"),
        ({"gathered": 2 * BLOCK}, "What is outside the blocks is gathered, too, and so is the next block."),
        ({"gathered": 4 * BLOCK}, "Embedding, last norm and head are outside the blocks"),
        ({"gathered": 2 * (ROOT_SIZE + BLOCK)}, "Backward's next block is already on its way."),
        ({"gathered": 2 * (ROOT_SIZE + 3 * BLOCK)}, "That's the most in forward, with the buffer of the block before."),
        ({"gathered": 4 * (ROOT_SIZE + BLOCK)}, "That's what is gathered when the first block's forward begins."),
        ({"gathered": RIGHT["gathered"] // 8}, "What is gathered is whole on every rank."),
        ({"gathered": 2 * N}, "Blocks release their parameters after forward."),
        ({"gathered": RIGHT["gathered"] - 2 * 8192}, "The last norm is outside the blocks, too."),
        ({"gathered": RIGHT["gathered"] - 2 * 128_256 * 8192}, "Embedding and head are separate tensors."),
        ({"gradients": 2 * N // 8}, "That's a shard of every gradient."),
        ({"gradients": GRADIENTS - 2 * BLOCK}, "The gradients of the block before are whole, in a buffer"),
        ({"gradients": GRADIENTS - 4 * BLOCK}, "The block's own gradients are whole"),
        ({"gradients": GRADIENTS - HEAD - 2 * 8192}, "Head and last norm keep whole gradients until"),
        ({"gradients": GRADIENTS - 7 * (HEAD + 2 * 8192) // 8}, "The gradients of head and last norm stay whole"),
        ({"gradients": GRADIENTS - 7 * BLOCK // 4}, "Two blocks have whole gradients"),
        ({"gradients": GRADIENTS + HEAD}, "The embedding has no gradient yet."),
        ({"gradients": GRADIENTS + BLOCK // 4}, "so L - 2 have shards."),
        ({"gradients": GRADIENTS + BLOCK // 2}, "so L - 2 have shards."),
        ({"gradients": GRADIENTS - 2 * 8192}, "The last norm has a gradient, too."),
        ({"left": LEFT + 560 * 2**20}, "The CUDA context takes room, too."),
        ({"left": LEFT + RIGHT["gathered"]}, "What is gathered takes room, too."),
        ({"left": LEFT + GRADIENTS}, "The gradients take room, too."),
        ({"more": 1}, "the answer must be a dict of 'shares', 'gathered', 'gradients', 'left': got {"),
    ],
)
def test_a_reply(changed, reply):
    assert reply in str(seventy.seventy(RIGHT | changed))


@pytest.mark.parametrize(("answer", "reply"), [(None, "No answer yet"), (3072, "a dict of 'shares', 'gathered'")])
def test_what_is_no_answer(answer, reply):
    assert reply in str(seventy.seventy(answer))


def test_the_numbers_are_the_formulas():
    links = seventy.shares_bytes(), seventy.gathered_bytes(), seventy.gradients_bytes(), seventy.left_bytes()
    assert links == tuple(RIGHT.values())


SIZES = {"V": 1000, "d": 128, "L": 4, "a": 8, "g": 2, "f": 256}


def trained(s):
    """Two steps of a small Llama on one of eight ranks, each block a checkpoint: the trace."""
    sizes = {"vocabulary_size": 1000, "d_model": 128, "n_layers": 4, "n_heads": 8, "n_kv_heads": 2, "d_mlp": 256}
    with SimulatedGPU("h100-80gb") as gpu, ranks(seventy.N_RANKS) as mesh:
        how = {"device": gpu.device, "dtype": torch.bfloat16, "loss": recomputed_chunks(16), "run": library_checkpoint}
        train_steps(
            gpu,
            lambda: fully_sharded(Llama(**sizes, context_length=s, **how), mesh),
            lambda: random_tokens(gpu, b=1, s=s, V=1000),
            StepSettings(keep_outputs=False),
            n_steps=2,
        )
        return gpu.trace


def in_backward_of(trace, block: str) -> list[Ledger]:
    """The ledgers of the last step's backward after each event of this block."""
    first, last = trace.position("step 2 forward"), trace.position("step 2 backward")
    return [Ledger.at(trace, n + 1) for n in range(first, last) if trace.events[n].module.startswith(block)]


def test_the_links_are_those_of_a_simulated_rank():
    trace = trained(64)
    parts = Ledger.at(trace, "step 2 backward").parts
    tensors = 9 * SIZES["L"] + 3
    assert parts["parameters"] + parts["optimizer state"] - 4 * tensors == seventy.shares_bytes(SIZES)
    ledgers = in_backward_of(trace, "blocks.1")
    assert max(ledger.parts["gathered parameters"] for ledger in ledgers) == seventy.gathered_bytes(SIZES)
    both = [ledger.parts["gradients"] + ledger.parts.get("gradient buckets", 0) for ledger in ledgers]
    assert max(both) == seventy.gradients_bytes(SIZES)


SEVENTY = """
import sys, torch, torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from utils.models.llama import Llama
from every_byte.remedies.losses import recomputed_chunks
from utils.models.regions import library_checkpoint

s = int(sys.argv[1])
dist.init_process_group("nccl")
torch.cuda.set_device(0)
how = dict(context_length=s, device="meta", dtype=torch.bfloat16, loss=recomputed_chunks(1024), run=library_checkpoint)
model = Llama.from_name("llama-3-70b", **how)
for block in model.blocks:
    fully_shard(block)
fully_shard(model)
model.to_empty(device="cuda")
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _ in range(3):
    tokens = torch.randint(0, 128256, (1, s), device="cuda")
    model(tokens, tokens)[-1].backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("s", "settings", "fits"),
    [
        (2048, "", True),
        (3072, "", False),
        (5120, "expandable_segments:True", True),
        (6144, "expandable_segments:True", False),
    ],
)
def test_what_the_whole_model_has_room_for(tmp_path, s, settings, fits):
    """The peak is where the exercise looks, block 1, and what it leaves is what the tokens must do with."""
    program, figures = tmp_path / "seventy.py", tmp_path / "figures.json"
    program.write_text(SEVENTY, encoding="utf-8")
    command = ["run", "--gpu", "h100-80gb", "--ranks", str(seventy.N_RANKS), "--steps", "3", "--json", str(figures)]
    done = subprocess.run(
        [sys.executable, "-m", "every_byte", *command, str(program), str(s)],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTORCH_ALLOC_CONF": settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == fits, done.stdout + done.stderr
    if fits:
        found = json.loads(figures.read_text(encoding="utf-8"))["peak"]["by_category"]
        assert found["parameters"] + found["optimizer state"] - 4 * 723 == seventy.shares_bytes()
        assert found["gathered parameters"] == seventy.gathered_bytes()
