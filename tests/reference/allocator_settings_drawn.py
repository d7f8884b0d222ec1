"""The settings, sizes and cards of the sequences that record_allocator_settings.py records, drawn from fixed seeds.

The first have settings drawn at random. Then come some with the default settings and small blocks that several streams
use, freed in bursts: the order in which they come back shows in the figures. In the next, garbage is collected from
many segments of one block. The last are scripts, at the edges of rules.
"""

import random

from every_byte.units import KiB, MiB

DRAWN, SHARED = 56, 4
COLLECTING = (0.3, 0.5, 0.7)
"""Thresholds of the garbage collection."""

SCRIPTS = (
    # what may be left over of an oversize block: 20 MiB less a byte, or what the last text says
    ({"max_split_size_mb": 32}, 300, (
        52, ("free", 0), 32, 33, ("free", 2), {"max_split_size_mb": 32, "max_non_split_rounding_mb": 24}, 32,
        ("free", 3), {"max_split_size_mb": 32}, 32,
    )),
    # two oversize segments are just enough
    ({"max_split_size_mb": 32}, 100, (40, 40, ("free", 0), ("free", 1), 80)),
    # garbage of just as many bytes as are too many
    ({"garbage_collection_threshold": 0.5, "per_process_memory_fraction": 0.5}, 200, (
        20, 20, ("free", 0), 34, ("free", 2), 36,
    )),
    # of two blocks of an expandable segment, one may grow to just what the other has
    ({"expandable_segments": "True"}, 100, (60, 20, 20, ("free", 0), ("free", 2), 10)),
    # segments of 11 MiB take pages of 2
    ({"large_segment_size_mb": 11}, 23, (3, 9, ("free", 0), 9)),
    ({"roundup_power2_divisions": "[1:2,4:4,>:8]"}, 300, (1.2, 2.3, 4.5, 8.7, 17.2, 33.1)),
)  # fmt: skip
"""Settings, MiB of the card, and operations, of which a number is a malloc of so many MiB."""

N_SEQUENCES = DRAWN + SHARED + len(COLLECTING) + len(SCRIPTS)
CHOICES = {
    "expandable_segments": ("True", "True", "False"),
    "large_segment_size_mb": (11, 12, 15, 16, 24, 32, 48),
    "max_split_size_mb": (20, 21, 24, 32, 48, 64),
    "max_non_split_rounding_mb": (20, 22, 32, 48),
    "roundup_power2_divisions": (1, 2, 4, 8, "[1:2,4:4,16:8,>:1]", "[2:8,8:0,32:2]", "[16:4]", "[64:1,>:0]"),
    "garbage_collection_threshold": (0.3, 0.5, 0.6, 0.8, 0.95),
    "per_process_memory_fraction": (0.5, 0.7, 0.8, 0.9, 1.0),
    "throw_on_cudamalloc_oom": ("True", "True", "False"),
}
WITH = {"max_non_split_rounding_mb": "max_split_size_mb", "garbage_collection_threshold": "per_process_memory_fraction"}
"""Without the other, the setting does nothing."""

DEFAULTS = {"expandable_segments": "False", "large_segment_size_mb": 20}
"""Of the settings that stay as they are where a later text does not name them."""

NOT_LESS_THAN_A_LARGE_SEGMENT = ("max_split_size_mb", "max_non_split_rounding_mb")
SHARED_EDGES = tuple(n * KiB for n in (64, 128, 256))
COLLECTED_EDGES = tuple(n * MiB for n in (10, 12, 14, 18, 24, 30))
EDGES = tuple(n * KiB for n in (0.5, 1, 512)) + tuple(n * MiB for n in (1, 2, 3, 5, 9, 10, 20))
LARGE_EDGES = tuple(n * MiB for n in (3, 9, 10, 12, 16, 18, 20, 24))
CAPACITIES = tuple(n * MiB for n in (45, 64, 85, 100, 129, 160, 200, 256, 300, 400))


def drawn_settings(rng, names, before):
    """A value for each of these settings, and for those that they need; none that PyTorch or a driver refuses."""
    drawn = {name: rng.choice(CHOICES[name]) for name in sorted({*names, *(WITH[n] for n in names if n in WITH)})}
    if "garbage_collection_threshold" in drawn:
        drawn["per_process_memory_fraction"] = rng.choice(CHOICES["per_process_memory_fraction"][:-1])
    now = before | drawn
    if now["expandable_segments"] == "True" and now["large_segment_size_mb"] % 2:
        drawn["large_segment_size_mb"] = now["large_segment_size_mb"] + 1  # pages are multiples of 2 MiB
    for name in NOT_LESS_THAN_A_LARGE_SEGMENT:
        if name in drawn:
            drawn[name] = max(drawn[name], (before | drawn)["large_segment_size_mb"])
    # A block that is a part of its segment must not become oversize later: PyTorch would give it to the driver as if it
    # were all of it, and end with "CUDA error: invalid argument".
    if "max_split_size_mb" in drawn and before is not DEFAULTS:
        if "max_split_size_mb" in before:
            drawn["max_split_size_mb"] = max(drawn["max_split_size_mb"], before["max_split_size_mb"])
        else:
            del drawn["max_split_size_mb"]
    return drawn


def text_of(settings):
    """As PYTORCH_ALLOC_CONF has it."""
    return ",".join(f"{name}:{value}" for name, value in settings.items())


def sequence_settings(seed):
    """Settings, sizes around which requests are drawn, and the bytes that the card has for segments."""
    special = seed - DRAWN - SHARED
    if special >= len(COLLECTING):
        settings, capacity_mb, _ = SCRIPTS[special - len(COLLECTING)]
        return settings, (), capacity_mb * MiB
    if special >= 0:
        settings = {"garbage_collection_threshold": COLLECTING[special], "per_process_memory_fraction": 0.9}
        return settings, COLLECTED_EDGES, 400 * MiB
    if seed >= DRAWN:
        return {}, SHARED_EDGES, CAPACITIES[seed % len(CAPACITIES)]
    return random_settings(seed)


def random_settings(seed):
    """Each setting alone, twice; then several at once."""
    rng, names = random.Random(f"settings {seed}"), list(CHOICES)
    chosen = [names[seed % len(names)]] if seed < 2 * len(names) else rng.sample(names, rng.randint(2, 5))
    settings = drawn_settings(rng, chosen, DEFAULTS)
    if seed < 2 * len(names):
        settings = {name: "True" if value == "False" else value for name, value in settings.items()}
    edges = EDGES if seed % 3 == 0 else LARGE_EDGES
    edges += tuple(value * MiB for name, value in settings.items() if name.endswith("_mb"))
    if "max_split_size_mb" in settings:
        over = settings["max_split_size_mb"]
        edges += (over * MiB, (over + settings.get("max_non_split_rounding_mb", 20)) * MiB)
    return settings, edges, rng.choice(CAPACITIES)


def script_of(seed):
    """The script of a sequence, if it has one."""
    number = seed - DRAWN - SHARED - len(COLLECTING)
    return SCRIPTS[number][2] if number >= 0 else None
