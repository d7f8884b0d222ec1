"""The closed form of a training step: what a stack of Linears holds at the end of each phase, category by category."""

from every_byte.formula.formula import Formula, Term

from .settings import A100_WORKSPACE_BYTES

# Of the L + 2 layers of a LinearStack: the parameters that are trained in bytes, how many parameters these are, and how
# many of the inputs of the layers after the first are kept, without and with a ReLU after each hidden layer.
_FIRST, _LAST = "blocks(4*n_in*d) + blocks(4*d)", "blocks(4*n_out*d) + blocks(4*n_out)"
_EVERY = f"L*blocks(4*d**2) + {_FIRST} + {_LAST}"
_TRAINED = {
    "none": (_EVERY, "L + 4", "L + 1", "L + 1"),
    "the first f": (f"(L + 1 - f)*blocks(4*d**2) + {_LAST}", "L + 3 - f", "L + 2 - f", "L + 2 - f"),
    "the last f": (f"(L + 1 - f)*blocks(4*d**2) + {_FIRST}", "L + 3 - f", "L + 1 - f", "L + 1"),
    "all hidden": (f"{_FIRST} + {_LAST}", "4", "1", "L"),
}
_STATES = {"SGD with momentum": 1, "Adam": 2, "Adam, fused": 2}  # numbers for each parameter; SGD has no state
WITH_F = ("the first f", "the last f")
FROZEN, OPTIMIZERS = tuple(_TRAINED), ("SGD", *_STATES)


def stack_phases(
    *,
    frozen: str = "none",
    relu: bool = False,
    optimizer: str = "Adam",
    workspace_bytes: int | str = A100_WORKSPACE_BYTES,
) -> dict[str, Formula]:
    """What training a `LinearStack` holds on a GPU after each phase of a steady iteration, and at two moments before.

    The moments are "model to device" and the end of "iteration 1"; the phases, the same in all later iterations, are
    "forward", "backward", "step" and "zero_grad".

    The stack has L hidden layers of width d, n_in inputs and n_out outputs, in float32; b is the batch and f, from 1 to
    L, the number of frozen layers where `frozen` is "the first f" or "the last f". `workspace_bytes` is the cuBLAS
    workspace of the GPU, an A100's unless given, or a letter for it: "W".

    Shapes: x[b, n_in] -> [b, d] (L + 1 times) -> y[b, n_out]
    Counts: whole blocks of 512 bytes; exact while no tensor is above 1 MiB, where the allocator splits to the
            block. Not the temporaries that come and go within a phase.
    Unit:   bytes.
    Raises: ValueError for a frozen or an optimizer that is none of FROZEN, OPTIMIZERS.
    Source: held to the simulated GPU, and so to the recorded chains, by tests/formulas/test_phases.py.
    """
    _check("frozen", frozen, FROZEN)
    _check("optimizer", optimizer, OPTIMIZERS)
    trained, n_trained, kept, kept_with_relu = _TRAINED[frozen]
    counts = f" + 512*({n_trained})" if optimizer.endswith("fused") else ""
    state = f"{_STATES[optimizer]}*({trained}){counts}" if optimizer in _STATES else ""
    parameters = _term("parameters", _EVERY, "the model")
    gradients = _term("gradients", trained, "one for each trained parameter")
    always = [
        parameters,
        *([_term("optimizer state", state, "made by the first step")] if state else []),
        _term("cuBLAS workspace", f"2*{workspace_bytes}", "one for each thread: forward, backward"),
        _term("loss", "512", "4 bytes, in a block"),
    ]
    later = _term("activations", f"({kept_with_relu if relu else kept})*blocks(4*b*d)", "inputs of the later layers")
    batch = _term("input", "blocks(4*b*n_in)", "weight gradient of the first layer")
    kept_inputs = [later] if frozen == "the first f" else [batch, later]
    phases = {
        "model to device": [parameters],
        "iteration 1": always,
        "forward": [*always, *kept_inputs],
        "backward": [*always, gradients],
        "step": [*always, gradients],
        "zero_grad": always,
    }
    return {name: Formula(f"after {name}", tuple(terms)) for name, terms in phases.items()}


def frozen_layers(frozen: str, *, L: int, f: int) -> range:
    """The layers that a name of FROZEN stands for, as `LinearStack` takes them: 0 is the first, L + 1 the last.

    Raises: ValueError for an f that is not from 1 to L where f plays a part, and for an unknown name.
    """
    _check("frozen", frozen, FROZEN)
    if frozen in WITH_F and not 1 <= f <= L:
        raise ValueError(
            f"f, the number of frozen layers, must be from 1 to L: got f={f}, L={L}; nearest: {min(max(f, 1), L)}."
        )
    return {
        "none": range(0),
        "the first f": range(f),
        "the last f": range(L + 2 - f, L + 2),
        "all hidden": range(1, L + 1),
    }[frozen]


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}: got {name}={value!r}.")


def _term(name: str, n_bytes: str, why: str) -> Term:
    return Term(name, n_bytes, 1, (), why)
