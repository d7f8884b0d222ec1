"""Tells the order of attention backends that a user wishes from the one that PyTorch sets for the machine's card."""

import torch

from every_byte.gpu.operators.attention.choice import AS_IMPORTED, user_order, wished_before

from .replacing import all_of, replaced


def heed_user_order():
    """From now on tell an order that the user sets from the one that PyTorch sets; returns what ends it.

    An order from before counts as the user's, unless it is the one that PyTorch sets on this machine's card.
    """
    before, user_order.wished = torch._C._get_sdp_priority_order(), wished_before()
    user_order.of_the_machine = before if user_order.wished is None else AS_IMPORTED

    def getting(original):
        return lambda: list(AS_IMPORTED if user_order.wished is None else user_order.wished)

    def setting(original):
        def set_order(order) -> None:
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
