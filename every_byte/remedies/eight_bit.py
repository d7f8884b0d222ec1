"""AdamW whose averages take a byte a number: an index into 256 values, and a float32 scale for each 256 of them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch.optim.optimizer import ParamsT

BLOCK = 256
_FEWEST = 4096  # elements of a parameter whose averages are bytes
_DECADES = 7
_IS_SIGNED = {"mean": True, "square": False}
_SMALLEST = 1e-38  # of a scale: what divides is not 0
_AT_ONCE = 1 << 25  # numbers that are floats at once, a multiple of BLOCK


class AdamW8bit(torch.optim.Optimizer):
    """AdamW with two averages of one byte a number, for parameters of 4,096 elements or more; others have float32.

    Of a block of 256 numbers, each is kept as the nearest of 256 values, times the largest of the block. The values
    are denser towards 0, and the same for all: for the average of gradients of either sign, for that of squares not.
    A step makes floats of some numbers at a time, and bytes again.

    Counts: for a parameter of n >= 4,096 elements 2n + 8 ceil(n/256) bytes, for others 8n; and 2,048 for the values.
    Raises: ValueError, PyTorch's own, for an empty list of parameters.
    Source: Dettmers et al. 2021, sections 2 and 3; bitsandbytes counts the same, and does it in one kernel.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})
        device = self.param_groups[0]["params"][0].device
        self.values = {name: _values(is_signed).to(device) for name, is_signed in _IS_SIGNED.items()}

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]  # returns no loss
        """As any optimizer's; a closure is not supported."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step(parameter, parameter.grad, group)

    def _step(self, parameter: torch.Tensor, whole: torch.Tensor, group: dict[str, Any]) -> None:
        state, n = self.state[parameter], parameter.numel()
        if not state:
            state["step"] = 0
            for name, values in self.values.items():
                state.update(_zeros(name, values, parameter))
        state["step"] += 1
        beta1, beta2 = group["betas"]
        corrections = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
        weights, gradients = parameter.view(-1), whole.view(-1)
        for begin in range(0, n, _AT_ONCE):
            part = slice(begin, min(begin + _AT_ONCE, n))
            gradient = gradients[part].float()
            mean = self._read(state, "mean", part).lerp_(gradient, 1 - beta1)
            square = self._read(state, "square", part).mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            self._write(state, "mean", part, mean)
            self._write(state, "square", part, square)
            change = mean / (square / corrections[1]).sqrt_().add_(group["eps"])
            change.mul_(-group["lr"] / corrections[0])
            weights[part].mul_(1 - group["lr"] * group["weight_decay"]).add_(change.to(weights.dtype))

    def _read(self, state: dict[str, Any], name: str, part: slice) -> torch.Tensor:
        """Some numbers of an average, in float32."""
        average: torch.Tensor = state[name][part]
        if f"{name} scales" not in state:
            return average
        return self.values[name][average.int()].mul_(_scales(state, name, part))

    def _write(self, state: dict[str, Any], name: str, part: slice, numbers: torch.Tensor) -> None:
        """These in their place; where they are floats, they have been changed there."""
        if f"{name} scales" not in state:
            return
        blocks = F.pad(numbers, (0, -len(numbers) % BLOCK)).view(-1, BLOCK)
        state[f"{name} scales"][part.start // BLOCK :][: len(blocks)] = blocks.abs().amax(dim=1)
        shares = numbers / _scales(state, name, part).clamp_(min=_SMALLEST)
        values = self.values[name]
        state[name][part] = torch.bucketize(shares, (values[1:] + values[:-1]) / 2, out_int32=True).to(torch.uint8)


def _zeros(name: str, values: torch.Tensor, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    """An average as it begins: bytes that stand for 0, and their scales, or floats where there are few."""
    n, device = parameter.numel(), parameter.device
    if n < _FEWEST:
        return {name: torch.zeros(n, device=device)}
    zero = _IS_SIGNED[name] * len(values) // 2  # where it stands among the values
    scales = torch.zeros(-(-n // BLOCK), device=device)
    return {name: torch.full((n,), zero, dtype=torch.uint8, device=device), f"{name} scales": scales}


def _scales(state: dict[str, Any], name: str, part: slice) -> torch.Tensor:
    """The scale of each of these numbers."""
    of_blocks: torch.Tensor = state[f"{name} scales"][part.start // BLOCK : -(-part.stop // BLOCK)]
    return of_blocks.repeat_interleave(BLOCK)[: part.stop - part.start]


@cache
def _values(is_signed: bool) -> torch.Tensor:
    """256 values from -1, or 0, to 1, 0 among them: by decades, each with twice the values of the one below."""
    values = [0.0, 1.0]
    for decade in range(_DECADES):
        n = 2**decade if is_signed else 2 ** (decade + 1)
        edges = torch.linspace(0.1, 1, n + 1, dtype=torch.float64, device="cpu")
        middles = (edges[:-1] + edges[1:]) / 2 * 10.0 ** (decade - _DECADES + 1)
        values += [*middles.tolist(), *((-middles).tolist() if is_signed else [])]
    return torch.tensor(sorted(values), dtype=torch.float32, device="cpu")
