"""What holds a tensor alive, as a diagram: each reference to one storage, and how to let go of it."""

from .diagram import Diagram

HOLDERS = {
    "a name, x": "del x",
    "a view's name, x[0]": "keep x[0].clone()",
    "a shown result, Out[7], _7": "forget_results()",
    "a traceback, its frames' names": "forget_failure()",
    "a graph, y.grad_fn": "keep y.detach()",
    "an optimizer's list": "del optimizer",
}
"""What may refer to a storage, and what ends that."""

_TOP, _ROW, _HEIGHT = 10, 58, 46
_STORAGE = 336  # where its box begins


def references(size: str = "64 MiB") -> Diagram:
    """A box for each of HOLDERS, and from each an arrow to the storage, whose size stands in it."""
    listed = "; ".join(f"{holder}: {release}" for holder, release in HOLDERS.items())
    diagram = Diagram(
        f"Six references to one storage of {size}, each with what lets go of it. {listed}. "
        "The block comes back when the last of them is gone.",
        _TOP + _ROW * len(HOLDERS),
    )
    height = _ROW * (len(HOLDERS) - 1) + _HEIGHT
    storage = diagram.box(_STORAGE, _TOP, 94, height, "storage", size, colour="activations")
    for row, (holder, release) in enumerate(HOLDERS.items()):
        box = diagram.box(10, _TOP + _ROW * row, 240, _HEIGHT)
        diagram.text(box.top[0], box.y + 14, holder, anchor="middle")
        diagram.text(box.top[0], box.y + 32, release, anchor="middle", size=13, tone="faint")
        diagram.arrow(box.right, (storage.x, box.right[1]))
    return diagram
