"""Which stream a program allocates in, and in which one each node of its autograd graph was made."""

from bisect import bisect_right
from operator import itemgetter

import torch

ACROSS_STREAMS = (
    "backward across streams is not modelled: CUDA runs each node of a backward in the stream of its forward, and here "
    "all run in that in which backward() was called. Call it in the stream of the forward to have exact figures."
)


class Streams:
    """The streams of one GPU by number: `current`, in which it allocates now; `n_made` there are beside the first."""

    def __init__(self) -> None:
        self.current = self.n_made = self._outside = 0
        self._switches: list[tuple[int, int]] = []

    def make(self) -> int:
        """The number of a new one."""
        self.n_made += 1
        return self.n_made

    def switch(self, number: int) -> None:
        """Allocate in another one from now on."""
        self.current = number
        if torch._C._current_graph_task_id() != -1:
            return  # a hook's own choice
        self._outside = number
        position = torch.autograd._get_sequence_nr()
        if self._switches and self._switches[-1][0] == position:
            self._switches.pop()
        self._switches.append((position, number))

    def is_elsewhere(self, node: torch.autograd.graph.Node) -> bool:
        """Whether a node that runs here runs in another stream on CUDA: that of its forward."""
        if not self._switches or self.current != self._outside or "AccumulateGrad" in node.name():
            return False
        place = bisect_right(self._switches, node._sequence_nr(), key=itemgetter(0))
        return (self._switches[place - 1][1] if place else 0) != self.current
