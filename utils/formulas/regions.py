"""The closed form of what the blocks of a GPT keep for backward when regions of them run through a checkpoint."""

from dataclasses import dataclass, replace

from every_byte.formula.formula import Selector, Term

from .block import block_saved
from .settings import GPTSettings

EVERY_KTH = "up(L/k, 1)"  # how many blocks, from the first on
ROOT = "r"  # sqrt(L), rounded


@dataclass(frozen=True)
class _Regions:
    """How many regions there are, how many blocks lie inside of them, and how many outside; "" for none."""

    n: str
    inside: str
    outside: str


_BLOCKS = {
    "none": _Regions("", "", "L"),
    "every block": _Regions("L", "L", ""),
    "every k-th block": _Regions(EVERY_KTH, EVERY_KTH, f"(L - {EVERY_KTH})"),
    "k segments": _Regions("k", "L", ""),
    "sqrt(L) segments": _Regions(ROOT, "L", ""),
}
_KEPT = "selective checkpoint"


def weight_copies(settings: GPTSettings) -> Term:
    """The copies that autocast has of weights after forward: of the head's, and of all in blocks outside of regions.

    In a region of blocks copies are made in forward, let go with it, and made again in backward.
    """
    n = "L" if settings.regions == "attention only" else _BLOCKS[settings.regions].outside
    size = f"12*{n}*d**2 + V*d" if n else "V*d"
    return Term("weight copies", size, 2, (Selector("*", "autocast copies", "*"),), "gradients of products' inputs")


def blocks_saved(settings: GPTSettings) -> list[Term]:
    """What L blocks keep for backward, and their regions: inputs, and what a policy keeps.

    Shapes: x[b, s, d] -> L blocks of width d with a heads -> y[b, s, d]; a region of blocks is given its x, one of
            attention q, k and v
    Counts: as `block_saved`, for blocks outside of regions, and all but the core of attention for "attention only".
            Of a region its input and what its policy keeps: nothing that autograd would keep, no statistics, masks or
            copies of weights. Random states lie in CPU memory. With a policy and "attention only", for two heads and
            two positions at least.
    Unit:   bytes, exact.
    Raises: ValueError as `block_saved`.
    Source: held to the simulated ledger, row by row, by tests/formulas/test_regions.py.
    """
    if settings.regions == "attention only":
        return _cores_checkpointed(settings)
    blocks = _BLOCKS[settings.regions]
    terms = _block(settings, blocks.outside) if blocks.outside else []
    if not blocks.n:
        return terms
    given = (Selector("blocks*", "checkpoint", "inputs*"),)
    why = "the input of each, to run it again"
    return [
        *terms,
        Term("regions: input", f"{blocks.n}*b*s*d", settings.weight_bytes, given, why),
        *(_times(term, blocks.inside, settings) for term in _kept_in_block(settings)),
    ]


def _block(settings: GPTSettings, n: str, core: bool = True) -> list[Term]:
    block = block_saved(
        attention=settings.attention,
        activation="gelu",
        dropout=settings.dropout,
        autocast=settings.is_autocast,
        core=core,
    )
    return [_times(term, n, settings) for term in block.terms if not _lies_on_cpu(term, settings)]


def _lies_on_cpu(term: Term, settings: GPTSettings) -> bool:
    """Seed and offset of the memory-efficient kernel."""
    return settings.attention == "efficient" and term.name == "attention: random state"


def _times(term: Term, n: str, settings: GPTSettings) -> Term:
    """A block's term for n blocks of a GPT."""
    each = settings.element_bytes if term.element_bytes == "e" else term.element_bytes
    selectors = tuple(replace(selector, module=f"blocks.*.{selector.module}") for selector in term.selectors)
    return replace(term, elements=f"{n}*({term.elements})", element_bytes=each, selectors=selectors)


# What a policy keeps.


def _kept_in_block(settings: GPTSettings) -> list[Term]:
    """Of a whole block: what its four products of matrices make, and of attention what is on the policy's list."""
    if settings.policy == "none":
        return []
    sizes = {"attention.qkv": 3, "attention.out": 1, "mlp.up": 4, "mlp.down": 1}
    products = [
        Term(f"kept: {module.split('.')[-1]}", f"{n}*b*s*d", "e", (Selector(module, _KEPT),), "does not run again")
        for module, n in sizes.items()
    ]
    return [*products, *_kept_in_core(settings)]


def _kept_in_core(settings: GPTSettings) -> list[Term]:
    """Of attention's core: two products, or all that PyTorch's kernel makes. cuDNN's kernel is on neither list."""
    e = settings.element_bytes
    if settings.policy == "none":
        return []
    if settings.attention == "explicit":
        size, why = f"{e}*(a*b*s**2 + b*s*d)", "scores, and y before it is laid out for out"
    elif settings.policy == "keep compute-intensive" and settings.attention != "cudnn":
        logsumexp = "4*a*b*up(s, 32)" if settings.attention == "efficient" else "4*a*b*s + 24"
        size, why = f"{e}*b*s*d + {logsumexp}", "y, its logsumexp and, of the flash kernel, its random state"
    else:
        return []
    return [Term("kept: attention", size, 1, (Selector("attention", _KEPT),), why)]


def _cores_checkpointed(settings: GPTSettings) -> list[Term]:
    """All blocks, with a region around the core of each attention.

    The y of a kernel is the input of out, whether it is kept or not: one term for both.
    """
    terms = _block(settings, "L", core=False)
    kept = [_times(term, "L", settings) for term in _kept_in_core(settings)]
    if not kept or settings.attention == "explicit":
        return terms + kept
    [place] = [i for i, term in enumerate(terms) if term.name == "attention: output"]
    both = replace(kept[0], name="attention: output, kept", selectors=terms[place].selectors + kept[0].selectors)
    return [*terms[:place], both, *terms[place + 1 :]]
