"""What a report cannot follow or does not know: what it is, why, and what to do about it."""

import os

import torch

from every_byte.gpu.compiling.policies import AUTOTUNING, GRAPHS, PADDING
from every_byte.gpu.cuda.generation import NO_END
from every_byte.gpu.memory.specs import GPUSpec
from every_byte.gpu.memory.versions import BY_THE_RULES, runs_another, verified
from every_byte.gpu.patches.compiling import COMPILED
from every_byte.ledger.trace import Trace
from every_byte.units import short

from .brought_notes import TRITON, is_of_libraries, notes_of_libraries
from .note import MEASURED, Note, few, listed

_BY_NAME = {
    COMPILED: (
        "what was compiled ran as it was written, and counts as that: a compiler fuses operations, and keeps and "
        "computes again other tensors",
        "the warning says what is missing to follow it; --gpu live measures it on a card",
    ),
    PADDING: (
        "the compiler times some matrix products on the card, and pads the operands if that is faster; here it never "
        "does, and a padded operand is a copy of its own",
        "torch._inductor.config.shape_padding = False pads none on a card either",
    ),
    AUTOTUNING: (
        "the compiler takes the kernel that is fastest on the card; here each product is PyTorch's own, as in the "
        "default mode",
        f"use the default mode; {MEASURED}",
    ),
    GRAPHS: (
        "what was compiled ran without a graph, as in the default mode; on a card the graph keeps its memory in a pool "
        "of its own",
        f"use the default mode; {MEASURED}",
    ),
    "torch.jit": (
        "each operator of what was scripted or traced ran by itself; on a card TorchScript fuses elementwise ones from "
        "the second call on, and allocates fewer results",
        "peaks may be lower on a card; for exact figures leave torch.jit out, or measure with --gpu live",
    ),
    "torch.cuda.CUDAGraph": (
        "what was captured ran once and counts as that: on a card the graph keeps its memory in a pool of its own",
        "leave the capture out",
    ),
    "torch.cuda.caching_allocator_enable(False)": (
        "all went on as with PyTorch's caching allocator: on a card each request goes to the driver",
        "leave it out",
    ),
    "torch.cuda.tunable.enable()": (
        "matrix products ran as without it: on a card what tries them out takes memory of its own",
        f"leave it out; {MEASURED}",
    ),
    "flex_attention": (
        "it counts as one kernel, which keeps queries, keys, values, the result and its statistics; on a card that "
        "kernel is compiled",
        "with scaled_dot_product_attention in its place figures are exact; --gpu live measures it on a card",
    ),
    "backward across streams": (
        "a card runs each node of a backward in the stream of its forward, and here all ran in one",
        "call backward in the stream of the forward",
    ),
}
_MOST_PLACES = 4  # of reads that a note names


def of_version(trace: Trace, spec: GPUSpec) -> list[Note]:
    """That a simulated GPU followed the rules of another PyTorch than ran, or such as no recording has verified."""
    rules = spec.rules
    if trace.origin != "simulated" or rules.is_verified and not runs_another(rules):
        return []
    return [
        Note(
            f"the rules of PyTorch {rules.torch_version} were followed, and the program ran under {torch.__version__}",
            "versions differ in what they keep and take, and nothing has held this one to a recording",
            f"for exact figures run it under one that is verified: {', '.join(verified())}",
        )
    ]


def notes_of(trace: Trace) -> list[Note]:
    """What the trace itself says, a note for each reason; what makes figures differ most comes first.

    That is what ran otherwise than on a card; then what was refused, and what is compiled; then kernels and operators
    that are not modelled; then what cuDNN takes; then where values were read that nobody has computed, which as a rule
    are only shown; then where they were saved; then snapshots.
    """
    names = list(trace.notes.unmodelled)
    cudnn = [name for name in names if _CUDNN in name]
    operators = [name for name in names if name not in (*_BY_NAME, *cudnn) and not is_of_libraries(name)]
    *brought, paged = notes_of_libraries(names, trace.notes.managed_bytes)
    others = (
        _refused(list(trace.notes.refused)),
        *brought,
        _of_operators(operators),
        _of_cudnn(cudnn),
        _assumed(list(trace.notes.assumed)),
        _read(list(trace.notes.values_read)),
        _compiled(trace),
        paged,
        _saved([os.path.basename(place) for place in trace.notes.files_of_zeros]),
        _beside({os.path.basename(place): os.path.basename(to) for place, to in trace.notes.snapshots_beside.items()}),
    )
    return [_by_name(name) for name in _BY_NAME if name in names] + [note for note in others if note]


_CUDNN = " (cuDNN's "
N_CONVOLUTIONS, CONVOLUTION_BYTES = 224, 2_199_470_096
"""How many convolutions of published networks were measured on an H200 with PyTorch 2.11; the most cuDNN took for one.

Source: tests/reference/2.11.0/measured/convolutions.h200.json.gz."""
_MOST_FILES = 3


def _compiled(trace: Trace) -> Note | None:
    """That the compiler's kernels are there already: on a card the first run makes and times them."""
    if COMPILED not in trace.notes.operators or COMPILED in trace.notes.unmodelled or trace.origin != "simulated":
        return None
    return Note(
        "what torch.compile makes counts as where its kernels are in the compiler's cache",
        "a first run on a card also times kernels, and more stays reserved from that: a buffer as large as the "
        "card's L2 cache, and copies of what a kernel writes",
        "a second run of the same program is as here",
        is_of_figures=False,
    )


def without_compiler(trace: Trace) -> str:
    """That a program which compiles ran as it was written: "counted without torch.compile"; "" where it did not."""
    return f"counted without {COMPILED}" if COMPILED in trace.notes.unmodelled else ""


def _by_name(name: str) -> Note:
    return Note(f"{name} is not modelled", *_BY_NAME[name])


def _saved(names: list[str]) -> Note | None:
    if not names:
        return None
    few = ", ".join(names[:_MOST_FILES]) + (f" and {len(names) - _MOST_FILES:,d} more" * (len(names) > _MOST_FILES))
    return Note(
        f"what was saved has zeros for what a card would have computed: {few}",
        "nothing is computed here; an earlier file of weights is kept as NAME.kept",
        "do not go on training from it",
        is_of_figures=False,
    )


def _beside(names: dict[str, str]) -> Note | None:
    """Snapshots that were there, and what the program's own are called, which it dumped under their names."""
    if not names:
        return None
    more = f" and {len(names) - _MOST_FILES:,d} more" * (len(names) > _MOST_FILES)
    return Note(
        "the program's snapshot did not replace an earlier one, and was written as "
        + ", ".join(list(names.values())[:_MOST_FILES])
        + more,
        f"it is of a simulated GPU, and {', '.join(list(names)[:_MOST_FILES])}{more} may be of a real one, and "
        + ("stays as it was" if len(names) == 1 else "stay as they were"),
        is_of_figures=False,
    )


def _refused(places: list[str]) -> Note | None:
    """What the program asked for, and got an error that a card would not have given."""
    if not places:
        return None
    named, more = ", ".join(places[:_MOST_PLACES]), len(places) - _MOST_PLACES
    return Note(
        f"refused here: {named}" + f" and {more:,d} more" * (more > 0),
        "a card runs it, and what the program does after that is in no figure",
        "the error says what to write instead",
    )


def _of_operators(names: list[str]) -> Note | None:
    if not names:
        return None
    returns, takes, them = ("they return", "they take", "them") if len(names) > 1 else ("it returns", "it takes", "it")
    why = f"what {returns} is counted; what {takes} meanwhile is not known, and may add to peaks within {them}"
    return Note(listed(names, "not modelled"), why, MEASURED)


def _of_cudnn(names: list[str]) -> Note | None:
    if not names:
        return None
    operators = [name.partition(_CUDNN)[0].removeprefix("aten::") for name in names]
    reserve = ", nor the reserve that it keeps for backward" if any("reserve" in name for name in names) else ""
    why = f"what these return is counted; what cuDNN takes meanwhile is not known{reserve}"
    what = f"cuDNN's workspaces are not modelled ({', '.join(operators)})"
    room = "leave some room"
    if any("convolution" in name for name in operators):
        room += f": on an H200, {N_CONVOLUTIONS} convolutions took from nothing to {short(CONVOLUTION_BYTES)} each"
    return Note(what, why, f"{room}; {MEASURED}")


def not_counted(trace: Trace) -> str:
    """What operators took that is not known, as "without what cuDNN takes for nn.LSTM"; "" where all is."""
    names = [name for name in trace.notes.unmodelled if name not in _BY_NAME]
    cudnn = [name.partition(_CUDNN)[0] for name in names if _CUDNN in name]
    others = [name.removeprefix(TRITON) for name in names if _CUDNN not in name]
    of = [f"what cuDNN takes for {few(cudnn)}"] if cudnn else []
    of += [f"what {few(others)} {'takes' if len(others) == 1 else 'take'} meanwhile"] if others else []
    return f"without {' and '.join(of)}" if of else ""


_ASSUMED = {
    "nonzero=": "nonzero counts the elements of a mask that are true, or the values that differ",
    "routing=": "routing says how a router spreads tokens over its experts",
    NO_END: "a text without an end of sequence is as long as it may be",
}


def _assumed(names: list[str]) -> Note | None:
    """Sizes that depend on values, by what was assumed of these."""
    if not names:
        return None
    named, more = ", ".join(names[:_MOST_PLACES]), len(names) - _MOST_PLACES
    kinds = [said for kind, said in _ASSUMED.items() if any(name.startswith(kind) for name in names)]
    chosen = [f"--assume {kind}..." for kind in _ASSUMED if kind != NO_END and any(n.startswith(kind) for n in names)]
    return Note(
        f"sizes depend on computed values, and were assumed: {named}" + f" and {more:,d} more" * (more > 0),
        "; ".join(kinds),
        f"{' and '.join(chosen)} {'assume' if len(chosen) > 1 else 'assumes'} otherwise" if chosen else "",
    )


def _read(places: list[str]) -> Note | None:
    if not places:
        return None
    named, more = ", ".join(places[:_MOST_PLACES]), len(places) - _MOST_PLACES
    if more > 0:
        named += f" and {more} {'line' if more == 1 else 'lines'} more"
    return Note(
        f"values that are computed were read, as zeros, at {named}",
        "nothing is computed here, and a card gives the program others: what it allocates because of one, as a "
        "batch whose size is a count, or a loop that waits for a loss, is another there",
        "where it prints or logs single numbers, the bytes are the same",
        is_of_values=True,
    )


def of_card(trace: Trace, spec: GPUSpec) -> list[Note]:
    """That no build of PyTorch on PyPI runs on a simulated card; nothing of others."""
    if trace.origin != "simulated" or not spec.has_no_kernels:
        return []
    what, _, instead = spec.has_no_kernels.partition(": ")
    why, _, way_out = instead.partition(". ")
    return [Note(what, f"{why}. {BY_THE_RULES.format(spec.torch_version).rstrip('.')}", way_out)]
