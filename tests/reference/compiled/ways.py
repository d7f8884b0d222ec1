"""What meets `torch.compile`: its own options, checkpoints, dynamic shapes, compiled steps and losses, no gradients."""

import torch
import torch.utils.checkpoint as checkpoints
from marked_steps import noise, same, steps, tokens
from parts import GPT, MLP, Block, LlamaBlock
from torch import nn
from torch.nn import functional as F


class Checkpointed(GPT):
    context_fn = None

    def blocks_call(self, block, x):
        options = {} if self.context_fn is None else {"context_fn": self.context_fn}
        return checkpoints.checkpoint(block, x, use_reentrant=False, **options)


def checkpoint():
    model = Checkpointed(p=0.1).cuda()
    yield from steps(torch.compile(model), model, same(tokens(4, 256), tokens(4, 256)))


def selective_checkpoint():
    def policy(_context, op, *_args, **_kwargs):
        saved = op in (torch.ops.aten.mm.default, torch.ops.aten._scaled_dot_product_efficient_attention.default)
        policies = checkpoints.CheckpointPolicy
        return policies.MUST_SAVE if saved else policies.PREFER_RECOMPUTE

    model = Checkpointed().cuda()
    model.context_fn = lambda: checkpoints.create_selective_checkpoint_contexts(policy)
    yield from steps(torch.compile(model), model, same(tokens(4, 256), tokens(4, 256)))


def _with_budget(budget, layers=2):
    def program():
        from torch._functorch import config

        model = GPT(layers=layers).cuda()
        with config.patch(activation_memory_budget=budget):
            yield from steps(torch.compile(model), model, same(tokens(4, 256), tokens(4, 256)))

    return program


budget_of_half = _with_budget(0.5)
budget_of_a_fifth = _with_budget(0.2)
budget_of_a_twentieth = _with_budget(0.05, layers=4)
budget_of_nothing = _with_budget(0.0, layers=4)


def blocks_alone():
    model = GPT(layers=4).cuda()
    for block in model.blocks:
        block.compile()
    yield from steps(model, model, same(tokens(3, 256), tokens(3, 256)))


def llama_blocks_bf16():
    model = GPT(block=LlamaBlock, layers=3).cuda()
    for block in model.blocks:
        block.compile(fullgraph=True)

    def run(x, y):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return model(x, y)

    yield from steps(run, model, same(tokens(3, 256), tokens(3, 256)))


def graph_breaks():
    model = GPT(layers=2).cuda()

    def through(x, y):
        h = model.through(x)
        torch._dynamo.graph_break()
        loss = F.cross_entropy(model.head(h).flatten(0, 1), y.flatten())
        print("", end="")
        return loss * 2

    yield from steps(torch.compile(through), model, same(tokens(3, 256), tokens(3, 256)))


def lengths_that_change():
    model = GPT(layers=2).cuda()
    lengths = (256, 200, 312, 200)
    yield from steps(torch.compile(model), model, lambda i: (tokens(2, lengths[i]), tokens(2, lengths[i])), n=4)


def dynamic_from_the_start():
    model = MLP(192, 768).cuda()
    compiled = torch.compile(model, dynamic=True)
    sizes = (700, 512, 900)
    yield from steps(lambda x: compiled(x).pow(2).mean(), model, lambda i: (noise(sizes[i], 192),))


def compiled_optimizer():
    model = MLP(256, 1024).cuda()
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    step = torch.compile(optimizer.step)
    run = lambda x: compiled(x).pow(2).mean()  # noqa: E731
    yield from steps(run, model, same(noise(2048, 256)), optimizer, step=step)


def compiled_loss_in_chunks():
    model = GPT(layers=1).cuda()

    @torch.compile
    def loss_of(h, weight, y):
        return F.cross_entropy((h @ weight.T).float(), y, reduction="sum")

    def run(x, y):
        h = model.through(x).flatten(0, 1)
        parts = zip(h.chunk(4), y.flatten().chunk(4), strict=True)
        losses = [checkpoints.checkpoint(loss_of, a, model.head.weight, b, use_reentrant=False) for a, b in parts]
        return torch.stack(losses).sum() / y.numel()

    yield from steps(run, model, same(tokens(4, 256), tokens(4, 256)))


def accumulated():
    model = GPT(layers=2).cuda()
    compiled = torch.compile(model)

    def run(x, y):
        compiled(x, y).backward()
        compiled(x, y).backward()
        return compiled(x, y)

    yield from steps(run, model, same(tokens(2, 256), tokens(2, 256)))


def half_frozen():
    model = GPT(layers=3).cuda()
    for block in model.blocks[:2]:
        block.requires_grad_(False)
    trained = [p for p in model.parameters() if p.requires_grad]
    yield from steps(
        torch.compile(model), model, same(tokens(3, 256), tokens(3, 256)), torch.optim.AdamW(trained, fused=True)
    )


def without_gradients():
    model = GPT(layers=3).cuda().eval()
    compiled = torch.compile(model)
    for i, context in enumerate((torch.no_grad, torch.inference_mode, torch.no_grad)):
        with context():
            loss = compiled(tokens(3, 256), tokens(3, 256))
        yield f"forward {i}"
        del loss


def a_function():
    @torch.compile
    def gelu(x):
        return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))

    x = noise(2048, 1000, requires_grad=True)
    for i in range(3):
        y = gelu(gelu(x))
        yield f"forward {i}"
        y.sum().backward()
        yield f"backward {i}"
        del y
        x.grad = None
        yield f"zero_grad {i}"


@torch.library.custom_op("everybyte_compiled::scale", mutates_args=())
def _scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@_scale.register_fake
def _(x, factor):
    return torch.empty_like(x)


def _backward_of_scale(ctx, grad):
    return grad * ctx.factor, None


_scale.register_autograd(
    _backward_of_scale, setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1])
)


def custom_operator():
    model = nn.Sequential(nn.Linear(200, 800), nn.ReLU(), nn.Linear(800, 200)).cuda()
    run = torch.compile(lambda x: _scale(model(_scale(x, 2.0)), 0.5).pow(2).mean())
    yield from steps(run, model, same(noise(1500, 200)))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return grad * (s + x * s * (1 - s))


def autograd_function():
    model = nn.Sequential(nn.Linear(256, 1000), nn.Linear(1000, 256)).cuda()
    run = torch.compile(lambda x: model[1](Doubled.apply(model[0](x))).pow(2).mean(), fullgraph=True)
    yield from steps(run, model, same(noise(1111, 256)))


def odd_sizes():
    model = nn.Sequential(nn.Linear(255, 1021), nn.ReLU(), nn.Linear(1021, 131)).cuda()
    compiled = torch.compile(model)
    yield from steps(lambda x: compiled(x).sum(), model, same(noise(777, 255)))


def checkpointed_block_bf16():
    model = nn.Sequential(Block(256, 4, p=0.1), Block(256, 4, p=0.1)).cuda().bfloat16()

    @torch.compile
    def run(x):
        for block in model:
            x = checkpoints.checkpoint(block, x, use_reentrant=False)
        return x.float().mean()

    yield from steps(run, model, same(noise(4, 300, 256, dtype=torch.bfloat16)))
