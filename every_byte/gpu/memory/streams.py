"""Which stream a program allocates in, and in which one each node of its autograd graph was made."""

import threading
from bisect import bisect_right
from operator import itemgetter

import torch
from torch._C._autograd import _get_sequence_nr

ACROSS_STREAMS = (
    "backward across streams is not modelled: CUDA runs each node of a backward in the stream of its forward, and here "
    "all run in that in which backward() was called. Call it in the stream of the forward to have exact figures."
)


class _Choice:
    """What a thread has chosen: the stream it allocates in, that outside of hooks, and where it has switched."""

    def __init__(self) -> None:
        self.current = self.outside = 0
        self.switches: list[tuple[int, int]] = []


class Streams:
    """The streams of one GPU by number: `current`, in which it allocates now; `n_made` there are beside the first.

    A thread that the program starts begins in the first one, as on CUDA; all others are at one in their choice.
    """

    def __init__(self) -> None:
        self.n_made = 0
        self._shared, self._own = _Choice(), threading.local()

    @property
    def _choice(self) -> _Choice:
        return getattr(self._own, "choice", self._shared)

    @property
    def current(self) -> int:
        """The number of the one in which this thread allocates."""
        choice: _Choice = getattr(self._own, "choice", self._shared)  # as `_choice`: each allocation asks
        return choice.current

    def begin_thread(self) -> None:
        """A thread of the program's own chooses for itself."""
        self._own.choice = _Choice()

    def make(self) -> int:
        """The number of a new one."""
        self.n_made += 1
        return self.n_made

    def switch(self, number: int) -> None:
        """Allocate in another one from now on."""
        choice = self._choice
        choice.current = number
        if torch._C._current_graph_task_id() != -1:
            return  # a hook's own choice
        choice.outside = number
        position = _get_sequence_nr()
        if choice.switches and choice.switches[-1][0] == position:
            choice.switches.pop()
        choice.switches.append((position, number))

    def is_elsewhere(self, node: torch.autograd.graph.Node) -> bool:
        """Whether a node that runs here runs in another stream on CUDA: that of its forward."""
        choice = self._choice
        if not choice.switches or choice.current != choice.outside or "AccumulateGrad" in node.name():
            return False
        place = bisect_right(choice.switches, node._sequence_nr(), key=itemgetter(0))
        return (choice.switches[place - 1][1] if place else 0) != choice.current
