"""The head and the loss in chunks: for a language model whose loss is the cross entropy of its head's own logits."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn

from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.simulated import SimulatedGPU
from every_byte.step.letters import with_signature
from every_byte.step.training_step import TrainingStep

from .cross_entropy import NOT_PLAIN, Call, CrossEntropies, InPlace
from .regions import attribute
from .remedy import Changed, DoesNotApply, Offer, Remedy, with_lines
from .runs import quiet, spec_with_room

CHUNKS = 8
_NO_TARGET = -100  # of F.cross_entropy, where nothing else is said
NAME = f"loss in {CHUNKS} chunks"
NOTE = "the head runs twice; its gradient is added up chunk by chunk. The model no longer returns logits"
_PASSED = """
    ToCopyBackward0 ViewBackward0 UnsafeViewBackward0 ReshapeAliasBackward0 AliasBackward0 SliceBackward0 CloneBackward0
    SqueezeBackward0 UnsqueezeBackward0 TransposeBackward0 PermuteBackward0 SelectBackward0
""".split()  # what may lie between the head and the cross entropy: no number of the logits is changed
_CHUNKED = """\
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

head = {head}


def of_a_chunk(h, targets):
    logits = F.linear(h.to(head.weight.dtype), head.weight, head.bias).{dtype}
    return F.cross_entropy(logits, targets, ignore_index={ignored}, reduction="sum")


def chunked(h, targets{n_given}):
    chunks = zip(h.chunk({chunks}), targets.chunk({chunks}))
    sums = [checkpoint(of_a_chunk, *chunk, use_reentrant=False) for chunk in chunks]
    return torch.stack(sums).sum() / {n}


head.forward = lambda h: h  # the model gives what goes into its head
"""
_TRANSFORMERS = """\


def loss_function(logits, labels, vocab_size=None, num_items_in_batch=None, ignore_index=None, shift_labels=None, **_):
    if shift_labels is None:
        shift_labels = F.pad(labels, (0, 1), value={ignored})[..., 1:].flatten()
    return chunked(logits.flatten(0, -2), shift_labels.flatten().to(logits.device), num_items_in_batch)


model.loss_function = loss_function"""
_OWN = """
# and in place of F.cross_entropy(logits, targets{also}): chunked(logits, targets)"""


@dataclass(frozen=True)
class Head:
    """The head of a language model, as its path, and how wide what goes into it is.

    `is_of_transformers`: the loss is a `transformers` model's own. `ignore_index` marks a row that has no target.
    """

    path: str
    width: int
    is_of_transformers: bool
    ignore_index: int

    @property
    def lines(self) -> str:
        """What one would write."""
        ignored, n = self.ignore_index, f"(targets != {self.ignore_index}).sum()"
        if self.is_of_transformers:
            written = _CHUNKED.format(
                head="model.get_output_embeddings()", chunks=CHUNKS, dtype="float()", ignored=ignored,
                n_given=", n=None", n=f"({n} if n is None else n)",
            )  # fmt: skip
            return written + _TRANSFORMERS.format(ignored=ignored)
        written = _CHUNKED.format(
            head=attribute("model", self.path), chunks=CHUNKS, dtype="to(h.dtype)", ignored=ignored, n_given="", n=n
        )  # each has its cross entropy in the type of what comes to the head
        return written + _OWN.format(also="" if ignored == _NO_TARGET else f", ignore_index={ignored}")


def chunked_loss(spec: GPUSpec) -> Offer:
    """The logits of an eighth of the rows at a time, made again in backward."""
    return Remedy(NAME, "loss", partial(_apply, spec), note=NOTE)


def _apply(spec: GPUSpec, step: TrainingStep) -> Changed:
    head = head_of(step, spec)
    written = with_lines(step, f"{head.lines}\nmodel.__dict__['names'] = globals()")
    width = 0 if head.is_of_transformers else head.width
    in_place, make = InPlace(step.loss, width, head.ignore_index), written.make

    def changed(**letters: int) -> nn.Module:
        model = make(**letters)
        in_place.put_into(model, model.__dict__.pop("names"))
        return model

    with_signature(changed, inspect.signature(make))
    loss = None if step.loss is None else in_place.loss
    return Changed(replace(written, make=changed, loss=loss), head.lines)


# where the loss comes from


def head_of(step: TrainingStep, spec: GPUSpec) -> Head:
    """The Linear whose output is all that the loss is made of, by one cross entropy.

    Raises: DoesNotApply where there is none, with the reason.
    """
    model = step._model()
    heads = Heads(model)
    with quiet(), SimulatedGPU(spec_with_room(spec), cuda=True):
        with heads.calls:
            loss = step.loss_on(model)
        return heads.of(loss)


class Heads:
    """Sees what a model's Linears return from now on, and keeps it; within `calls`, each F.cross_entropy too."""

    def __init__(self, model: nn.Module) -> None:
        self._found: list[tuple[str, nn.Linear, torch.Tensor]] = []
        self._names = {module: path for path, module in model.named_modules() if isinstance(module, nn.Linear)}
        for module in self._names:
            module.register_forward_hook(self._see)
        self._seen = _Seen(model)
        self.calls = CrossEntropies(self._seen.answer)

    def _see(self, module: nn.Linear, _args: tuple[Any, ...], output: Any) -> None:
        self._found.append((self._names[module], module, output))

    def of(self, loss: torch.Tensor) -> Head:
        """The head that a loss comes from. Raises: DoesNotApply, as `head_of`."""
        made_by = _source(loss.grad_fn)
        if loss.dtype == torch.float16:
            raise DoesNotApply("the loss is float16, in which the sum of a chunk's losses may overflow")
        heads = [(path, module, output) for path, module, output in self._found if output.grad_fn in made_by]
        if not heads:
            raise DoesNotApply("the loss is not the cross entropy of what a Linear returns")
        path, module, output = heads[-1]
        if sum(one is module for _, one, _ in self._found) > 1:
            raise DoesNotApply(f"{path} is called more than once in a step")
        if output.dim() < 3:
            raise DoesNotApply(f"{path} makes one row for each example: there is nothing to divide")
        call, is_of_transformers = self._seen.only_call()
        return Head(path, module.in_features, is_of_transformers and self._seen.is_head(module), call.ignore_index)


class _Seen:
    """The calls of F.cross_entropy in a model's step, and whether each is made by a `transformers` model's own loss."""

    def __init__(self, model: nn.Module) -> None:
        self._model: Any = model
        self._calls: list[tuple[Call, bool]] = []
        self._is_within = False
        function: Any = getattr(model, "loss_function", None)
        if function is not None and getattr(function, "__name__", "") == "ForCausalLMLoss":
            model.loss_function = partial(self._within, function)  # type: ignore[assignment]  # a property

    def answer(self, call: Call, whole: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What F.cross_entropy would return; the call is noted."""
        self._calls.append((call, self._is_within))
        return whole()

    def is_head(self, module: nn.Module) -> bool:
        """Whether a `transformers` model says that it is its head."""
        return bool(self._model.get_output_embeddings() is module)

    def only_call(self) -> tuple[Call, bool]:
        """The one call that there was.

        Raises: DoesNotApply for none or several, and for one of another kind.
        """
        if len(self._calls) != 1:
            n = len(self._calls) or "none"
            raise DoesNotApply(f"one call of F.cross_entropy, and no other, can be put in chunks: a forward has {n}")
        call, is_of_transformers = self._calls[0]
        if not (call.is_plain_mean or is_of_transformers):  # which divides a sum by a number that it is given
            raise DoesNotApply(NOT_PLAIN)
        return self._calls[0]

    def _within(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> torch.Tensor:
        self._is_within = True
        try:
            loss: torch.Tensor = function(*args, **kwargs)
            return loss
        finally:
            self._is_within = False


def _source(node: Any) -> list[Any]:
    """The nodes that a loss comes from, from its cross entropy to the product of the head.

    Raises: DoesNotApply for a loss of another kind.
    """
    while node is not None and _is_scaling(node):  # as by how many backwards make a step
        node = _before(node)
    if node is None or node.name() != "NllLossBackward0":
        name = "nothing" if node is None else node.name().removesuffix("Backward0")
        raise DoesNotApply(f"the loss is not a cross entropy: it comes from {name}")
    node, _ = _past(_before(node))
    if node.name() != "LogSoftmaxBackward0":
        raise DoesNotApply("the loss is not a cross entropy of logits")
    node, way = _past(_before(node))
    if node.name() not in ("MmBackward0", "AddmmBackward0", "LinearBackward0", "BmmBackward0"):
        what = node.name().removesuffix("Backward0")
        raise DoesNotApply(f"between the head and the cross entropy is {what}")
    return [*way, node]


def _is_scaling(node: Any) -> bool:
    others = [one for one, _ in node.next_functions[1:] if one is not None]
    return node.name() in ("DivBackward0", "MulBackward0") and node.next_functions[0][0] is not None and not others


def _past(node: Any) -> tuple[object, list[Any]]:
    """The next node that changes numbers, and those before it that do not."""
    way = []
    while node.name() in _PASSED:
        way.append(node)
        node = _before(node)
    return node, way


def _before(node: Any) -> Any:
    return node.next_functions[0][0]
