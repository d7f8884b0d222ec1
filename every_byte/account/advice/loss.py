"""The head and the loss in chunks: for a language model whose loss is the cross entropy of its head's own logits."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn

from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.simulated import SimulatedGPU

from ..training_step import TrainingStep
from .regions import attribute
from .remedy import Changed, DoesNotApply, Offer, Remedy, with_lines
from .runs import quiet, spec_with_room

CHUNKS = 8
NAME = f"loss in {CHUNKS} chunks"
_PASSED = """
    ToCopyBackward0 ViewBackward0 UnsafeViewBackward0 ReshapeAliasBackward0 AliasBackward0 SliceBackward0 CloneBackward0
    SqueezeBackward0 UnsqueezeBackward0 TransposeBackward0 PermuteBackward0 SelectBackward0
""".split()  # what may lie between the head and the cross entropy: no number of the logits is changed
_IMPORTS = """\
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

head = {head}


def of_a_chunk(h, targets):
    logits = F.linear(h.to(head.weight.dtype), head.weight, head.bias).{dtype}
    return F.cross_entropy(logits, targets, ignore_index=-100, reduction="sum")


def chunked(h, targets):
    chunks = zip(h.chunk({chunks}), targets.chunk({chunks}))
    sums = [checkpoint(of_a_chunk, *chunk, use_reentrant=False) for chunk in chunks]
    return torch.stack(sums).sum() / (targets != -100).sum()


head.forward = lambda h: h  # the model gives what goes into its head
"""
_TRANSFORMERS = """\


def loss_function(logits, labels, **_):
    targets = F.pad(labels, (0, 1), value=-100)[..., 1:].flatten()
    return chunked(logits.flatten(0, -2), targets)


model.loss_function = loss_function"""
_OWN = """
# and in place of F.cross_entropy(logits, targets): chunked(logits, targets)"""


@dataclass(frozen=True)
class Head:
    """The head of a language model, as its path, and whether the loss is a `transformers` model's own."""

    path: str
    is_of_transformers: bool

    @property
    def lines(self) -> str:
        """What one would write."""
        head = "model.get_output_embeddings()" if self.is_of_transformers else attribute("model", self.path)
        dtype = "float()" if self.is_of_transformers else "to(h.dtype)"  # in which each has its cross entropy
        return _IMPORTS.format(head=head, chunks=CHUNKS, dtype=dtype) + (
            _TRANSFORMERS if self.is_of_transformers else _OWN
        )


def chunked_loss(spec: GPUSpec) -> Offer:
    """The logits of an eighth of the rows at a time, made again in backward."""
    note = "the head runs twice; its gradient is added up chunk by chunk. The model no longer returns logits"
    return Remedy(NAME, "loss", partial(_apply, spec), note=note)


def _apply(spec: GPUSpec, step: TrainingStep) -> Changed:
    head = head_of(step, spec)
    lines = head.lines
    if head.is_of_transformers:
        return Changed(with_lines(step, lines), lines)
    return Changed(_with_own_loss(step, head), lines)


def _with_own_loss(step: TrainingStep, head: Head) -> TrainingStep:
    """A step in which F.cross_entropy of the head's input is the chunked one, in the model as in the loss."""
    written = f"{head.lines}\nmodel.__dict__['chunked_loss'] = chunked"
    step = with_lines(step, written)
    make, loss = step.make, step.loss
    made: list[Callable] = []

    def changed(**letters: int) -> nn.Module:
        model = make(**letters)
        chunked = model.__dict__.pop("chunked_loss")
        width = model.get_submodule(head.path).in_features
        in_place = partial(_in_place_of_cross_entropy, chunked, width)
        made[:] = [in_place]
        model.forward = partial(in_place, model.forward)
        return model

    def lossed(output, batch):
        return made[0](loss, output, batch)

    changed.__signature__ = make.__signature__
    return replace(step, make=changed, loss=None if loss is None else lossed)


def _in_place_of_cross_entropy(chunked: Callable, width: int, function: Callable, *args, **kwargs):
    """Calls a function within which F.cross_entropy is the chunked one."""
    whole = nn.functional.cross_entropy

    def cross_entropy(h, targets, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                      label_smoothing=0.0):  # fmt: skip
        if h.shape[-1] != width or h.dim() != 2 or weight is not None or reduction != "mean" or label_smoothing:
            raise DoesNotApply("its cross entropy is not the plain mean over rows of the head's logits")
        targets = targets if ignore_index == -100 else targets.masked_fill(targets == ignore_index, -100)
        nn.functional.cross_entropy = whole
        try:
            return chunked(h, targets)
        finally:
            nn.functional.cross_entropy = cross_entropy

    nn.functional.cross_entropy = cross_entropy
    try:
        return function(*args, **kwargs)
    except RuntimeError as error:
        if "is invalid for input of size" not in str(error):
            raise
        raise DoesNotApply(f"its code says how wide the logits are: {error}") from None
    finally:
        nn.functional.cross_entropy = whole


# where the loss comes from


def head_of(step: TrainingStep, spec: GPUSpec) -> Head:
    """The Linear whose output is all that the loss is made of, by one cross entropy.

    Raises: DoesNotApply where there is none, with the reason.
    """
    found: list[tuple[str, nn.Module, torch.Tensor]] = []

    def see(module: nn.Module, _args, output) -> None:
        found.append((names[module], module, output))

    model = step._model()
    names = {module: path for path, module in model.named_modules() if isinstance(module, nn.Linear)}
    for module in names:
        module.register_forward_hook(see)
    with quiet(), SimulatedGPU(spec_with_room(spec), cuda=True):
        loss = step.loss_on(model)
        made_by = _source(loss.grad_fn)
        heads = [(path, module, output) for path, module, output in found if output.grad_fn in made_by]
        if not heads:
            raise DoesNotApply("the loss is not the cross entropy of what a Linear returns")
        path, module, output = heads[-1]
        if sum(one is module for _, one, _ in found) > 1:
            raise DoesNotApply(f"{path} is called more than once in a step")
        if output.dim() < 3:
            raise DoesNotApply(f"{path} makes one row for each example: there is nothing to divide")
    return Head(path, _is_of_transformers(model, module))


def _source(node) -> list:
    """The nodes that a loss comes from, from its cross entropy to the product of the head.

    Raises: DoesNotApply for a loss of another kind.
    """
    if node is None or node.name() != "NllLossBackward0":
        name = "nothing" if node is None else node.name().removesuffix("Backward0")
        raise DoesNotApply(f"the loss is not a cross entropy: it comes from {name}")
    node, way = _before(node), []
    if node.name() != "LogSoftmaxBackward0":
        raise DoesNotApply("the loss is not a cross entropy of logits")
    node = _before(node)
    while node.name() in _PASSED:
        way.append(node)
        node = _before(node)
    if node.name() not in ("MmBackward0", "AddmmBackward0", "LinearBackward0", "BmmBackward0"):
        what = node.name().removesuffix("Backward0")
        raise DoesNotApply(f"between the head and the cross entropy lies {what}")
    return [*way, node]


def _before(node):
    return node.next_functions[0][0]


def _is_of_transformers(model: nn.Module, head: nn.Module) -> bool:
    function = getattr(model, "loss_function", None)
    if getattr(function, "__name__", "") != "ForCausalLMLoss":
        return False
    return model.get_output_embeddings() is head
