"""The closed form of a training step: what a stack of Linears holds at the end of each phase, category by category."""

from .formulas import Formula, Term

CUBLAS_WORKSPACE_BYTES = 8_519_680  # of an A100-class GPU, for each of the two threads that multiply matrices

_WEIGHT, _BIAS = "blocks(4*w*w)", "blocks(4*w)"
_LAST_WEIGHT, _LAST_BIAS = "blocks(4*10*w)", "blocks(4*10)"
_FIRST, _LAST = f"({_WEIGHT} + {_BIAS})", f"({_LAST_WEIGHT} + {_LAST_BIAS})"

FROZEN = ("none", "the first f", "the last f", "all hidden")
OPTIMIZERS = ("SGD", "SGD with momentum", "Adam", "Adam, fused")

# Of the L + 2 layers of a LinearStack: the parameters that are trained in bytes, how many parameters these are, and how
# many of the inputs of the layers behind the first are kept, without and with a ReLU behind each hidden layer.
_TRAINED = {
    "none": (f"{_FIRST} + L*{_WEIGHT} + {_LAST}", "L + 4", "L + 1", "L + 1"),
    "the first f": (f"(L + 1 - f)*{_WEIGHT} + {_LAST}", "L + 3 - f", "L + 2 - f", "L + 2 - f"),
    "the last f": (f"{_FIRST} + (L + 1 - f)*{_WEIGHT}", "L + 3 - f", "L + 1 - f", "L + 1"),
    "all hidden": (f"{_FIRST} + {_LAST}", "4", "1", "L"),
}
_STATES = {"SGD": 0, "SGD with momentum": 1, "Adam": 2, "Adam, fused": 2}


def stack_phases(*, frozen: str = "none", relu: bool = False, optimizer: str = "Adam") -> dict[str, Formula]:
    """What training a `LinearStack` holds on an A100 at the end of each phase of an iteration that is not the first.

    The stack has L hidden layers of width w, an input of that width and an output of 10, in float32; b is the batch and
    f, from 1 to L, the number of frozen layers where `frozen` is "the first f" or "the last f".

    Shapes: x[b, w] -> [b, w] (L + 1 times) -> y[b, 10]
    Counts: whole blocks of 512 bytes; exact while each tensor stays below 1 MiB, where the allocator splits to the
            block. Not the temporaries that come and go within a phase.
    Unit:   bytes.
    Raises: ValueError for a frozen or an optimizer that is none of FROZEN, OPTIMIZERS.
    Source: held to the simulated GPU, and so to the recorded chains, by tests/test_phase_formulas.py.
    """
    for name, value, known in (("frozen", frozen, FROZEN), ("optimizer", optimizer, OPTIMIZERS)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}: got {name}={value!r}.")
    trained, n_trained, kept, kept_with_relu = _TRAINED[frozen]
    state = f"{_STATES[optimizer]}*({trained})" + (f" + 512*({n_trained})" if optimizer.endswith("fused") else "")
    parameters = _term("parameters", f"{_FIRST} + L*{_WEIGHT} + {_LAST}", "the model")
    gradients = _term("gradients", trained, "one for each trained parameter")
    always = [
        parameters,
        *([_term("optimizer state", state, "made by the first step")] if optimizer != "SGD" else []),
        _term("cuBLAS workspace", f"2*{CUBLAS_WORKSPACE_BYTES}", "one of each thread: forward, backward"),
        _term("loss", "512", "4 bytes, in a block"),
    ]
    kept_inputs = [
        *([_term("input", "blocks(4*b*w)", "weight gradient of the first layer")] if frozen != "the first f" else []),
        _term("activations", f"({kept_with_relu if relu else kept})*blocks(4*b*w)", "inputs of the layers behind"),
    ]
    phases = {
        "model to device": [parameters],
        "forward": [*always, *kept_inputs],
        "backward": [*always, gradients],
        "step": [*always, gradients],
        "zero_grad": always,
    }
    return {name: Formula(f"after {name}", tuple(terms)) for name, terms in phases.items()}


def _term(name: str, n_bytes: str, why: str) -> Term:
    return Term(name, n_bytes, 1, (), why)
