"""Which operators are known to need no rule: they allocate their outputs and nothing else."""

import torch

_CREATE_OR_COPY = """empty empty_like empty_strided new_empty new_empty_strided zeros ones full zeros_like ones_like
    full_like new_zeros new_ones new_full rand randn randint rand_like randn_like randint_like arange scalar_tensor
    linspace eye fill_ zero_ copy_ _to_copy clone normal_ uniform_ bernoulli_ exponential_ random_ detach lift_fresh
    _unsafe_view _local_scalar_dense"""
_ELEMENTWISE = """native_dropout_backward mse_loss_backward elu_backward leaky_relu_backward softplus_backward
    hardsigmoid_ hardsigmoid_backward hardtanh_backward hardswish hardswish_ hardswish_backward hardshrink_backward
    softshrink_backward mish_ mish_backward log_sigmoid_forward log_sigmoid_backward rrelu_with_noise
    rrelu_with_noise_ rrelu_with_noise_backward threshold_ _prelu_kernel _prelu_kernel_backward
    masked_fill_ where complex polar glu glu_backward smooth_l1_loss_backward huber_loss_backward
    floor_divide floor_divide_"""
_MOVE = """cat stack tril triu tril_ triu_ flip repeat constant_pad_nd gather scatter scatter_ scatter_add
    scatter_add_ index_select index_add index_add_ index_copy index_copy_ index_fill index_fill_ slice_backward
    select_backward diagonal_backward select_scatter slice_scatter masked_scatter_backward pixel_shuffle
    pixel_unshuffle"""
_OPTIMIZERS = """_fused_adam_ _fused_adamw_ _fused_sgd_ _fused_adagrad_ _amp_foreach_non_finite_check_and_unscale_
    _amp_update_scale_"""
_OUTPUTS_ALONE = frozenset(" ".join((_CREATE_OR_COPY, _ELEMENTWISE, _MOVE, _OPTIMIZERS)).split())


def outputs_alone(func: torch._ops.OpOverload) -> bool:
    """Whether an operator without a rule is known to allocate its outputs and nothing else.

    So it is with views; with elementwise operators, whose kernels convert types as they read; with the foreach
    operators on lists of alike tensors; and with those named above.
    """
    name = func.overloadpacket.__name__
    tags = func.tags
    changes_no_memory = func.is_view or torch.Tag.inplace_view in tags
    return changes_no_memory or torch.Tag.pointwise in tags or name in _OUTPUTS_ALONE or _is_known_foreach(name)


def _is_known_foreach(name: str) -> bool:
    """The extremes of lists have a buffer of their own, which is not known."""
    return name.startswith("_foreach_") and name not in ("_foreach_max", "_foreach_powsum")
