"""What a program asks and says of attention's backends: their order, and which would take an attention."""

from collections.abc import Callable, Sequence

import torch
from torch.nn.attention import SDPBackend

from every_byte.gpu.operators.attention.choice import AS_IMPORTED, Attention, takes_it, user_order, wished_before
from every_byte.gpu.operators.attention.composite import memory_behind

from .replacing import Function, Maker, Undo, all_of, replaced


def heed_user_order() -> Undo:
    """From now on tell an order that the user sets from the one that PyTorch sets; returns what ends it.

    An order from before counts as the user's, unless it is the one that PyTorch sets on this machine's card.
    """
    before, user_order.wished = torch._C._get_sdp_priority_order(), wished_before()
    user_order.of_the_machine = before if user_order.wished is None else AS_IMPORTED

    def getting(original: Function) -> Function:
        return lambda: list(AS_IMPORTED if user_order.wished is None else user_order.wished)

    def setting(original: Function) -> Function:
        def set_order(order: Sequence[int]) -> None:
            if user_order.wished is None:
                user_order.of_the_machine = order_in_torch()
            user_order.wished = None if list(order) == AS_IMPORTED else list(order)
            original(user_order.of_the_machine if user_order.wished is None else order)

        return set_order

    order_in_torch = torch._C._get_sdp_priority_order

    def stop() -> None:
        user_order.is_heeded = False

    places = ("_get_sdp_priority_order", getting), ("_set_sdp_priority_order", setting)
    user_order.is_heeded = True
    return all_of([stop, *(replaced(torch._C, *place) for place in places)])


def answer_which_takes_it() -> Undo:
    """`torch.backends.cuda.can_use_flash_attention` and its like, which nested tensors ask, answer for the GPU."""

    def answering(backend: SDPBackend) -> Maker:
        def make(original: Callable[[torch._C._SDPAParams, bool], bool]) -> Function:
            def can_use(params: torch._C._SDPAParams, debug: bool = False) -> bool:
                memory = memory_behind(params.query)
                if memory is None:
                    return original(params, debug)
                return takes_it(backend, _asked(params).with_batch(memory.spec), memory.spec)

            return can_use

        return make

    names = {
        "_can_use_flash_attention": SDPBackend.FLASH_ATTENTION,
        "_can_use_mem_efficient_attention": SDPBackend.EFFICIENT_ATTENTION,
        "_can_use_cudnn_attention": SDPBackend.CUDNN_ATTENTION,
    }
    return all_of([replaced(torch._C, name, answering(backend)) for name, backend in names.items()])


def _asked(params: torch._C._SDPAParams) -> Attention:
    return Attention(
        params.query, params.key, params.value, params.attn_mask, params.dropout, params.is_causal, params.enable_gqa
    )
