"""What a reader of chapter 7 is told about the chain of four numbers; the chain's links against simulated ranks."""

import pytest
import torch

from every_byte.gpu.ranks import ranks
from utils import Ledger, SimulatedGPU
from utils.exercises import seventy
from utils.exercises.seventy import PARTS, most_tokens
from utils.experiments.training import StepSettings, random_tokens, train_steps
from utils.models.data_parallel import fully_sharded
from utils.models.llama import Llama
from utils.models.losses import recomputed_chunks
from utils.models.regions import library_checkpoint

RIGHT = dict(zip(PARTS, (70_553_706_496, 7_625_326_592, 1_626_376, 3072), strict=True))
N, ROOT, BLOCK = 70_553_706_496, 2 * 128_256 * 8192 + 8192, 855_654_400
OWN = 1_626_376 - 2 * 79 * 8192  # of the block that runs again, with its input


@pytest.mark.parametrize(
    ("changed", "reply"),
    [
        ({}, "Right: 3,072 tokens, and 1,255,161,856 bytes (1.17 GiB) are left for gradients on their way"),
        ({"shares": None}, "No answer yet"),
        ({"tokens": None}, "No answer yet"),
        ({"shares": 8 * N}, "shares: not yet: 564,429,651,968 bytes (526 GiB) is"),
        ({"shares": 8 * N}, "That is the whole; a rank has an eighth."),
        ({"shares": N // 4}, "Those are the weights alone."),
        ({"shares": N // 2}, "AdamW has two averages."),
        ({"shares": 6 * N // 8}, "Three of the four are there"),
        ({"shares": 2 * N}, "Everything is in bfloat16"),
        ({"shares": 12 * N // 8}, "The averages have the weights' type."),
        ({"gathered": 2 * BLOCK}, "gathered: not yet: 1,711,308,800 bytes"),
        ({"gathered": 2 * BLOCK}, "What lies outside the blocks is gathered, too, and the next block already."),
        ({"gathered": 4 * BLOCK}, "Embedding, last norm and head lie outside the blocks"),
        ({"gathered": 2 * (ROOT + BLOCK)}, "The next block of backward is already on its way."),
        ({"gathered": 2 * (ROOT + 3 * BLOCK)}, "That is forward's most, with the buffer of the block before."),
        ({"gathered": 4 * (ROOT + BLOCK)}, "That is what the first block's forward finds."),
        ({"gathered": RIGHT["gathered"] // 8}, "What is gathered is whole on each rank."),
        ({"gathered": 2 * N}, "Blocks let their parameters go after forward."),
        ({"gathered": RIGHT["gathered"] - 2 * 8192}, "The last norm lies outside the blocks, too."),
        ({"gathered": RIGHT["gathered"] - 2 * 128_256 * 8192}, "Embedding and head are two tensors."),
        ({"a token": 2 * 80 * 8192}, "a token: not yet: 1,310,720 bytes"),
        ({"a token": 2 * 80 * 8192}, "in backward one block is there with all that it keeps."),
        ({"a token": OWN}, "That is one block; the others have their inputs."),
        ({"a token": 2 * 80 * 8192 + OWN}, "keeps its own input, which the checkpoint has: one storage."),
        ({"a token": 80 * OWN}, "Each block is a checkpoint: one at a time is there"),
        ({"a token": RIGHT["a token"] // 8}, "Activations are a rank's own: nothing divides them."),
        ({"a token": RIGHT["a token"] - 4 * 64 - 8}, "The statistics are missing: the kernel's, and two norms'."),
        ({"a token": RIGHT["a token"] - 8}, "Each of two norms keeps a number."),
        ({"a token": RIGHT["a token"] - 4 * 64}, "The kernel keeps a number for each head."),
        ({"a token": RIGHT["a token"] + 4 * 8192 - 4 * 8 * 128}, "Keys and values have g heads."),
        ({"tokens": 2048}, "tokens: not yet: 2,048 tokens need 81,509,851,136 bytes"),
        ({"tokens": 2048}, "The loss's chunk is gone when a block's backward runs."),
        ({"tokens": 4096}, "The CUDA context takes its part."),
        ({"tokens": 8192}, "What is gathered takes room, too."),
        (
            {"tokens": 1024},
            "tokens: not yet: 1,024 tokens need 79,844,442,112 bytes (74.4 GiB), and there are 84,430,42",
        ),
        ({"tokens": 3000}, "a number of tokens, a multiple of 1,024: got 3000."),
        ({"tokens": 3072.0}, "a number of tokens, a multiple of 1,024: got 3072.0."),
        ({"more": 1}, "the answer is a dict of 'shares', 'gathered', 'a token', 'tokens': got {"),
    ],
)
def test_a_reply(changed, reply):
    assert reply in str(seventy.seventy(RIGHT | changed))


@pytest.mark.parametrize(("answer", "reply"), [(None, "No answer yet"), (3072, "a dict of 'shares', 'gathered'")])
def test_what_is_no_answer(answer, reply):
    assert reply in str(seventy.seventy(answer))


def test_the_numbers_are_the_formulas():
    links = seventy.shares_bytes(), seventy.gathered_bytes(), seventy.token_bytes()
    assert (*links, most_tokens(links[2], *links[:2])) == tuple(RIGHT.values())


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


def in_last_block(trace):
    """The ledgers of the last step's backward while the last block runs again and back."""
    first, last = trace.position("step 2 forward"), trace.position("step 2 backward")
    places = [n for n in range(first, last) if trace.events[n].module.startswith("blocks.3")]
    return [Ledger.at(trace, n + 1) for n in places]


def test_the_links_are_those_of_a_simulated_rank():
    short, long = (trained(s) for s in (64, 96))
    parts = Ledger.at(short, "step 2 backward").parts
    tensors = 9 * SIZES["L"] + 3
    shares = parts["parameters"] + parts["gradients"] + parts["optimizer state"] - 4 * tensors
    assert shares == seventy.shares_bytes(SIZES)
    ledgers = in_last_block(short)
    assert max(ledger.parts["gathered parameters"] for ledger in ledgers) == seventy.gathered_bytes(SIZES)
    kept = [max(ledger.parts["activations"] for ledger in found) for found in (ledgers, in_last_block(long))]
    tables = 2 * 2 * SIZES["d"] // SIZES["a"]  # cosines and sines in half precision, which all blocks share
    assert kept[1] - kept[0] == 32 * (seventy.token_bytes(SIZES) + tables)
