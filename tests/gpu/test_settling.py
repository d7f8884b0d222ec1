"""Pools that are back at different times: what a replay tells is what it tells where all of it is carried out."""

import random

import pytest

from every_byte.gpu.memory.settings import AllocatorSettings
from every_byte.gpu.requests import ROOMY_BYTES, Requests
from every_byte.gpu.settling import Settling
from every_byte.units import KiB, MiB

SMALL = [KiB, 3 * KiB, 100 * KiB, 300 * KiB, 700 * KiB]
LARGE = [2 * MiB, 7 * MiB, 13 * MiB, 30 * MiB]


def program(seed: int, text: str = "") -> Requests:
    """Two steps alike that make buffers anew, in both pools, beside others for a moment."""
    draw = random.Random(seed)
    sizes = [draw.choice(SMALL) for _ in range(3)] + [draw.choice(LARGE) for _ in range(3)]
    plan = [(draw.randrange(6), draw.choice(SMALL + LARGE), draw.random() < 0.5) for _ in range(9)]
    requests, kept = [], {}

    def ask(n_bytes: int) -> int:
        requests.append((len(requests), len(requests), n_bytes, 0))
        return requests[-1][1]

    def free(number: int) -> None:
        requests.append((len(requests), number, 0, 0))

    for slot, n_bytes in enumerate(sizes):
        kept[slot] = ask(n_bytes)
    for _ in range(2):
        start, found, passing = len(requests), dict(kept), []
        for slot, n_bytes, stays in plan:
            passing.append(ask(n_bytes))
            old, kept[slot] = kept[slot], ask(sizes[slot])
            free(old)
            if not stays:
                free(passing.pop())
        for number in passing:
            free(number)
    renamed = {found[slot]: kept[slot] for slot in found if found[slot] != kept[slot]}
    return Requests(requests, start, AllocatorSettings.parse(text), renamed)


def whole(run: Requests, capacity_bytes: int, monkeypatch) -> object:
    """The same, where no pool stays behind."""
    with monkeypatch.context() as patched:
        patched.setattr(Settling, "__init__", _never_parted(Settling.__init__))
        return run.replay(capacity_bytes, capacity_bytes)


def _never_parted(init):
    return lambda self, allocator, moving, *, may_part: init(self, allocator, moving, may_part=False)


@pytest.mark.long
@pytest.mark.parametrize("text", ["", "expandable_segments:True", "max_split_size_mb:20"])
def test_it_is_what_all_of_it_tells(text, monkeypatch):
    """Of many programs, where there is room for all, and down to where there is not."""
    n_tight = 0
    for seed in range(25):
        run = program(seed, text)
        roomy = run.replay(ROOMY_BYTES, ROOMY_BYTES)
        for less_bytes in (0, 2 * MiB, 12 * MiB, 20 * MiB, 32 * MiB):
            capacity_bytes = roomy.max_reserved_bytes - less_bytes
            found, expected = run.replay(capacity_bytes, capacity_bytes), whole(run, capacity_bytes, monkeypatch)
            n_tight += expected.n_retries > 0 and expected.failed_at is None
            expected.is_settled = found.is_settled  # with all of it a replay may end before
            assert found == expected, (seed, less_bytes)
    assert n_tight, "some must get through only by what goes back to the driver"


def test_pools_in_different_rhythms_are_settled_when_the_slower_is():
    """Never later than when both are at once, and sometimes before."""
    found = {seed: _repeats(program(seed)) for seed in range(12)}
    assert all(apart <= together for apart, together in found.values())
    assert any(apart < together for apart, together in found.values()), found


def _repeats(run: Requests) -> list[int]:
    """After how many it is settled: as it is, and as a whole, as with a rest."""
    last = len(run.requests)
    rest = [(last, last, KiB, 0), (last + 1, last, 0, 0)]
    both = run, Requests(run.requests, run.start, run.settings, run.renamed, rest)
    settled = [lambda n, one=one: one.replay(ROOMY_BYTES, ROOMY_BYTES, at_most=n).is_settled for one in both]
    return [next(filter(one, range(65))) for one in settled]
