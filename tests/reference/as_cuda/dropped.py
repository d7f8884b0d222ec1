"""Programs that drop all they have made: what the GPU still holds after each, once Python has collected garbage."""

import copy
import gc
import weakref
from functools import wraps

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


def dropped(program):
    """The program, which tells how many bytes it has left: 0, but where PyTorch itself keeps something."""

    @wraps(program)
    def told():
        nn.Identity()(torch.ones(1, device="cuda"))  # a later call can let go of what an earlier one has left
        gc.collect()
        before = torch.cuda.memory_allocated()
        program()
        gc.collect()
        yield torch.cuda.memory_allocated() - before

    return told


def _net():
    layers = nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(128), nn.Linear(128, 16)
    return nn.Sequential(*layers).to("cuda")


def _x(*shape, **options):
    return torch.randn(*(shape or (8, 64)), device="cuda", **options)


def _raises(error):
    """A hook that raises it."""

    def hook(*_args):
        raise error

    return hook


def _caught(call, error=KeyboardInterrupt):
    try:
        call()
    except error as caught:
        return caught


@dropped
def trained():
    model = _net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model(_x()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@dropped
def hooks_of_modules_and_tensors():
    model, kept = _net(), []
    model[0].register_forward_hook(lambda _module, _args, out: kept.append(out))
    model[0].weight.register_hook(lambda gradient: kept.append(gradient))
    model[1].register_full_backward_hook(lambda *seen: kept.append(seen))
    model(_x()).sum().backward()


@dropped
def checkpoints():
    model, x = _net(), _x(requires_grad=True)
    for use_reentrant in (True, False):
        model[3:](checkpoint(model[:3], x, use_reentrant=use_reentrant)).sum().backward()
        _y = model[3:](checkpoint(model[:3], x, use_reentrant=use_reentrant))


@dropped
def autocast_and_scaler():
    model = _net()
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), torch.amp.GradScaler("cuda")
    with torch.autocast("cuda", torch.float16):
        loss = model(_x()).float().square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


@dropped
def errors_caught():
    model = _net()
    _kept = [_caught(lambda: model(_x(8, 63)), RuntimeError), _caught(lambda: _x(1 << 50), torch.OutOfMemoryError)]
    again = [0]

    def fails_when_run_again(x):
        again[0] += 1
        if again[0] > 1:
            raise KeyError("again")
        return model(x)

    y = checkpoint(fails_when_run_again, _x(requires_grad=True), use_reentrant=False).sum()
    _caught(y.backward, KeyError)


@dropped
def a_forward_interrupted():
    model = _net()
    model[4].register_forward_pre_hook(_raises(KeyboardInterrupt()))
    _caught(lambda: model(_x()))


@dropped
def a_forward_ended_by_exit():
    model = nn.Sequential(nn.Linear(64, 64).cuda(), _net())
    model[1][2].register_forward_pre_hook(_raises(SystemExit(0)))
    _caught(lambda: model(_x()), SystemExit)


@dropped
def a_backward_interrupted():
    model = _net()
    model[2].register_full_backward_hook(_raises(KeyboardInterrupt()))
    _caught(model(_x()).sum().backward)
    _caught(lambda: torch.autograd.grad(model(_x()).sum(), list(model.parameters())))


@dropped
def a_step_interrupted():
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def closure():
        model(_x()).sum().backward()
        raise KeyboardInterrupt

    _caught(lambda: optimizer.step(closure))


@dropped
def a_checkpoint_interrupted():
    for use_reentrant in (True, False):
        model, again = _net(), [0]

        def interrupted(x, model=model, again=again):
            again[0] += 1
            y = model(x)
            if again[0] > 1:
                raise KeyboardInterrupt
            return y

        _caught(checkpoint(interrupted, _x(requires_grad=True), use_reentrant=use_reentrant).sum().backward)


@dropped
def generators():
    model = _net()

    def outputs():
        while True:
            yield model(_x())

    started = outputs()
    next(started), next(started)


@dropped
def cycles():
    model = _net()
    model.itself, model.last = [model], model(_x())
    model.last.owner = model
    model.apply(lambda part: setattr(part, "root", [model]))


@dropped
def nodes_kept():
    y, nodes = _net()(_x()), []
    node = y.grad_fn
    while node is not None:
        nodes.append(node)
        node = next((following for following, _ in node.next_functions if following is not None), None)
    nodes[1].metadata["y"] = y


@dropped
def gradients_of_gradients():
    x = _x(64, 64, requires_grad=True)
    (gradient,) = torch.autograd.grad((x.tanh() @ x).sum(), x, create_graph=True)
    gradient.square().sum().backward()
    torch.autograd.grad(x.tanh().sum(), x, create_graph=True)


@dropped
def hooks_of_saved_tensors():
    model, kept = _net(), []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        _y = model(_x())
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        z = model(_x())
    z.sum().backward()


@dropped
def weak_references():
    model = _net()
    finalized = weakref.finalize(model, list)
    by_module = weakref.WeakKeyDictionary({model: model[0].weight})
    return finalized, by_module


@dropped
def values_that_are_known():
    table, rows = torch.zeros(100, 100, device="cuda"), torch.arange(100, device="cuda")
    _kept = rows.tolist(), rows > 3, F.embedding(rows, table), table[rows]
    _copy = torch.tensor([1.0, 2.0] * 500).to("cuda").cpu()


@dropped
def copies():
    model = _net()
    another = copy.deepcopy(model)
    another.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters())
    model(_x()).sum().backward()
    optimizer.step()
    torch.optim.AdamW(model.parameters()).load_state_dict(copy.deepcopy(optimizer.state_dict()))


@dropped
def loaders():
    model = _net()
    for (x,) in DataLoader(TensorDataset(torch.randn(16, 64)), batch_size=4, pin_memory=True):
        model(x.to("cuda", non_blocking=True))
        break


@dropped
def functions_and_samples():
    model = _net().eval()
    weights = dict(model.named_parameters())
    torch.func.grad(lambda w: torch.func.functional_call(model, w, _x()).sum())(weights)
    torch.func.vmap(lambda x: torch.func.functional_call(model, weights, x))(_x())


@dropped
def modes():
    class Seen(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.last = args
            return function(*args, **(kwargs or {}))

    with Seen():
        _net()(_x()).sum().backward()
