"""Draws random programs of factories, views, writes in place, comparisons and reductions, done on two devices."""

import random

import torch

INTEGERS = (torch.int64, torch.int32, torch.uint8, torch.bool)
DTYPES = (*INTEGERS, torch.float32, torch.float64)
MOST_PAIRS, MOST_ELEMENTS = 24, 4096  # for a program of a hundred steps to take a fraction of a second


class Pair:
    """The same tensors on the CPU and on the GPU, and the operations that are done to both."""

    def __init__(self, seed: int, device: torch.device) -> None:
        self.draw, self.devices = random.Random(seed), (torch.device("cpu"), device)
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

    def pick(self, condition=lambda x: True):
        """Any pair of whose tensor on the CPU this is true; None if there is none."""
        found = [pair for pair in self.pairs if condition(pair[0])]
        return self.draw.choice(found) if found else None

    def add(self, make) -> None:
        """A new pair, made on each device. Of too large tensors, and of all but the last ones, none is kept."""
        made = [make(device) for device in self.devices]
        if made[0].numel() <= MOST_ELEMENTS:
            self.pairs.append(tuple(made))
            del self.pairs[:-MOST_PAIRS]

    def each(self, function, *pairs) -> None:
        """A new pair, of the function of tensors; what the CPU refuses, or a card for the type, is left out."""
        try:
            first = function(*(pair[0] for pair in pairs))
        except (RuntimeError, IndexError, TypeError, NotImplementedError):
            return
        if has_a_kernel(function, *(pair[1] for pair in pairs)):
            self.pairs.append((first, function(*(pair[1] for pair in pairs))))
        del self.pairs[:-MOST_PAIRS]


def has_a_kernel(function, *tensors: torch.Tensor) -> bool:
    """Whether a card has one of each operator for these types of numbers: tried on copies."""
    try:
        function(*(x.clone() for x in tensors))
    except NotImplementedError as error:
        if "not implemented for '" in str(error):
            return False
        raise
    return True


def factory(pair: Pair) -> None:
    """Tensors of numbers that the host knows."""
    draw = pair.draw
    shape, dtype = [draw.randint(1, 4) for _ in range(draw.randint(0, 3))], draw.choice(DTYPES)
    number, n = draw.randint(0, 3), draw.randint(1, 9)
    numbers = [draw.randint(0, 5) for _ in range(n)]
    makers = (
        lambda d: torch.zeros(shape, dtype=dtype, device=d),
        lambda d: torch.ones(shape, dtype=dtype, device=d),
        lambda d: torch.full(shape, number, dtype=dtype, device=d),
        lambda d: torch.arange(number, number + n, device=d),
        lambda d: torch.arange(number, number + n, 0.5, device=d),
        lambda d: torch.eye(n, dtype=dtype, device=d),
        lambda d: torch.linspace(0, number, n, device=d),
        lambda d: torch.tensor(numbers, dtype=dtype, device=d),
        lambda d: torch.tensor(numbers, dtype=dtype).to(d),
        lambda d: torch.ones(n, n, dtype=dtype, device=d).tril(number - 1),
        lambda d: torch.empty(shape, dtype=dtype, device=d).fill_(number),
        lambda d: torch.zeros(shape, dtype=dtype, device=d).copy_(torch.full(shape, number)),
        lambda d: torch.empty(0, dtype=torch.int64, device=d).new_full(shape, number),
    )
    pair.add(draw.choice(makers))


def view(pair: Pair) -> None:
    """Another tensor of the same storage."""
    draw, chosen = pair.draw, pair.pick(lambda x: x.dim() > 0)
    if chosen is None:
        return
    dim = draw.randrange(chosen[0].dim())
    n = chosen[0].shape[dim]
    at, to, step = draw.randrange(n + 1), draw.randrange(n + 1), draw.randint(1, 2)
    views = (
        lambda x: x.select(dim, min(at, n - 1)),
        lambda x: x.narrow(dim, min(at, to), abs(at - to)),
        lambda x: x.transpose(0, dim),
        lambda x: x.flatten(),
        lambda x: x.unsqueeze(dim),
        lambda x: x[::step],
        lambda x: x[None].expand(3, *x.shape),
        lambda x: x.unfold(dim, 1 + n // 2, step),
        lambda x: x.diagonal(0, 0, -1) if x.dim() > 1 else x[..., None],
        lambda x: x.view(torch.uint8) if x.dtype is torch.int64 else x.detach(),
        lambda x: x.split(1 + n // 2, dim)[-1],
        lambda x: x.as_strided((n,), (1,)) if x.is_contiguous() else x.movedim(0, -1),
    )
    pair.each(draw.choice(views), chosen)


def overlaps(x: torch.Tensor) -> bool:
    """Whether two elements lie in one place: what is written there is not defined."""
    reach = 1 + sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    return len(torch.arange(reach).as_strided(x.shape, x.stride()).unique()) < x.numel()


def write(pair: Pair) -> None:
    """A change in place, which all views of the storage see."""
    draw = pair.draw
    chosen = pair.pick()
    other, mask = pair.pick(), pair.pick(lambda x: x.dtype is torch.bool)
    index = pair.pick(lambda x: x.dtype is torch.int64 and x.dim() == 1 and bool((x < 2).all()))
    if chosen is None or overlaps(chosen[0]):
        return
    number = draw.randint(0, 3)
    writes = [
        lambda x, y: x.add_(number),
        lambda x, y: x.mul_(number),
        lambda x, y: x.zero_(),
        lambda x, y: x.fill_(number),
        lambda x, y: x.copy_(y.clone()),
        lambda x, y: x.logical_not_(),
        lambda x, y: x.clamp_(max=number),
        lambda x, y: x.add_(y.clone()),
        lambda x, y: x.__setitem__(Ellipsis, number),
        lambda x, y: x.cumsum_(0),
        lambda x, y: x.bitwise_or_(y.clone()),
        lambda x, y: x.t_().t_(),
        lambda x, y: x.tril_(),
        lambda x, y: x.eq_(number),
        lambda x, y: torch.add(x.clone(), number, out=x),
        lambda x, y: x[:1].copy_(x[-1:].clone()),
        lambda x, y: x.data.add_(number),
        lambda x, y: x.set_(x.clone()),
    ]
    change = draw.choice(writes)
    if mask is not None and draw.random() < 0.2:
        change, other = lambda x, m: x.masked_fill_(m.clone(), number), mask
    elif index is not None and draw.random() < 0.2:
        change, other = lambda x, i: x.index_fill_(0, i.clone(), number), index
    try:
        change(chosen[0].clone(), other[0])  # what fails half way leaves traces
    except (RuntimeError, IndexError, TypeError):
        return
    if has_a_kernel(change, chosen[1], other[1]):
        pair.each(lambda x, y: (change(x, y), x)[1], chosen, other)


def compute(pair: Pair) -> None:
    """New tensors of one or two others."""
    draw, x, y = pair.draw, pair.pick(), pair.pick()
    number = draw.randint(0, 3)
    functions = (
        lambda x, y: x + y,
        lambda x, y: x * y,
        lambda x, y: x == y,
        lambda x, y: x <= number,
        lambda x, y: x & y,
        lambda x, y: x | y,
        lambda x, y: ~x,
        lambda x, y: x != number,
        lambda x, y: x.sum(),
        lambda x, y: x.all(-1),
        lambda x, y: x.any(),
        lambda x, y: x.amax(0),
        lambda x, y: x.argmax(-1),
        lambda x, y: x.cumsum(-1),
        lambda x, y: x.to(torch.int32),
        lambda x, y: x.bool(),
        lambda x, y: x.float(),
        lambda x, y: x.long(),
        lambda x, y: torch.cat([x, y], -1),
        lambda x, y: torch.stack([x, y]),
        lambda x, y: torch.where(x.bool(), y, number),
        lambda x, y: x.masked_fill(y, number),
        lambda x, y: x.flip(0),
        lambda x, y: x.repeat(2),
        lambda x, y: x.sort(-1)[0],
        lambda x, y: x.sort(-1, stable=True)[1],
        lambda x, y: x.topk(1)[0],
        lambda x, y: x.min(0)[0],
        lambda x, y: x.clone(),
        lambda x, y: x // 2,
        lambda x, y: x % 3,
        lambda x, y: x - 1,
        lambda x, y: 1 - x,
        lambda x, y: x.logical_and(y),
        lambda x, y: x.index_select(0, y),
        lambda x, y: x[y.reshape(-1)],
        lambda x, y: x.gather(-1, y),
        lambda x, y: x.roll(1),
        lambda x, y: x.count_nonzero(),
        lambda x, y: x.diff(),
        lambda x, y: x.clamp(1, 2),
        lambda x, y: x.ne(y).any(),
        lambda x, y: torch.maximum(x, y),
        lambda x, y: torch.isin(x, y),
        lambda x, y: x.tril(),
        lambda x, y: x.contiguous(),
        lambda x, y: torch.nn.functional.pad(x, (1, 1)),
        lambda x, y: torch.ones_like(x),
        lambda x, y: torch.full_like(x, number),
        lambda x, y: x.new_zeros(3),
        lambda x, y: x.prod(),
        lambda x, y: x.aminmax()[1],
        lambda x, y: x.scatter(0, y, number),
        lambda x, y: x.scatter_add(0, y, x),
        lambda x, y: x.nonzero(),
        lambda x, y: x.unique(),
        lambda x, y: x.masked_select(y),
        lambda x, y: x.bincount(),
        lambda x, y: torch.searchsorted(x.sort()[0], y),
        lambda x, y: +x,
    )
    if x is not None:
        pair.each(draw.choice(functions), x, y)
