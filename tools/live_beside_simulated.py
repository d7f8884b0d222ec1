"""Runs the same programs on this machine's own GPU and on a simulation of it, and says where the two agree.

    python tools/live_beside_simulated.py
    python tools/live_beside_simulated.py --beside    with another simulated GPU open around the live one's programs

Every public method of LiveGPU is called, and what it answers is set beside what SimulatedGPU answers. It needs PyTorch
and a GPU, and a process of its own: run it before anything else has allocated memory there. cuDNN's attention is left
out, for what its engines take is not known. Returns 1 if something differs that should not.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from every_byte.gpu.device import current_gpu
from every_byte.gpu.live.settings import followed_settings
from every_byte.gpu.memory.environment import ALLOCATOR
from every_byte.gpu.memory.specs import SPECS
from every_byte.measure.operators import blocks, out_of_memory
from every_byte.tables import Table
from utils import GPT, MLP, AllocatedMemContext, Block, Ledger, LiveGPU, SavedTensorContext, SimulatedGPU, open_gpu
from utils.experiments.training import adamw, random_tokens

# ------------------------------------------------------------------------------------------------------- programs
# Each yields a name wherever the figures of both GPUs are to be compared.


def training_steps(gpu) -> Iterator[str]:
    """An MLP with dropout, two steps of AdamW in the form that is the default on CUDA."""
    mlp = MLP(256, "gelu", 0.1, gpu.device, torch.bfloat16)
    optimizer = torch.optim.AdamW(mlp.parameters())
    for step in (1, 2):
        loss = mlp(torch.randn(4, 128, 256, device=gpu.device, dtype=torch.bfloat16)).square().mean()
        yield f"MLP, forward {step}"
        loss.backward()
        yield f"MLP, backward {step}"
        optimizer.step()
        yield f"MLP, AdamW {step}"
        optimizer.zero_grad()
    del loss  # the graph goes first: see SimulatedGPU.memory_stats


def transformer_block(gpu) -> Iterator[str]:
    """A block with attention and dropout, forward and backward, and what its two contexts measure."""
    block = Block(256, 4, "gelu", 0.1, gpu.device, torch.float16)
    x = torch.randn(2, 192, 256, device=gpu.device, dtype=torch.float16, requires_grad=True)
    with AllocatedMemContext(gpu) as mem, SavedTensorContext(block.parameters()) as saved:
        y = block(x)
    yield f"block, forward: {mem.delta['current']:,d} bytes allocated, {saved.saved_tensor_mem:,d} saved"
    with AllocatedMemContext(gpu) as mem:
        y.backward(torch.ones_like(y))
    yield f"block, backward: {mem.delta['allocated']:,d} bytes allocated, {mem.delta['freed']:,d} freed"
    del y  # as above


def under_autocast(gpu) -> Iterator[str]:
    """A small GPT, two steps under autocast with a fused AdamW; weights stay on after forward, cast."""
    model = GPT(1000, 64, 128, 2, 4, 0.1, gpu.device)
    optimizer = adamw(model)
    for step in (1, 2):
        tokens, targets = random_tokens(gpu, b=4, s=64, V=1000)
        with gpu.autocast(torch.float16):
            logits, loss = model(tokens, targets)
            yield f"GPT under autocast, forward {step}: logits in {logits.dtype}, loss in {loss.dtype}"
        loss.backward()
        yield f"GPT under autocast, backward {step}"
        optimizer.step()
        optimizer.zero_grad()
    del loss, logits  # as above


def pattern(gpu) -> Iterator[str]:
    """Blocks of many sizes, and counters that are set back."""
    yield from blocks(gpu)
    gpu.reset_peak_memory_stats()
    yield "reset_peak_memory_stats"
    gpu.reset_accumulated_memory_stats()
    gpu.empty_cache()
    yield "reset_accumulated_memory_stats, empty_cache"


PROGRAMS = (training_steps, transformer_block, under_autocast, pattern, out_of_memory)

# ---------------------------------------------------------------------------------------------- what a GPU answers


def stats_of(gpu) -> dict:
    """Every figure, by its key."""
    return dict(gpu.memory_stats())


def segments_of(gpu) -> list:
    """Segments and their blocks, each by its place in the segment: where a segment lies is the driver's choice."""
    return sorted(
        (
            *(segment[key] for key in ("total_size", "allocated_size", "active_size", "requested_size")),
            *(segment[key] for key in ("segment_type", "stream", "is_expandable")),
            tuple((b["address"] - segment["address"], b["size"], b["requested_size"], b["state"]) for b in blocks),
        )
        for segment in gpu.memory_snapshot()
        for blocks in [segment["blocks"]]
    )


FIGURES = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
STRUCTURES = {"memory_stats": stats_of, "memory_snapshot": segments_of}
CHANGES = ("synchronize", "empty_cache", "reset_peak_memory_stats", "reset_accumulated_memory_stats")
PROPERTIES = ("name", "major", "minor", "total_memory", "multi_processor_count", "max_threads_per_multi_processor")


@dataclass
class Answers:
    """What one GPU answered: at each instant of the programs, and once each."""

    instants: list[str] = field(default_factory=list)
    at_instants: dict[str, list] = field(default_factory=lambda: {name: [] for name in (*FIGURES, *STRUCTURES)})
    once: dict[str, object] = field(default_factory=dict)

    def note(self, instant: str, gpu) -> None:
        """Ask for everything that changes while a program runs."""
        gpu.synchronize()
        self.instants.append(instant)
        for name, answers in self.at_instants.items():
            answers.append(STRUCTURES[name](gpu) if name in STRUCTURES else getattr(gpu, name)())


def run(make: Callable, name) -> Answers:
    """Run all programs on the GPU that `make()` gives, and open it by `open_gpu(name)` too."""
    answers = Answers()
    once = answers.once
    with make() as gpu:
        once["with"] = f"is_open is {gpu.is_open}"
        once["load_libraries"] = taken_by(gpu, gpu.load_libraries), taken_by(gpu, gpu.load_libraries)
        for program in PROGRAMS:
            for instant in program(gpu):
                answers.note(instant, gpu)
        once["mem_get_info"] = gpu.mem_get_info()
        once["get_device_properties"] = tuple(getattr(gpu.get_device_properties(), name) for name in PROPERTIES)
        once |= {name: f"returns {getattr(gpu, name)()}" for name in CHANGES}
        once["autocast"] = products_under_autocast(gpu)
        once |= told_of_streams(gpu) | told_of_settings(gpu)
        once["look_around"] = owners_of_a_step(gpu, gpu.look_around)
        if hasattr(gpu, "trace"):  # a live GPU has one where it is opened as a scope
            once["trace"] = owners_of_a_step(gpu, lambda: gpu.trace)
        once |= {"name": gpu.name, "device": str(gpu.device), "origin": gpu.origin, "spec": gpu.spec}
        once |= {"is_open": str(gpu.is_open), "repr": repr(gpu)}
    once["close"] = f"returns {gpu.close()}; then is_open is {gpu.is_open}"
    opened = open_gpu(name)
    once["open_gpu"], once["current_gpu"] = type(opened).__name__, type(current_gpu()).__name__
    opened.close()
    return answers


def products_under_autocast(gpu) -> str:
    """The types of a product of float32 matrices, under each of autocast's."""
    x, found = torch.ones(2, 2, device=gpu.device), []
    for dtype in (torch.float16, torch.bfloat16):
        with gpu.autocast(dtype):
            found.append(str((x @ x).dtype))
    return ", ".join(found)


def told_of_streams(gpu) -> dict[str, object]:
    """What a tensor of another stream takes and gives back, once it waits for the first; by the names used."""
    side, event = gpu.Stream(), gpu.Event()
    with gpu.stream(side):
        x = torch.ones(1000, device=gpu.device)
        inside = gpu.current_stream() == side
        event.record()
    event.synchronize()
    x.record_stream(gpu.current_stream())
    held = gpu.memory_stats()["active_bytes.all.current"]
    del x
    waiting = gpu.memory_stats()["active_bytes.all.current"]
    streams = sorted({segment["stream"] != 0 for segment in gpu.memory_snapshot()})
    return {
        "Stream": str(streams),
        "Event": str(event.query()),
        "stream": (held - waiting, inside),
        "current_stream": str(gpu.current_stream() == side),
    }


def told_of_settings(gpu) -> dict[str, object]:
    """A fraction of memory, set and taken back; the settings of this machine, said once more."""
    before = gpu.get_per_process_memory_fraction()
    gpu.set_per_process_memory_fraction(0.5)
    half = gpu.get_per_process_memory_fraction()
    said = {"set_per_process_memory_fraction": f"returns {gpu.set_per_process_memory_fraction(before)}"}
    text = next((os.environ[name] for name in ALLOCATOR if name in os.environ), "")
    said["set_allocator_settings"] = f"returns {gpu.set_allocator_settings(text)}"
    return said | {"get_per_process_memory_fraction": f"{half}"}


def owners_of_a_step(gpu, trace_of: Callable) -> dict[str, int]:
    """Of a small model after backward, the bytes of each category of the ledger, but for what was there before."""
    before = Ledger.now(gpu).parts
    model = MLP(64, "gelu", 0.1, gpu.device)
    loss = model(torch.ones(4, 64, device=gpu.device)).sum()
    loss.backward()
    after = Ledger.at(trace_of()).parts
    return {name: n - before.get(name, 0) for name, n in after.items() if n != before.get(name, 0)}


def taken_by(gpu, function: Callable) -> int:
    """How many bytes a call leaves allocated."""
    before = gpu.memory_allocated()
    function()
    return gpu.memory_allocated() - before


# --------------------------------------------------------------------------------------------------- side by side

BY_NATURE = {
    "device": "meta tensors stand for a GPU's",
    "origin": "a simulated figure is not measured",
    "repr": "it names the kind",
    "mem_get_info": "the context's size is assumed, and others may use the GPU; the total agrees",
    "close": "a simulated GPU counts no more once it is closed; the machine's own goes on",
    "open_gpu": "the two kinds",
    "current_gpu": "the two kinds",
}
"""Answers that need not be the same, and why."""


def verdict(name: str, live, simulated) -> str:
    """Whether two answers agree, and if not, why."""
    if live == simulated:
        return "agree"
    if name == "mem_get_info" and live[1] != simulated[1] or name not in BY_NATURE:
        return "DIFFER" + differing(live, simulated)
    return f"differ by nature: {BY_NATURE[name]}"


def differing(live, simulated) -> str:
    """What differs between two answers that have parts."""
    if not isinstance(live, dict):
        return ""
    keys = [key for key in {**live, **simulated} if live.get(key) != simulated.get(key)]
    return ": " + ", ".join(f"{key} {live.get(key)} and {simulated.get(key)}" for key in keys)


def shown(answer) -> str:
    """An answer in a few words."""
    if isinstance(answer, dict):
        return f"{len(answer)} keys"
    if isinstance(answer, list):
        return f"{len(answer)} segments, {sum(len(segment[-1]) for segment in answer)} blocks"
    if isinstance(answer, tuple):
        return ", ".join(shown(part) for part in answer)
    if isinstance(answer, int):
        return f"{answer:,d}"
    return answer.name if hasattr(answer, "device_name") else str(answer)


def rows_at_instants(live: Answers, simulated: Answers) -> list[list[str]]:
    """One row per instant: the four figures, and whether all six answers agree."""
    rows = []
    for i, (one, other) in enumerate(zip(live.instants, simulated.instants, strict=True)):
        answers = {name: (live.at_instants[name][i], simulated.at_instants[name][i]) for name in live.at_instants}
        off = [] if one == other else [f"{one} and {other}"]
        off += [f"{name}: {verdict(name, *pair)}" for name, pair in answers.items() if pair[0] != pair[1]]
        rows.append([one, *(shown(answers[name][0]) for name in FIGURES), "; ".join(off) or "agree"])
    return rows


def rows_of_methods(live: Answers, simulated: Answers) -> list[list[str]]:
    """One row per method, attribute and function."""
    rows = []
    for name in live.at_instants:
        pairs = list(zip(live.at_instants[name], simulated.at_instants[name], strict=True))
        same = sum(one == other for one, other in pairs)
        agreed = f"{'agree' if same == len(pairs) else 'DIFFER'} at {same} of {len(pairs)} instants"
        rows.append([name, shown(pairs[-1][0]), shown(pairs[-1][1]), agreed])
    for name, one in live.once.items():
        rows.append([name, shown(one), shown(simulated.once[name]), verdict(name, one, simulated.once[name])])
    return rows


def known_spec(live: LiveGPU) -> str:
    """What the book's own spec of this GPU says otherwise, if it has one."""
    facts = ("capability", "total_bytes", "multiprocessors", "threads_per_multiprocessor")
    spec = next((spec for spec in SPECS.values() if spec.device_name == live.spec.device_name), None)
    if spec is None:
        return "The book knows no GPU of this name."
    off = [f"{fact} {getattr(live.spec, fact)} here, {getattr(spec, fact)} there" for fact in facts]
    off = [text for text, fact in zip(off, facts, strict=True) if getattr(live.spec, fact) != getattr(spec, fact)]
    return f"The book's {spec.name}: {'; '.join(off) or 'the same size, architecture and multiprocessors'}."


def main(argv: Sequence[str] = ()) -> int:
    """Run everything, print the tables, and return 1 if something differs that should not."""
    parser = argparse.ArgumentParser(description="The live GPU beside its simulation.")
    parser.add_argument(
        "--beside", action="store_true", help="open another simulated GPU around the live one's programs"
    )
    beside = parser.parse_args(argv).beside
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU on this machine: there is nothing to set beside a simulation.")
        return 0
    torch.backends.cuda.enable_cudnn_sdp(False)
    gpu = LiveGPU()
    settings, followed = followed_settings(gpu.device)
    if beside:  # the live one is not opened as a scope, which would set the simulated one aside
        with SimulatedGPU("t4-16gb"):
            live = run(lambda: nullcontext(LiveGPU()), "live")
    else:
        live = run(LiveGPU, "live")
    simulated = run(lambda: SimulatedGPU(gpu.spec, settings=settings), gpu.spec)
    instants, methods = rows_at_instants(live, simulated), rows_of_methods(live, simulated)
    print(f"{gpu.name}, PyTorch {torch.__version__}; simulated by the rules of PyTorch {gpu.spec.torch_version}")
    print(*followed, sep="\n", end="\n" if followed else "")
    print(known_spec(gpu), end="\n\n")
    head = ["after", *FIGURES, "all six answers"]
    print(Table("Bytes on the live GPU at each instant, and whether the simulated GPU agrees", head, instants).text())
    print()
    print(Table("Every method", ["name", "live", "simulated", ""], methods).text())
    differ = [row for row in [*instants, *methods] if "DIFFER" in row[-1] or row in instants and row[-1] != "agree"]
    print(f"\n{len(instants)} instants, {len(methods)} methods and functions: {len(differ)} differ that should not")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
