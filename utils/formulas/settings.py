"""What a training step of a GPT depends on beside its sizes, for the closed forms."""

from dataclasses import dataclass

from every_byte.gpu.memory.specs import find_spec

from .block import ATTENTIONS
from .mlp import is_on

PRECISIONS = ("autocast", "float32", "bfloat16", "float16")
STATES = {"SGD": 0, "AdamW, fused": 2, "AdamW, foreach": 2, "AdamW, loop": 2}  # numbers for each parameter
OPTIMIZERS = tuple(STATES)
STEP_BYTES = 4  # of the count of steps, which the fused optimizer keeps on the GPU, one for each parameter tensor
REGIONS = ("none", "every block", "every k-th block", "k segments", "sqrt(L) segments", "attention only")
POLICIES = ("none", "keep matmuls", "keep compute-intensive")
A100_WORKSPACE_BYTES = find_spec("a100-80gb").cublas_workspace_bytes

_KNOWN = {
    "precision": PRECISIONS,
    "attention": ATTENTIONS,
    "optimizer": OPTIMIZERS,
    "regions": REGIONS,
    "policy": POLICIES,
}


class InPrecision:
    """What follows from a `precision`: that of weights and activations, or float32 weights under autocast."""

    precision: str

    @property
    def is_autocast(self) -> bool:
        return self.precision == "autocast"

    @property
    def weight_bytes(self) -> int:
        """Of a number of the weights, the residual stream and the loss."""
        return 4 if self.precision in ("autocast", "float32") else 2

    @property
    def element_bytes(self) -> int:
        """Of a number that goes into a product of matrices, and of the logits."""
        return 4 if self.precision == "float32" else 2


@dataclass(frozen=True)
class GPTSettings(InPrecision):
    """What a training step of a `GPT` depends on beside its sizes.

    `precision` is that of weights and activations, or "autocast": float32 weights under autocast to a half type.
    `attention` is the kernel that runs ("flash", "efficient", "cudnn") or "explicit". `holds_logits` says that the
    program still has the logits in backward; `holds_gradients` that it has gradients before it, as with
    `set_to_none=False` or in all micro-batches but the first; `divides_loss` that it divides the loss by their number.
    `regions` are those of utils.models.regions; `policy` says what a selective checkpoint of them keeps: "keep matmuls"
    and "keep compute-intensive" stand for the lists MATMULS and COMPUTE_INTENSIVE of every_byte.remedies.policies.
    The step is not the first: optimizer state is there, and so are both cuBLAS workspaces, of `workspace_bytes` each: a
    number or a letter.

    Raises: ValueError for a precision, an attention, an optimizer, regions or a policy that is none of PRECISIONS,
            ATTENTIONS, OPTIMIZERS, REGIONS, POLICIES, for a policy without regions, and for a dropout outside [0, 1).
    """

    precision: str = "autocast"
    attention: str = "flash"
    bias: bool = False
    dropout: float = 0.0
    optimizer: str = "AdamW, fused"
    holds_logits: bool = True
    holds_gradients: bool = False
    workspace_bytes: int | str = A100_WORKSPACE_BYTES
    divides_loss: bool = False
    regions: str = "none"
    policy: str = "none"

    def __post_init__(self) -> None:
        for name, known in _KNOWN.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}: got {name}={getattr(self, name)!r}.")
        if self.policy != "none" and self.regions == "none":
            raise ValueError(f"a policy needs regions: got policy={self.policy!r} with regions='none'.")
        is_on(self.dropout)
