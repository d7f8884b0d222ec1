"""An attention that no fused kernel took: how large its scores are, and what would let one take it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlainAttention:
    """Attention in plain mathematics, for want of a fused kernel.

    `queries` and `scores` are shapes, of one rank's part where ranks share them; `helps` says in words what change
    alone lets a fused kernel take it, "" if none of those that were tried does. `is_kept`: its scores wait for
    backward.

    Shapes: queries (b, h, s, d), scores (b, h, s, t), or without b.
    Counts: `n_bytes` of one tensor of scores; there are several.
    """

    gpu: str
    queries: tuple[int, ...]
    of_type: str
    has_mask: bool
    scores: tuple[int, ...]
    scores_of_type: str
    n_bytes: int
    is_kept: bool
    helps: str

    @property
    def kind(self) -> tuple[str, bool, str]:
        """What it has in common with others, whatever the sizes."""
        return self.of_type, self.has_mask, self.helps
