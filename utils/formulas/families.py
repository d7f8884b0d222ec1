"""What closed forms have to know of a family of decoders: its blocks' matrices, norms and MLP, and its positions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from every_byte.formula.formula import Term, TermRow

from . import gpt_remedies, llama_block
from .decoder_settings import DecoderSettings, Widest


@dataclass(frozen=True, kw_only=True)
class Family:
    """What one family has of its own; sizes are expressions in the letters of its closed forms.

    `matrices`: those of a block's Linears by their sizes, and how many there are. `sides`: of all of them the rows and
    the columns. `positions`: the size of a table of positions that is trained, "" without one; `tables`: that of tables
    which are not, in float32. `block_saved`, `norm_saved` and `shared` (what all blocks use) give what is kept for
    backward; `product`, the terms that the MLP's last Linear keeps; `widest`, where its backward takes most.
    `step_of_input`: whether the largest step in backward of a block's matrix is that of a Linear before `down`, if
    what autograd keeps lies on the host. `sums_bytes`: more than Adafactor's sums take in a step of a public size.
    """

    name: str
    matrices: Mapping[str, int]
    sides: Mapping[str, int]
    positions: str = ""
    tables: str = ""
    block_saved: Callable[..., list[Term]]
    norm_saved: Callable[..., list[TermRow]]
    shared: Callable[[DecoderSettings], list[Term]]
    product: tuple[str, ...]
    widest: Callable[[DecoderSettings], Widest]
    step_of_input: bool
    sums_bytes: int

    @property
    def n_linears(self) -> int:
        """Of a block."""
        return sum(self.matrices.values())

    @property
    def weights(self) -> str:
        """Those of a block's Linears."""
        return _sum(self.matrices)

    @property
    def all_sides(self) -> str:
        """Rows and columns of a block's matrices, added up."""
        return f"({_sum(self.sides)})"

    @property
    def adapter_weights(self) -> str:
        """Those of a block's adapters: of each Linear both widths, r times."""
        return f"r*{self.all_sides}"


def _sum(sizes: Mapping[str, int]) -> str:
    return " + ".join(size if n == 1 else f"{n}*{size}" for size, n in sizes.items())


LLAMA = Family(
    name="Llama",
    matrices={"d**2": 2, "g*d**2/a": 2, "d*f": 3},
    sides={"d": 9, "g*d/a": 2, "f": 3},
    tables="2*s*d/a",
    block_saved=llama_block.llama_block_saved,
    norm_saved=llama_block.norm_saved,
    shared=llama_block.tables_in_half,
    product=llama_block.PRODUCT,
    widest=llama_block.widest,
    step_of_input=True,
    sums_bytes=32 << 20,
)
GPT = Family(
    name="GPT",
    matrices={"3*d**2": 1, "d**2": 1, "d*f": 2},
    sides={"d": 5, "3*d": 1, "f": 2},
    positions="s*d",
    block_saved=gpt_remedies.gpt_block_saved,
    norm_saved=gpt_remedies.gpt_norm_saved,
    shared=gpt_remedies.positions_kept,
    product=gpt_remedies.PRODUCT,
    widest=gpt_remedies.widest,
    step_of_input=False,
    sums_bytes=128 << 20,
)


def family_of(settings: DecoderSettings) -> Family:
    """What its family has of its own."""
    return {"llama": LLAMA, "gpt": GPT}[settings.family]
