"""How many numbers a decoder has, how many of them are trained, and what an optimizer keeps for these."""

from .decoder_settings import MASTERS, DecoderSettings
from .families import Family, family_of
from .settings import STEP_BYTES

VALUES_BYTES = 2 * 256 * 4
"""What bytes of an 8-bit average stand for: 256 float32 numbers for each of both."""
AT_ONCE = 1 << 25
"""Numbers that are floats at once in a step of the 8-bit optimizer."""


def parameter_count(settings: DecoderSettings) -> str:
    """The number of the model's parameters; a table of positions, if it is trained, among them."""
    return count_of(family_of(settings), settings.is_tied)


def count_of(family: Family, is_tied: bool) -> str:
    """The same of a family."""
    positions = f" + {family.positions}" if family.positions else ""
    return f"L*({family.weights} + 2*d) + d + {'' if is_tied else '2*'}V*d{positions}"


def trained_count(settings: DecoderSettings) -> str:
    """The number of those that are trained: all, or the adapters alone."""
    return f"L*{family_of(settings).adapter_weights}" if settings.is_adapted else parameter_count(settings)


def n_tensors(settings: DecoderSettings) -> str:
    """How many tensors these are."""
    family = family_of(settings)
    if settings.is_adapted:
        return f"{2 * family.n_linears}*L"
    others = 2 + (not settings.is_tied) + bool(family.positions)  # the last norm, and embeddings
    return f"{family.n_linears + 2}*L + {others}"


def state_size(settings: DecoderSettings) -> str:
    """What the optimizer keeps on the GPU, in bytes: "0" for nothing.

    Counts: not float32 masters, which are parameters. Of the 8-bit optimizer 2n + 8 ceil(n/256) for a
            tensor of n >= 4,096 numbers, else 8n; matrices are taken to be that large.
    """
    if settings.offload.startswith("optimizer"):
        return "0"
    each = 4 if settings.precision == MASTERS else settings.weight_bytes
    return _state(settings, each, trained_count(settings))


def values_size(settings: DecoderSettings) -> str:
    """What each optimizer with bytes has beside them, in bytes: what these stand for."""
    if settings.optimizer != "AdamW, 8-bit" or settings.offload.startswith("optimizer"):
        return "0"
    return f"{VALUES_BYTES}*({n_tensors(settings) if settings.steps_in_backward else '1'})"


def _state(settings: DecoderSettings, each: int, count: str) -> str:
    name = settings.optimizer
    if name == "SGD":
        return "0"
    if name == "Adafactor":
        return f"{each}*({_factored(settings)})"
    if name == "AdamW, 8-bit":
        return _in_bytes(settings)
    steps = f" + {STEP_BYTES}*({n_tensors(settings)})" if name.endswith("fused") else ""
    return f"{2 * each}*({count}){steps}"


def _factored(settings: DecoderSettings) -> str:
    """Numbers: of a matrix one for each row and each column, of what is no matrix one for each element."""
    family = family_of(settings)
    if settings.is_adapted:
        return f"L*({2 * family.n_linears}*r + {family.all_sides})"
    positions = " + s + d" if family.positions else ""
    return f"L*({family.all_sides} + 2*d) + d + {'' if settings.is_tied else '2*'}(V + d){positions}"


def _in_bytes(settings: DecoderSettings) -> str:
    family = family_of(settings)
    if settings.is_adapted:
        scales = " + ".join(f"{n}*up(r*{side}/256, 1)" for side, n in family.sides.items())
        return f"2*L*{family.adapter_weights} + 8*L*({scales})"
    scales = " + ".join(f"{n}*up({size}/256, 1)" for size, n in family.matrices.items())
    positions = f" + 2*{family.positions} + 8*up({family.positions}/256, 1)" if family.positions else ""
    embeddings = 1 if settings.is_tied else 2
    is_large = "(2 - up(2/up((d + 1)/4096, 1), 1))"  # 1 where d >= 4096, else 0
    norm = f"({is_large}*(2*d + 8*up(d/256, 1)) + (1 - {is_large})*8*d)"
    weights = f"2*(L*({family.weights}) + {embeddings}*V*d) + 8*(L*({scales}) + {embeddings}*up(V*d/256, 1))"
    return f"{weights}{positions} + (2*L + 1)*{norm}"


def in_step_size(settings: DecoderSettings) -> str:
    """What a step takes for itself where it takes most, in bytes, all gradients beside it.

    Counts: of AdamW's foreach form a square root for each matrix at once, each tensor with masters; of its loop two
            for one parameter at a time, the largest, and a smaller one that is still there. Of the 8-bit optimizer
            M bytes, or N beside a gradient in float32, which `eight_bit_step` gives for the vocabulary's matrix. Not
            what Adafactor's sums take.
    """
    is_master, count = settings.precision == MASTERS, trained_count(settings)
    each = 4 if is_master else settings.weight_bytes
    if settings.offload.startswith("optimizer"):  # a gradient crosses as it is, and becomes float32 on the host
        return "0"
    if settings.is_adapted:
        matrices, two = count, f"3*{largest(settings)}"
    else:
        embeddings = "V*d" if settings.is_tied else "2*V*d"
        family = family_of(settings)
        if family.positions:
            embeddings = f"{embeddings} + {family.positions}"
        matrices = count if is_master else f"L*({family.weights}) + {embeddings}"
        before = "d" if is_master else "d*f"  # masters stand in the model's order; else matrices come first
        two = "2*V*d" + ("" if settings.is_tied else f" + {before}")
        if family.positions and settings.is_long:  # the step behind the tokens', of which one is there still
            two = f"V*d + 2*{family.positions}"
    in_bytes = f"{21 if each == 4 else 25}*{largest(settings)}" if settings.is_adapted else eight_bit_size(each)
    return _taken(settings, f"{each}*({matrices})", f"{each}*({two})", in_bytes, f"{each}*{largest(settings)}")


def _taken(settings: DecoderSettings, foreach: str, loop: str, in_bytes: str, factored: str) -> str:
    """What the step's optimizer takes of these; "0" for one that writes in place."""
    of_each = {"AdamW, foreach": foreach, "AdamW, loop": loop, "AdamW, 8-bit": in_bytes, "Adafactor": factored}
    return of_each.get(settings.optimizer, "0")


def eight_bit_size(each: int) -> str:
    """The letter of what the 8-bit optimizer has beside the vocabulary's gradient of so many bytes a number."""
    return "N" if each == 4 else "M"


def eight_bit_step(n: int, each: int) -> tuple[int, int]:
    """What it has beside a gradient of n numbers, of so many bytes each, where it has most; and what comes last then.

    A part has 25 bytes a number where it writes; where the second reads its first average, it has 20, and three floats
    a number of the first part have a name still. In float32, whose gradient is no copy, that is 21 and 16.

    Counts: for an n that is a multiple of 256, so that the last block is whole.
    Unit:   bytes, both.
    """
    wide = 0 if each == 4 else 4
    first, second = min(n, AT_ONCE), min(max(n - AT_ONCE, 0), AT_ONCE)
    writes, reads = (21 + wide) * first, 12 * first + (16 + wide) * second
    return (writes, first) if writes > reads or not second else (reads, 4 * second)


def one_step_size(settings: DecoderSettings, matrix: str = "V*d") -> str:
    """The same for one step in backward: that of a vocabulary's matrix, or of one of a block, whose gradient is there.

    Counts: of a block's for the 8-bit optimizer m bytes, which `eight_bit_step` gives.
    """
    each = settings.weight_bytes
    if settings.offload.startswith("optimizer"):
        return "0"
    in_bytes = eight_bit_size(each) if matrix == "V*d" else "m"
    return _taken(settings, f"{each}*{matrix}", f"{2 * each}*{matrix}", in_bytes, f"{each}*{matrix}")


def largest(settings: DecoderSettings) -> str:
    """The numbers of the largest tensor that is trained, f being d at least."""
    return "r*f" if settings.is_adapted else "V*d"
