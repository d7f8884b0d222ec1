"""Every activation of torch.nn that keeps the width and needs one input, in each form that it has.

The tests of the formulas and the recording of what CUDA keeps go through the same list.
"""

import inspect
from collections.abc import Callable

from torch import nn
from torch.nn.modules import activation as torch_activations

OTHERS = {"GLU": "halves the width", "MultiheadAttention": "needs three inputs"}


def variants() -> dict[str, tuple[str, Callable[[], nn.Module]]]:
    """Label -> (the name a formula knows it by, a function that makes one)."""
    found = {"Identity": ("Identity", nn.Identity)}
    for name in torch_activations.__all__:
        if name in OTHERS:
            continue
        cls = getattr(torch_activations, name)
        accepted = inspect.signature(cls).parameters
        settings = {"dim": -1} if "dim" in accepted else {}
        if name == "Threshold":
            settings = {"threshold": 0.1, "value": -0.5}
        found[name] = (name, _maker(cls, settings))
        if "inplace" in accepted:
            found[f"{name}(inplace=True)"] = (f"{name}_", _maker(cls, settings | {"inplace": True}))
    found["GELU(approximate='tanh')"] = ("GELU", _maker(nn.GELU, {"approximate": "tanh"}))
    found["Softmax(dim=1)"] = ("Softmax", _maker(nn.Softmax, {"dim": 1}))
    return found


def _maker(cls: type, settings: dict) -> Callable[[], nn.Module]:
    return lambda: cls(**settings)
