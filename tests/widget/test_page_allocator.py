"""The allocator of a page answers what PyTorch's answered: in the same recordings that hold the book's own to it."""

import pytest
from in_node import in_node, needs_node
from reference_files import files_with_events, load

from every_byte.gpu.memory.allocator import CachingAllocator
from every_byte.gpu.memory.out_of_memory import OutOfMemory
from every_byte.units import GiB

pytestmark = needs_node

SEQUENCES = load("allocator_sequences", "a100")["sequences"]
REPLAY = """given.map(({ capacity, operations }) => {
  const allocator = new Allocator(capacity), live = new Map();
  return operations.map(([operation, number, bytes]) => {
    if (operation === "malloc") live.set(number, allocator.malloc(bytes));
    else if (operation === "free") { allocator.free(live.get(number)); live.delete(number); }
    else if (operation === "empty_cache") allocator.emptyCache();
    else if (operation === "reset_peak") allocator.peak = allocator.allocated;
    else if (operation === "layout") return allocator.layout().map((blocks) => blocks.map(Object.values));
    const { allocated, requested, reserved, peak } = allocator;
    return [allocated, requested, reserved, peak, operation === "malloc" && !live.get(number)];
  });
})"""


def figures(allocator: CachingAllocator, failed: bool = False) -> list:
    return [
        allocator.allocated_bytes, allocator.requested_bytes, allocator.reserved_bytes, allocator.max_allocated_bytes,
        failed,
    ]  # fmt: skip


def layout(snapshot: list[dict]) -> list:
    """Segments and blocks of a snapshot, as the page tells them."""
    return [[_block(block) for block in segment["blocks"]] for segment in snapshot]


def _block(block: dict) -> list:
    is_active = block["state"] != "inactive"
    return [block["size"], block["requested_size"] if is_active else 0, is_active]


def of_sequence(sequence: dict) -> tuple[list, list]:
    """The operations of a recorded random sequence, and what each gave, as the book's allocator says."""
    allocator, live, operations, expected = CachingAllocator(sequence["capacity_bytes"]), {}, [], []
    for operation, *arguments in sequence["operations"]:
        if operation == "check":
            operations.append(["layout"])
            expected.append(layout(arguments[1]))
            continue
        number, *more = arguments[:-1] or [None]
        failed = operation == "oom"
        if failed:
            with pytest.raises(OutOfMemory):
                allocator.malloc(more[0])
        elif operation == "malloc":
            live[number] = allocator.malloc(more[0])
        elif operation == "free":
            allocator.free(live.pop(number))
        else:
            getattr(allocator, operation)()
        same = {"oom": "malloc", "reset_peak_memory_stats": "reset_peak"}
        operations.append([same.get(operation, operation), number, *more])
        expected.append(figures(allocator, failed))
    return operations, expected


def test_recorded_random_sequences_end_on_the_same_figures_and_segments():
    cases = [(sequence["capacity_bytes"], *of_sequence(sequence)) for sequence in SEQUENCES]
    found = in_node(REPLAY, [{"capacity": capacity, "operations": operations} for capacity, operations, _ in cases])
    for number, (_, operations, expected) in enumerate(cases):
        for place, (operation, here, there) in enumerate(zip(operations, found[number], expected, strict=True)):
            assert here == there, f"sequence {number}, operation {place}: {operation}"


@pytest.mark.parametrize("card", sorted({card for _, card in files_with_events()}))
def test_recorded_programs_reserve_and_hold_what_pytorch_did(card):
    cases, marks = [], []
    names = [name for name, of in files_with_events() if of == card]
    for name in names:
        operations, of_case = [], {}
        for action, *rest in load(name, card)["events"]:
            if action in ("alloc", "free"):
                operations.append([{"alloc": "malloc"}.get(action, action), *rest[:2]])
            elif action == "mark":
                of_case[len(operations)] = rest[0]
                operations.append(["reset_peak"])
        cases.append({"capacity": 80 * GiB, "operations": operations})
        marks.append(of_case)
    for name, found, of_case in zip(names, in_node(REPLAY, cases), marks, strict=True):
        before = [found[place - 1] if place else [0, 0, 0, 0, False] for place in of_case]
        told = [
            {"name": mark, "requested": requested, "allocated": allocated, "reserved": reserved, "peak": peak}
            for mark, (allocated, requested, reserved, peak, _) in zip(of_case.values(), before, strict=True)
        ]
        assert told == load(name, card)["marks"], name
