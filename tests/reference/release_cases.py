"""More cases in the form of cases.py: small programs that show what a release of PyTorch does otherwise.

They are recorded under each version that has recordings; tools/releases.py writes from that what changed.
"""

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CASES = {}


def case(*cards, cudnn_sdp=True):
    def register(function):
        function.cudnn_sdp, function.cards = cudnn_sdp, cards
        CASES[function.__name__] = function
        return function

    return register


def _heads(env, *shapes, dtype=torch.bfloat16):
    return [torch.zeros(*shape, device=env.device, dtype=dtype, requires_grad=True) for shape in shapes]


def _attend(env, q, k, v, **options):
    """Attention forward and backward."""
    y = F.scaled_dot_product_attention(q, k, v, **options)
    env.mark("after forward")
    y.backward(torch.zeros_like(y))
    env.mark("after backward")


@case("a100", "h100")
def release_product(env):
    """A product, and what is left of its workspace."""
    x = torch.zeros(1024, 1024, device=env.device)
    y = x @ x
    env.mark("after it")
    del x, y


@case("a100", "h100")
def release_linear(env):
    """A product and a bias, added in one kernel."""
    layer = torch.nn.Linear(1024, 1024, device=env.device)
    y = layer(torch.zeros(256, 1024, device=env.device))
    env.mark("after it")
    del layer, y


@case("a100", "h100")
def release_seeds(env):
    """Memory-efficient attention without dropout, whose seed and offset are kept for backward."""
    q, k, v = _heads(env, *[(1, 4, 256, 64)] * 3, dtype=torch.float32)
    with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
        y = F.scaled_dot_product_attention(q, k, v)
    env.mark("after forward")
    del q, k, v, y


@case("a100", "t4")
def release_fewer_heads(env):
    """Grouped-query attention in float32, for which there is no flash attention."""
    _attend(
        env, *_heads(env, (1, 8, 1024, 64), (1, 2, 1024, 64), (1, 2, 1024, 64), dtype=torch.float32), enable_gqa=True
    )


@case("a100", "h100")
def release_one_head(env):
    """One head of key and value for all of query's, without `enable_gqa`."""
    _attend(env, *_heads(env, (1, 8, 1024, 64), (1, 1, 1024, 64), (1, 1, 1024, 64)))


@case("a100", "h100")
def release_three_dimensions(env):
    """Attention of heads, positions and numbers, without a batch."""
    _attend(env, *_heads(env, *[(8, 1024, 64)] * 3))


@case("a100", "h100")
def release_many_heads(env):
    """More batches and heads than a grid of a kernel has."""
    _attend(env, *_heads(env, *[(65_536, 1, 8, 16)] * 3))


@case("h100")
def release_wide_heads(env):
    """Heads of 200 numbers, trained."""
    _attend(env, *_heads(env, *[(1, 8, 1024, 200)] * 3))


@case("h100")
def release_dropout(env):
    """Dropout of a tenth, which is no multiple of a sixteenth."""
    _attend(env, *_heads(env, *[(1, 8, 1024, 64)] * 3), dropout_p=0.1)


@case("a100")
def release_starts(env):
    """Attention in float32 of tensors that begin one number into their storage."""
    n, shape = 8 * 1024 * 64, (1, 8, 1024, 64)
    made = [torch.zeros(n + 4, device=env.device)[1 : n + 1].view(shape).requires_grad_() for _ in "qkv"]
    _attend(env, *made)


@case("a100", "h100")
def release_clipping(env):
    """The norm of many gradients, of which one is long."""
    made = [torch.zeros(n, device=env.device, requires_grad=True) for n in (10_000_000, *[1000] * 200)]
    for parameter in made:
        parameter.grad = torch.zeros_like(parameter)
    env.mark("before it")
    torch.nn.utils.clip_grad_norm_(made, 1.0)
    env.mark("after it")


@case("a100", "h100")
def release_group_norm(env):
    """Group norm of pictures in channels-last, as of a convolution, and its backward."""
    norm = torch.nn.GroupNorm(8, 64, device=env.device)
    x = torch.zeros(8, 64, 32, 32, device=env.device).contiguous(memory_format=torch.channels_last).requires_grad_()
    env.mark("before it")
    y = norm(x)
    env.mark("after forward")
    y.backward(torch.zeros_like(y))
    env.mark("after backward")
    del x, y


@case("a100")
def release_limits(env):
    """The gradients of the larger of two, and of what lies between limits."""
    x, y = (torch.zeros(1_000_000, device=env.device, requires_grad=True) for _ in range(2))
    for name, make in {"maximum": torch.maximum, "fmax": torch.fmax, "clamp": lambda x, y: x.clamp(min=y)}.items():
        out = make(x, y)
        env.mark(f"{name} after forward")
        out.backward(torch.zeros_like(out))
        env.mark(f"{name} after backward")
        del out


@case("a100")
def release_sorted_indices(env):
    """The gradient of an embedding of 100 rows, by 100,000 tokens."""
    rows = torch.nn.Embedding(100, 16, device=env.device)
    y = rows(torch.zeros(100_000, dtype=torch.int64, device=env.device))
    env.mark("after forward")
    y.backward(torch.zeros_like(y))
    env.mark("after backward")
    del rows, y


@case("a100")
def release_draws(env):
    """Numbers drawn with replacement."""
    drawn = torch.multinomial(torch.ones(1_000_000, device=env.device), 5, replacement=True)
    env.mark("after it")
    del drawn


@case("a100")
def release_written_numbers(env):
    """A number written at a list of positions on the GPU, at one position, at a list of columns."""
    x, one, some = torch.zeros(1000, 1000, device=env.device), *(
        torch.zeros(shape, device=env.device, dtype=torch.int64) for shape in ((), (500,))
    )  # fmt: skip
    env.mark("before it")
    x[some] = 1.0
    env.mark("at a list")
    x[one] = 1.0
    env.mark("at one position")
    x[:, some] = 1.0
    env.mark("at a list of columns")
    del x, one, some


@case("a100", "h100")
def release_evaluation(env):
    """Multi-head attention in evaluation, of heads 36 wide."""
    layer = torch.nn.MultiheadAttention(288, 8, batch_first=True, device=env.device, dtype=torch.bfloat16).eval()
    x = torch.zeros(4, 512, 288, device=env.device, dtype=torch.bfloat16)
    env.mark("before it")
    with torch.no_grad():
        y, _ = layer(x, x, x, need_weights=False)
    env.mark("after it")
    del layer, x, y
