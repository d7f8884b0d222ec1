"""What a program was seen to do while it ran as it is: which remedies can be applied to it follows from that."""

import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader

from every_byte.advice.regions import Way, ways_to_checkpoint
from every_byte.advice.remedy import Left

from .changes import Changing
from .first_call import unwrapped

_TRAINER = "bf16", "fp16", "gradient_checkpointing", "optim", "per_device_train_batch_size", "torch_compile"


@dataclass
class Seen:
    """What a program did, as far as remedies hang on it.

    `model` is the class of the first model that trained, "" for none; `of_types` are its parameters' types and
    `attention` is what a Hugging Face model's configuration says. `autocast` is the type that autocast computed in when
    it was called, "" for none. `ways` are those to checkpoint it: a name, lines and a note, or the reason why not.
    `optimizers` have the name of PyTorch's class, "" for another, with what it was made with. `loader` is the number,
    among the DataLoaders in the order in which they were made, of the one that gave the model its batch, -1 for none;
    `batch_size` is what it was made with, `rows` the first size of that batch. `most_backwards` is the most calls of
    backward before an optimizer's step. `trainer` has what a Hugging Face Trainer is told, empty where there is none.
    """

    model: str = ""
    of_types: list[str] = field(default_factory=list)
    attention: str = ""
    is_compiled: bool = False
    autocast: str = ""
    ways: list[dict[str, str]] = field(default_factory=list)
    optimizers: list[dict[str, Any]] = field(default_factory=list)
    loader: int = -1
    batch_size: int = 0
    rows: int = 0
    most_backwards: int = 0
    clips: bool = False
    scales: bool = False
    fills_with_zeros: bool = False
    trainer: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Its items, by their names."""
        return asdict(self)


class Looking:
    """Looks on while a program runs, and changes nothing: `seen` is what there was so far."""

    def __init__(self, changing: Changing) -> None:
        self.seen = Seen()
        self._n_backwards = 0
        self._n_loaders = 0
        self._loaders: weakref.WeakKeyDictionary[DataLoader[Any], tuple[int, int]] = weakref.WeakKeyDictionary()
        self._iterators: weakref.WeakKeyDictionary[Any, DataLoader[Any]] = weakref.WeakKeyDictionary()
        self._last: tuple[DataLoader[Any], int] | None = None
        changing.first_call.then.append(self._look_at)
        changing.replace(torch.optim.Optimizer, "__init__", self._at_optimizer)
        changing.replace(torch.optim.Optimizer, "zero_grad", self._at_zero_grad)
        changing.replace(torch.autograd, "_engine_run_backward", self._at_backward)
        changing.replace(torch.amp.GradScaler, "scale", self._at_scale)
        changing.replace(DataLoader, "__init__", self._at_loader)
        changing.replace(DataLoader, "__iter__", self._at_iterator)
        changing.replace(torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", self._at_batch)
        changing.at_trainer_arguments(self._at_trainer)
        for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
            changing.replace(owner, "clip_grad_norm_", self._at_clipping)

    def after_step(self, *_: Any) -> None:
        """An optimizer's step is over."""
        self.seen.most_backwards = max(self.seen.most_backwards, self._n_backwards)
        self._n_backwards = 0

    def _look_at(self, called: nn.Module) -> None:
        model, seen = unwrapped(called), self.seen
        seen.model = type(model).__name__
        seen.of_types = sorted({str(p.dtype).removeprefix("torch.") for p in model.parameters()})
        seen.attention = str(getattr(getattr(model, "config", None), "_attn_implementation", None) or "")
        seen.is_compiled = called._compiled_call_impl is not None or "_orig_mod" in called._modules
        if torch.is_autocast_enabled("cuda"):
            seen.autocast = str(torch.get_autocast_dtype("cuda")).removeprefix("torch.")
        seen.ways = [_as_json(way) for way in ways_to_checkpoint(model)]
        if self._last is not None:
            seen.loader, seen.batch_size = self._loaders.get(self._last[0], (-1, 0))
            seen.rows = self._last[1]

    def _at_optimizer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
            original(optimizer, *args, **kwargs)
            kind, made = type(optimizer), optimizer.param_groups[0] if optimizer.param_groups else {}
            name = kind.__name__ if getattr(torch.optim, kind.__name__, None) is kind else ""
            settings = {key: made.get(key) for key in ("foreach", "fused", "amsgrad", "maximize")}
            self.seen.optimizers.append({"name": name, "class": kind.__name__, **settings})

        return init

    def _at_zero_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def zero_grad(optimizer: torch.optim.Optimizer, set_to_none: bool = True) -> Any:
            self.seen.fills_with_zeros |= not set_to_none
            return original(optimizer, set_to_none)

        return zero_grad

    def _at_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(*args: Any, **kwargs: Any) -> Any:
            self._n_backwards += torch._C._current_graph_task_id() == -1
            return original(*args, **kwargs)

        return run_backward

    def _at_scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(scaler: torch.amp.GradScaler, *args: Any, **kwargs: Any) -> Any:
            self.seen.scales |= scaler.is_enabled()
            return original(scaler, *args, **kwargs)

        return scale

    def _at_clipping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clip(*args: Any, **kwargs: Any) -> Any:
            self.seen.clips = True
            return original(*args, **kwargs)

        return clip

    def _at_trainer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def after_init(given: Any) -> None:
            original(given)
            told = {name: getattr(given, name, None) for name in _TRAINER}
            self.seen.trainer = told | {
                "class": type(given).__name__,
                "optim": str(getattr(told["optim"], "value", "")),
            }

        return after_init

    def _at_loader(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(loader: DataLoader[Any], *args: Any, **kwargs: Any) -> None:
            original(loader, *args, **kwargs)
            self._loaders[loader] = self._n_loaders, loader.batch_size or 0
            self._n_loaders += 1

        return init

    def _at_iterator(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def iterate(loader: DataLoader[Any]) -> Any:
            iterator = original(loader)
            self._iterators[iterator] = loader
            return iterator

        return iterate

    def _at_batch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def following(iterator: Any) -> Any:
            batch = original(iterator)
            if (loader := self._iterators.get(iterator)) is not None:
                sizes = [leaf.shape[0] for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.dim()]
                self._last = loader, sizes[0] if sizes else 0
            return batch

        return following


def _as_json(way: Way | Left) -> dict[str, str]:
    if isinstance(way, Left):
        return {"name": way.name, "reason": way.reason}
    return {"name": way.name, "lines": way.lines, "note": way.note}
