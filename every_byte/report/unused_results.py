"""What compiled code returns beside the loss: backward is given a gradient of zeros for it."""

from every_byte.ledger.attribution import COMPILED
from every_byte.ledger.events import Event
from every_byte.ledger.trace import Trace

ZEROS = "aten::zeros"


def unused_results(trace: Trace) -> list[Event]:
    """The allocations of these zeros, the first of each size, the largest first.

    For autograd a compiled graph is one node, and its backward takes a gradient for each floating-point result. Of one
    that has none PyTorch makes zeros. A model that returns its logits beside the loss is the usual case.
    """
    by_size: dict[int, Event] = {}
    for event in trace.events:
        if (event.action, event.node, event.operation) == ("alloc", COMPILED, ZEROS):
            by_size.setdefault(event.n_bytes, event)
    return [by_size[n_bytes] for n_bytes in sorted(by_size, reverse=True)]
