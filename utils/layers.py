"""The layers that the book takes apart: plain PyTorch modules, with nothing in them that changes what is kept."""

import inspect
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import activation as torch_activations
from torch.types import Device

ActFn: TypeAlias = nn.Module | type[nn.Module] | str
"""An activation, its class or its name: see `make_activation`."""
Run: TypeAlias = Callable[..., torch.Tensor]
"""How a part of a model is run: `run(part, *inputs)`, as by a checkpoint."""
_CHANGES_WIDTH = ("GLU", "MultiheadAttention")  # not y[..., n] -> y[..., n] of one input


def make_activation(act_fn: ActFn, **factory: Any) -> nn.Module:
    """An activation from an instance (taken as it is), a class of `torch.nn`, or that class's name.

    Names ignore case and underscores; a final one asks for the in-place form: "gelu", "LeakyReLU", "leaky_relu_".
    Softmax, LogSoftmax and Softmin made here run over the last dimension. `factory` (device, dtype) reaches those that
    have parameters (PReLU).

    Raises: ValueError for a name that is no activation of torch.nn, for one that changes the width, and for an
            in-place form that does not exist; TypeError for anything else that is no module.
    """
    if isinstance(act_fn, nn.Module):
        _check_width(type(act_fn))
        return act_fn
    inplace = isinstance(act_fn, str) and act_fn.endswith("_")
    cls = _activation_class(act_fn)
    _check_width(cls)
    accepted = inspect.signature(cls).parameters
    if cls is nn.Threshold:
        raise ValueError("act_fn Threshold has no default settings: pass an instance, as nn.Threshold(0.1, 0.0).")
    if inplace and "inplace" not in accepted:
        raise ValueError(
            f"act_fn {cls.__name__} has no in-place form: got {act_fn!r}; try {str(act_fn).rstrip('_')!r}."
        )
    settings = {key: value for key, value in factory.items() if key in accepted}
    settings |= {"inplace": True} if inplace else {}
    return cls(**settings, **({"dim": -1} if "dim" in accepted else {}))


def _activation_class(act_fn: type[nn.Module] | str) -> type[nn.Module]:
    if isinstance(act_fn, type) and issubclass(act_fn, nn.Module):
        return act_fn
    if not isinstance(act_fn, str):
        raise TypeError(f"act_fn must be an activation, its class or its name: got {act_fn!r}; try 'gelu'.")
    known: dict[str, type[nn.Module]] = {
        cls.lower(): getattr(torch_activations, cls) for cls in torch_activations.__all__
    }
    known["identity"] = nn.Identity
    activation = known.get(act_fn.replace("_", "").lower())
    if activation is None:
        names = sorted({c.__name__ for c in known.values()} - {"Threshold", *_CHANGES_WIDTH}, key=str.lower)
        raise ValueError(f"act_fn must be an activation of torch.nn: got {act_fn!r}; one of {', '.join(names)}.")
    return activation


def _check_width(cls: type[nn.Module]) -> None:
    if cls.__name__ in _CHANGES_WIDTH:
        raise ValueError(f"act_fn must keep the width and take one input: got {cls.__name__}; try nn.SiLU().")


def check_positive(**sizes: int) -> None:
    """Raise a ValueError that names the first size that is no positive integer."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} must be a positive integer: got {name}={size!r}.")


def _check_dropout(dropout_prob: float | None) -> None:
    if dropout_prob is not None and not 0 <= dropout_prob < 1:
        raise ValueError(
            f"dropout_prob must lie in [0, 1): got dropout_prob={dropout_prob!r}; None or 0 switches dropout off."
        )


class MLP(nn.Module):
    """The feed-forward layer of a transformer: `up` (Linear), `activation`, `down` (Linear), `dropout`.

    `act_fn` is an activation, its class or its name (see `make_activation`). With a `dropout_prob` of None or 0,
    dropout keeps nothing for backward.

    Shapes: x[..., d] -> h[..., 4d] -> g[..., 4d] -> y[..., d]
    Raises: ValueError if d_model is not a positive integer, and for a dropout_prob outside [0, 1).
    Source: Vaswani et al. 2017, section 3.3.
    Example: MLP(1024, "GELU", device=gpu.device)
    """

    def __init__(
        self,
        d_model: int,
        act_fn: ActFn,
        dropout_prob: float | None = None,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_positive(d_model=d_model)
        _check_dropout(dropout_prob)
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.up = nn.Linear(d_model, 4 * d_model, bias=bias, **factory)
        self.activation = make_activation(act_fn, **factory)
        self.down = nn.Linear(4 * d_model, d_model, bias=bias, **factory)
        self.dropout = nn.Dropout(dropout_prob or 0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.dropout(self.down(self.activation(self.up(x))))
        return y


class Attention(nn.Module):
    """Causal self-attention: `qkv` (Linear), attention of `n_heads` heads, `out` (Linear), `dropout`.

    `kind="sdpa"` calls PyTorch's `scaled_dot_product_attention`, which takes the kernel that suits the GPU and the
    shapes. `kind="explicit"` spells the same out as nanoGPT does: the scores are a tensor, and so are the causal `mask`
    (a buffer of floats for `context_length` positions), the weights and what `weight_dropout` leaves of them. Dropout
    falls on the attention weights and on the output.

    Shapes: x[b, s, d] -> q, k, v[b, a, s, d/a] -> weights[b, a, s, s] (explicit only) -> y[b, s, d]
    Raises: ValueError for sizes that are no positive integers, an n_heads that does not divide d_model, an unknown
            kind, kind="explicit" without a context_length, an x of other dimensions or longer than that, and for a
            dropout_prob outside [0, 1).
    Source: Vaswani et al. 2017, section 3.2; `CausalSelfAttention` of nanoGPT's model.py.
    Example: Attention(1024, 16, device=gpu.device)
    """

    mask: torch.Tensor

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        dropout_prob: float | None = None,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        kind: str = "sdpa",
        context_length: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        _check_heads(d_model, n_heads)
        _check_dropout(dropout_prob)
        if kind not in ("sdpa", "explicit"):
            raise ValueError(f'kind must be "sdpa" or "explicit": got kind={kind!r}.')
        if kind == "explicit" and context_length is None:
            raise ValueError('kind="explicit" needs context_length, the side of its mask: got None; try 1024.')
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.n_heads, self.kind = n_heads, kind
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=bias, **factory)
        self.out = nn.Linear(d_model, d_model, bias=bias, **factory)
        self.weight_dropout = nn.Dropout(dropout_prob or 0.0)
        self.dropout = nn.Dropout(dropout_prob or 0.0)
        if kind == "explicit" and context_length is not None:
            check_positive(context_length=context_length)
            ones = torch.ones(1, 1, context_length, context_length, **factory)
            self.register_buffer(
                "mask", ones.tril_()
            )  # in place: made on a GPU, it takes what it takes when moved there

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() != 3:
            raise ValueError(f"x must be x[b, s, d]: got {x.dim()} dimensions, {tuple(x.shape)}.")
        b, s, _ = x.shape
        q, k, v = (y.view(b, s, self.n_heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=2))
        *weights, y = self._core(q, k, v)  # explicit weights keep their name to the end of forward, as in nanoGPT
        out: torch.Tensor = self.dropout(self.out(y.transpose(1, 2).contiguous().view(b, s, -1)))
        return out

    def _core(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """From q, k and v to y; where attention is explicit, its weights come before y."""
        if self.kind == "explicit":
            weights = self._weights(q, k)
            return weights, weights @ v
        return (self._sdpa(q, k, v),)

    def _sdpa(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        dropout_p = self.weight_dropout.p if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=True)

    def _weights(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        s, context_length = q.size(-2), self.mask.size(-1)
        if s > context_length:
            raise ValueError(f"x may have context_length={context_length} positions at most: got {s}.")
        weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        # One name for all: each stage is let go as soon as the next is there, unless autograd keeps it.
        weights = weights.masked_fill(self.mask[:, :, :s, :s] == 0, float("-inf"))
        weights = F.softmax(weights, dim=-1)
        dropped: torch.Tensor = self.weight_dropout(weights)
        return dropped


def _check_heads(d_model: int, n_heads: int) -> None:
    check_positive(d_model=d_model, n_heads=n_heads)
    if d_model % n_heads:
        divisors = [n for n in range(1, d_model + 1) if d_model % n == 0]
        nearest = [n for n in divisors if n < n_heads][-1:] + [n for n in divisors if n > n_heads][:1]
        raise ValueError(
            f"n_heads must divide d_model: got n_heads={n_heads}, d_model={d_model}; "
            f"nearest: {' or '.join(map(str, nearest))}."
        )


class Block(nn.Module):
    """A pre-norm transformer block: x + `attention`(`norm1`(x)), then the same with `norm2` and `mlp`.

    `act_fn` is an activation, its class or its name (see `make_activation`); `kind` and `context_length` are those of
    `Attention`; `bias` is that of all four Linears and both norms.

    Shapes: x[b, s, d] -> x[b, s, d] (attention) -> y[b, s, d] (mlp)
    Raises: ValueError as `Attention` and `MLP` do.
    Source: Radford et al. 2019, section 2.3.
    Example: Block(1024, 16, "GELU", device=gpu.device)
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        act_fn: ActFn,
        dropout_prob: float | None = None,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        kind: str = "sdpa",
        context_length: int | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        _check_heads(d_model, n_heads)
        factory: dict[str, Any] = {"device": device, "dtype": dtype, "bias": bias}
        self.norm1 = nn.LayerNorm(d_model, **factory)
        self.attention = Attention(d_model, n_heads, dropout_prob, kind=kind, context_length=context_length, **factory)
        self.norm2 = nn.LayerNorm(d_model, **factory)
        self.mlp = MLP(d_model, act_fn, dropout_prob, **factory)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        y: torch.Tensor = x + self.mlp(self.norm2(x))
        return y


class LinearStack(nn.Module):
    """A chain of equal Linears: `first` (with bias), `n_hidden` in `hidden` (without), `last` (with bias).

    `relu=True` puts a ReLU after each hidden Linear. `frozen` is the range of layers that are not trained: 0 is
    `first`, n_hidden + 1 is `last`, so range(1, 201) freezes all 200 hidden ones.

    Shapes: x[..., n_in] -> [..., width] -> ... -> [..., width] -> y[..., n_out]
    Raises: ValueError for a size that is no positive integer (n_hidden may be 0) and for a frozen index that does not
            exist.
    Example: LinearStack(n_hidden=10, relu=True, device=gpu.device)
    """

    def __init__(
        self,
        n_in: int = 100,
        width: int = 100,
        n_out: int = 10,
        n_hidden: int = 200,
        *,
        relu: bool = False,
        frozen: range = range(0),
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_positive(n_in=n_in, width=width, n_out=n_out)
        if n_hidden != 0:
            check_positive(n_hidden=n_hidden)
        if not isinstance(frozen, range):
            raise TypeError(f"frozen must be a range of layers: got {frozen!r}; try range(1, {n_hidden + 1}).")
        outside = [index for index in frozen if index not in range(n_hidden + 2)]
        if outside:
            rule = f"range(0, {n_hidden + 2}), from first to last"
            raise ValueError(f"frozen must lie within {rule}: got {frozen!r}, with {outside[0]}.")
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.first = nn.Linear(n_in, width, **factory)
        self.hidden = nn.ModuleList(nn.Linear(width, width, bias=False, **factory) for _ in range(n_hidden))
        self.last = nn.Linear(width, n_out, **factory)
        self.activation = nn.ReLU() if relu else nn.Identity()
        layers = [self.first, *self.hidden, self.last]
        for index in frozen:
            layers[index].requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for layer in self.hidden:
            x = self.activation(layer(x))
        y: torch.Tensor = self.last(x)
        return y
