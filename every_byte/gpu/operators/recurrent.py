"""Recurrent layers and cells: cuDNN's kernels, whose scratch it sizes itself; PyTorch's own fused cells without it.

Source: aten/src/ATen/native/RNN.cpp, cuda/RNN.cu, cudnn/RNN.cpp.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OpOverload

from every_byte.gpu.memory.modes import attached

from .registry import Call, Function, allocates, as_pytorch_does, composite, decomposed, outputs_alone, returns

aten = torch.ops.aten
OF_CUDNN = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_RNN_RELU, _RNN_TANH, _LSTM, _GRU = range(4)  # cuDNN's numbers of them
_NAMES = {_RNN_RELU: "nn.RNN", _RNN_TANH: "nn.RNN", _LSTM: "nn.LSTM", _GRU: "nn.GRU"}

outputs_alone("unsafe_split _cudnn_rnn _cudnn_rnn_backward")


def is_for_cudnn(x: Tensor) -> bool:
    """Whether cuDNN takes it. Source: cudnn_is_acceptable in aten/src/ATen/native/Convolution.cpp."""
    return torch.backends.cudnn.enabled and x.dtype in OF_CUDNN and x.numel() > 0


# ---------------------------------------------------------------------------------------------------------------- cells


@composite(aten.lstm_cell.default)
def _lstm_cell(
    x: Tensor, hx: list[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Two products, and one kernel for the rest. Source: LSTMCell in RNN.cpp."""
    of_input = torch.matmul(x, w_ih.t())
    of_hidden = torch.matmul(hx[0], w_hh.t())
    results: tuple[Tensor, Tensor] = aten._thnn_fused_lstm_cell.default(of_input, of_hidden, hx[1], b_ih, b_hh)[:2]
    return results


@composite(aten.gru_cell.default)
def _gru_cell(
    x: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """As above. Source: GRUCell in RNN.cpp."""
    of_input = torch.matmul(x, w_ih.t())
    of_hidden = torch.matmul(hx, w_hh.t())
    result: Tensor = aten._thnn_fused_gru_cell.default(of_input, of_hidden, hx, b_ih, b_hh)[0]
    return result


@returns(aten._thnn_fused_lstm_cell.default)
def _fused_lstm(
    of_input: Tensor, of_hidden: Tensor, cx: Tensor, *biases: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    return cx.new_empty(cx.shape), cx.new_empty(cx.shape), of_input.new_empty(of_input.shape)


@returns(aten._thnn_fused_gru_cell.default)
def _fused_gru(of_input: Tensor, of_hidden: Tensor, hx: Tensor, *biases: Tensor | None) -> tuple[Tensor, Tensor]:
    return hx.new_empty(hx.shape), hx.new_empty((hx.shape[0], 5 * hx.shape[1]))


@allocates(aten._thnn_fused_lstm_cell.default, aten._thnn_fused_gru_cell.default)
def fused_cell(call: Call) -> None:
    """What is kept for backward, then the results."""
    *results, kept = call.result
    call.place(kept, *results)


@returns(aten._thnn_fused_lstm_cell_backward_impl.default)
def _fused_lstm_backward(
    g_hidden: Tensor | None, g_cell: Tensor | None, cx: Tensor, cy: Tensor, kept: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    gates = kept.new_empty(kept.shape)
    return gates, cx.new_empty(cx.shape), gates.sum(0) if has_bias else None


@allocates(aten._thnn_fused_lstm_cell_backward_impl.default)
def fused_lstm_backward(call: Call) -> None:
    """The gradients of the gates and of the cell; their sums follow as an operation."""
    call.place_all()


@decomposed(aten._thnn_fused_gru_cell_backward.default)
def _fused_gru_backward(g_hidden: Tensor, kept: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    """The gradients of both products, of the state, and the sums of the first two."""
    rows, hidden = kept.shape[0], kept.shape[1] // 5
    of_input, of_hidden = (kept.new_empty((rows, 3 * hidden)) for _ in range(2))
    state = g_hidden.new_empty(g_hidden.shape)
    sums = (of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return of_input, of_hidden, state, *sums


# --------------------------------------------------------------------------------------------------------------- layers


class _Settings(NamedTuple):
    """What a layer is called with behind its parameters; packed sequences have no order of dimensions."""

    has_biases: bool
    n_layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool = False

    def per_direction(self, params: list[Tensor]) -> int:
        """How many parameters one direction of one layer has."""
        return len(params) // (self.n_layers * (2 if self.bidirectional else 1))


def _layers(
    mode: int, x: Tensor, states: list[Any], params: list[Tensor], settings: _Settings
) -> tuple[Tensor, list[Any]]:
    """All layers, step by step: their outputs, and the last states of each."""
    if settings.batch_first:
        x = x.transpose(0, 1)
    per = settings.per_direction(params)
    weights = [params[i : i + per] for i in range(0, len(params), per)]
    finals: list[Any] = []
    for layer in range(settings.n_layers):
        x = _layer(mode, x, states, weights, settings.bidirectional, finals)
        if settings.dropout and settings.train and layer < settings.n_layers - 1:
            x = torch.dropout(x, settings.dropout, True)
    return x.transpose_(0, 1) if settings.batch_first else x, finals


def _layer(
    mode: int, x: Tensor, states: list[Any], weights: list[list[Tensor]], bidirectional: bool, finals: list[Any]
) -> Tensor:
    """One layer, in one direction or both; its last states are put to `finals`."""
    steps, outputs = list(x.unbind(0)), []
    for backwards in (False, True) if bidirectional else (False,):
        state, made = states[len(finals)], []
        for step in steps[::-1] if backwards else steps:
            state = _step(mode, step, state, weights[len(finals)])
            made.append(state[0] if mode == _LSTM else state)
        finals.append(state)
        outputs.append(torch.stack(made[::-1] if backwards else made, 0))
    return torch.cat(outputs, outputs[0].dim() - 1) if bidirectional else outputs[0]


def _step(mode: int, x: Tensor, state: Any, weights: list[Tensor]) -> Any:
    """The next state: of an LSTM two tensors, else one."""
    if mode == _LSTM:
        return _lstm_cell(x, state, *weights)
    if mode == _GRU:
        return _gru_cell(x, state, *weights)
    w_ih, w_hh, *biases = weights
    b_ih, b_hh = biases or (None, None)
    both = torch.nn.functional.linear(state, w_hh, b_hh)
    of_input = torch.nn.functional.linear(x, w_ih, b_ih)  # has a name, so as to live as long as C++'s temporary
    both.add_(of_input)
    return both.tanh() if mode == _RNN_TANH else both.relu()


def _of_cudnn(
    mode: int,
    x: Tensor,
    hx: Tensor,
    cx: Tensor | None,
    params: list[Tensor],
    settings: _Settings,
    sizes: Sequence[int] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """cuDNN's outputs. What reserve and workspace it asks for, and how large its weights' buffer is, only it knows."""
    attached()[-1].not_modelled(f"{_NAMES[mode]} (cuDNN's reserve and workspace)")
    if torch.is_autocast_enabled("cuda") and x.dtype in (torch.float32, torch.float16, torch.bfloat16):
        dtype = torch.get_autocast_dtype("cuda")
        x, hx, *params = (y.to(dtype) for y in (x, hx, *params))
        cx = cx if cx is None else cx.to(dtype)
    per = settings.per_direction(params)
    hidden = params[1].shape[0] // {_LSTM: 4, _GRU: 3}.get(mode, 1)
    projected = hx.shape[2] if hx.shape[2] != hidden else 0
    results: tuple[Tensor, Tensor, Tensor] = aten._cudnn_rnn.default(
        x, params, per, _flat(params), hx, cx, mode, hidden, projected, settings.n_layers, bool(settings.batch_first),
        settings.dropout, settings.train, settings.bidirectional, list(sizes), None,
    )[:3]  # fmt: skip
    return results


def _flat(params: list[Tensor]) -> Tensor:
    """The buffer in which the weights lie, or a new one."""
    storage, total = params[0].untyped_storage(), sum(p.numel() for p in params)
    if all(p.untyped_storage()._cdata == storage._cdata for p in params):
        return params[0].detach().as_strided((total,), (1,), 0)
    return params[0].new_empty(total)


@returns(aten._cudnn_rnn_backward.default)
def _cudnn_backward(
    x: Tensor,
    weights: list[Tensor],
    per: int,
    buffer: Tensor,
    hx: Tensor,
    cx: Tensor | None,
    output: Tensor,
    g_output: Tensor | None,
    g_hidden: Tensor | None,
    g_cell: Tensor | None,
    *rest: Any,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, list[Tensor | None]]:
    """The gradients of the weights lie in one buffer."""
    mask = rest[-1]
    of_weights: list[Tensor | None] = [None] * len(weights)
    if mask[3]:
        flat, at = buffer.new_empty(buffer.shape), 0
        for i, weight in enumerate(weights):
            of_weights[i] = flat[at : at + weight.numel()].view(weight.shape)
            at += weight.numel()
    return (
        x.new_empty(x.shape) if mask[0] else None,
        hx.new_empty(hx.shape) if mask[1] else None,
        cx.new_empty(cx.shape) if mask[2] and cx is not None else None,
        of_weights,
    )


def _layer_of(mode: int, operator: OpOverload) -> Function:
    def kernel(x: Tensor, hx: Any, params: list[Tensor], *settings: Any) -> Any:
        first, cell = hx if mode == _LSTM else (hx, None)
        if is_for_cudnn(x):
            output, *last = _of_cudnn(mode, x, first, cell, params, _Settings(*settings))
            return (output, *last) if mode == _LSTM else (output, last[0])
        if cell is not None and first.shape[-1] != cell.shape[-1]:
            attached()[-1].not_modelled("nn.LSTM of proj_size without cuDNN")
            return as_pytorch_does(operator, x, hx, params, *settings)
        firsts = list(first.unbind(0)) if cell is None else list(zip(first.unbind(0), cell.unbind(0)))
        output, finals = _layers(mode, x, firsts, params, _Settings(*settings))
        if mode == _LSTM:
            return output, torch.stack([h for h, _ in finals], 0), torch.stack([c for _, c in finals], 0)
        return output, torch.stack(finals, 0)

    return kernel


def _packed_layer_of(mode: int, operator: OpOverload) -> Function:
    def kernel(x: Tensor, sizes: Tensor, hx: Any, params: list[Tensor], *settings: Any) -> Any:
        if not is_for_cudnn(x):
            attached()[-1].not_modelled(f"{_NAMES[mode]} of packed sequences without cuDNN")
            return as_pytorch_does(operator, x, sizes, hx, params, *settings)
        first, cell = hx if mode == _LSTM else (hx, None)
        output, *last = _of_cudnn(mode, x, first, cell, params, _Settings(*settings), sizes.tolist())
        return (output, *last) if mode == _LSTM else (output, last[0])

    return kernel


for _mode, _packet in {_LSTM: aten.lstm, _GRU: aten.gru, _RNN_TANH: aten.rnn_tanh, _RNN_RELU: aten.rnn_relu}.items():
    composite(_packet.input)(_layer_of(_mode, _packet.input))
    composite(_packet.data)(_packed_layer_of(_mode, _packet.data))


@decomposed(aten._pack_padded_sequence.default)
def _pack(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """Runs of steps that equally many sequences have, each contiguous, joined. Source: PackedSequence.cpp."""
    x, ends = x.transpose(0, 1) if batch_first else x, lengths.tolist()
    if lengths.is_meta or ends != sorted(ends, reverse=True) or not ends or ends[-1] <= 0:
        raise RuntimeError(
            f"lengths must be on the CPU, positive and the longest first: got {ends} on {lengths.device}."
        )
    runs, sizes, begin = [], [], 0
    for end in sorted(set(ends)):
        alive = sum(other >= end for other in ends)
        runs.append(x[begin:end, :alive].contiguous().view(-1, *x.shape[2:]))
        sizes += [alive] * (end - begin)
        begin = end
    return torch.cat(runs), torch.tensor(sizes)
