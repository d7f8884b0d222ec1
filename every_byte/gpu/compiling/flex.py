"""The gradients of flex_attention's score function, of which PyTorch makes a graph by a backward over stand-ins.

A backward over stand-ins that lie on "cuda", to C++ too, is refused by a build of PyTorch for the CPU: they lie on meta
for that long, and "cuda" is put into the graph afterwards.
"""

import copy
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._dispatch.python import suspend_functionalization
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import disable_functional_mode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

from every_byte.gpu.memory.physical import META
from every_byte.gpu.patches.replacing import Function, Undo, replaced

from .tracing import tracing


def differentiate_on_meta(module: ModuleType) -> Undo:
    """In torch._higher_order_ops.flex_attention. Returns what undoes it."""

    def making(original: Function) -> Function:
        def create_fw_bw_graph(score_mod: Any, index_values: Sequence[Any], other_buffers: Sequence[Any]) -> Any:
            tensors = [x for x in (*index_values, *other_buffers) if isinstance(x, torch.Tensor)]
            device = tensors[0].device
            if device.type != "cuda":
                return original(score_mod, index_values, other_buffers)
            mode = detect_fake_mode(tensors) or FakeTensorMode(allow_non_fake_inputs=True)
            with suspend_functionalization(), disable_functional_mode(), disable_proxy_modes_tracing(), mode:
                moved = pytree.tree_map_only(torch.Tensor, _on_meta, (tuple(index_values), tuple(other_buffers)))
            with tracing():
                _forward, joint = original(_moved(score_mod, META), *moved)
            return score_mod, _moved(joint, device)

        return create_fw_bw_graph

    return replaced(module, "create_fw_bw_graph", making)


def _on_meta(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=META, requires_grad=x.requires_grad)


def _moved(function: Any, device: torch.device) -> Any:
    """A graph in which whatever is made lies on `device`."""
    if not isinstance(function, GraphModule):
        return function
    graph = copy.deepcopy(function)
    for node in graph.graph.nodes:
        node.args, node.kwargs = pytree.tree_map_only(torch.device, lambda _device: device, (node.args, node.kwargs))
    graph.recompile()
    return graph
