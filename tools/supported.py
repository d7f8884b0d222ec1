"""Writes book/supported.md, which libraries `every-byte run` knows, and how: `python -m tools.supported`.

How many recorded programs hold a library, of which versions and on which cards, comes from the recordings; how many
public programs with it were compared comes from tests/reference/programs/verdicts.md. The words are here.
"""

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers"), str(ROOT / "tools" / "programs")]

from compare import ALL  # noqa: E402
from marked import LIBRARIES  # noqa: E402

from every_byte.whole_files import write_whole  # noqa: E402

PAGE = ROOT / "book" / "supported.md"
VERDICTS = ROOT / "tests" / "reference" / "programs" / "verdicts.md"
CARDS = {"a100": "A100", "h100": "H100", "t4": "T4", "rtx4090": "RTX 4090"}
SAME = ("right", "same", "named, same")
"""Verdicts of programs whose every figure is that of the CUDA build."""


@dataclass(frozen=True)
class Library:
    """A row: what runs, and what does not.

    `recorded` are patterns of programs of tests/reference/libraries, as "subject.program", and `module` is the library
    whose version those recordings name. `packages` are names in the lists of tools/programs.
    """

    name: str
    runs: str
    not_: str = ""
    recorded: tuple[str, ...] = ()
    module: str = ""
    packages: tuple[str, ...] = ()
    by_source: bool = False


HEAD = """# What is supported

`every-byte run` takes your script with the libraries it imports. Most of them call PyTorch's operators, and need
nothing else. Some bring CUDA kernels of their own. This page says for each library how far its figures are known.

- **Recorded**: programs with the library were run on PyTorch's CUDA build, without a GPU, and the simulated GPU takes
  the same bytes at every mark.
- **Compared**: public programs with the library, unmodified, were run on both sides for three steps. The page counts
  those whose every figure is the same.
- **Tried**: programs with it ran here, and on the CUDA build where that can. No test repeats that.
- **By its source**: the package could not be run without a card. What its code allocates was read, and the report
  says "not exact".

The report of your own run says which of these holds for it. `python -m tools.supported` writes this page from the
recordings.

"""

FINE_TUNING = (
    Library(
        "bitsandbytes",
        "layers in NF4 and FP4 with and without double quantization, LLM.int8, embeddings, loading in 4 and 8 "
        "bits, saving and merging; "
        "all optimizers in 8 and 32 bits, also paged. What lies in managed memory is told beside the allocator's "
        "figures",
        "kernels of other libraries that ctypes loads: the report names each, with the function that was called",
        ("layers_in_few_bits.*", "optimizers_in_few_bits.*"),
        "bitsandbytes",
    ),
    Library(
        "Liger Kernel",
        "its layers and losses, and models that it patches",
        "",
        ("triton_kernels.liger*",),
        "liger_kernel",
    ),
    Library(
        "Triton",
        "your own kernels: a launch takes nothing. `@triton.autotune` allocates its buffer and takes the first "
        "choice, because no time passes here",
        "scratch memory of a kernel, where the program sets `triton.set_allocator`: named in the report",
        ("triton_kernels.*",),
        "triton",
    ),
    Library(
        "transformers",
        "models, `Trainer`, `generate` up to the longest text, `device_map` on one card, `torch_compile=True`",
        "several cards in one process: the error says what to do",
        packages=("transformers",),
    ),
    Library(
        "peft, TRL",
        "LoRA and QLoRA, SFT, DPO, rewards, GRPO. Values that a size depends on are assumed, and the report says which",
        "vLLM as the generator",
        packages=("peft", "trl"),
    ),
    Library(
        "accelerate",
        "DDP and FSDP by `accelerate launch` with its settings, one of the ranks",
        "",
        packages=("accelerate",),
    ),
    Library(
        "DeepSpeed",
        "ZeRO 1, 2 and 3, offload to the CPU, `Trainer(deepspeed=...)`, the `deepspeed` launcher; its own Adam, "
        "Lion and Adagrad, for which "
        "nothing is compiled",
        "FusedLamb and other extensions that are compiled: the report names them",
    ),
    Library(
        "torchao",
        "FP8 training, optimizers in 8 bits and FP8, quantized weights",
        "AdamW in 4 bits differs from the CUDA build, whose first run compiles",
    ),
    Library("Lightning", "`Trainer` and Fabric, `fabric run`", "", packages=("lightning",)),
    Library("timm, diffusers", "training scripts of both", "", packages=("timm", "diffusers")),
    Library(
        "FlashAttention",
        "`flash_attn_func` and its forms for packed tensors, sequences of several lengths and a cache, also where "
        "the package is not "
        "installed. By the source of 2.8.3",
        "FlashAttention 3, pages of keys in training",
        by_source=True,
    ),
)
NOT = (
    (
        "xformers, Transformer Engine, Apex",
        "kernels of their own, without a stand-in",
        "PyTorch's `scaled_dot_product_attention` and layers",
    ),
    (
        "mamba_ssm, causal_conv1d, vLLM",
        "extensions that need CUDA to be installed",
        "`every-byte run --gpu live` on a card",
    ),
    ("JAX, TensorFlow", "another allocator", "nothing here"),
)
TAIL = """
## When your library is not here

Run the script. A library that only calls PyTorch is known as well as PyTorch is. If it brings kernels, the report
says "not exact" and names what is not known. [Your own program](your_own_program.md) lists what stops a run and what
to do.
"""


def recorded(library: Library) -> str:
    """How recordings know it: "" if none does."""
    if not library.recorded:
        return ""
    found = [f"{n} on {title}" for card, title in CARDS.items() if (n := _n_recorded(library, card))]
    versions = ", ".join(sorted(LIBRARIES.versions[library.module]))
    return f"recorded: version {versions}, programs: {', '.join(found)}"


def _n_recorded(library: Library, card: str) -> int:
    names = [".".join(one) for one, each in LIBRARIES.recorded(card).items() if each["warm"]]
    return sum(any(fnmatch(name, pattern) for pattern in library.recorded) for name in names)


def compared(library: Library) -> str:
    """How many public programs with it take the CUDA build's bytes: "" if none was compared."""
    rows = [line.strip("| ").split(" | ") for line in VERDICTS.read_text(encoding="utf-8").splitlines()]
    verdicts = {row[0]: row[-1] for row in rows if len(row) > 8}
    with_it = [
        one.name for one in ALL.values() if set(library.packages) & set(one.packages.split()) and one.name in verdicts
    ]
    counts = Counter(verdicts[name] in SAME for name in with_it if verdicts[name] in (*SAME, "differs"))
    return f"compared: {counts[True]} of {counts.total()} programs the same" if counts else ""


def table() -> str:
    """A row for each library."""
    lines = ["| library | what runs | how it is known | what does not |", "|---|---|---|---|"]
    for library in FINE_TUNING:
        known = (
            "by its source" if library.by_source else "; ".join(filter(None, (recorded(library), compared(library))))
        )
        lines.append(f"| {library.name} | {library.runs} | {known or 'tried'} | {library.not_} |")
    return "\n".join(lines) + "\n"


def not_supported() -> str:
    """What has no stand-in."""
    rows = "\n".join(f"| {name} | {why} | {way} |" for name, why, way in NOT)
    return f"\n## Not supported\n\n| library | why | what to use |\n|---|---|---|\n{rows}\n"


def page() -> str:
    """The whole page."""
    return HEAD + table() + not_supported() + TAIL


def main() -> None:
    """Write it, or check that it is as it would be written."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is another")
    if not parser.parse_args().check:
        write_whole(PAGE, page())
    elif page() != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"{PAGE.name} is not what python -m tools.supported writes")


if __name__ == "__main__":
    main()
