"""Which remedies are put on top of one another: those that save and go together, first those of the same numbers."""

from dataclasses import dataclass
from functools import reduce

from every_byte.advice.ladder import in_fewer_parts, ladder, pairs
from every_byte.advice.remedy import Remedy


@dataclass(frozen=True)
class Pretended:
    """What was run, of which the ladder asks no more than this."""

    remedies: tuple[Remedy, ...]
    peak_bytes: int
    needed_bytes: int
    fits: bool
    keeps_values: bool


def remedy(name: str, kind: str, share: float, *, keeps_values=True, excludes=frozenset(), multiple_of=1) -> Remedy:
    return Remedy(name, kind, lambda step: share, "", keeps_values, multiple_of, excludes)


def run(remedies: tuple[Remedy, ...], room: int = 250) -> Pretended | None:
    """Each takes a share of what there was."""
    if any(one.name == "refused with others" for one in remedies) and len(remedies) > 1:
        return None
    peak = round(reduce(lambda n, one: n * one.apply(None), remedies, 1000))
    needed = peak - 50 if any(one.kind == "settings" for one in remedies) else peak
    return Pretended(remedies, peak, needed, needed <= room, all(one.keeps_values for one in remedies))


HALF = remedy("half", "regions", 0.5)
THIRD = remedy("a third less", "loss", 0.7)
OTHERS = remedy("other numbers", "precision", 0.4, keeps_values=False)
WORSE = remedy("worse", "optimizer", 1.1)
TWIN = remedy("half too", "regions", 0.6)
BACKWARD = remedy("backward", "step in backward", 0.8, excludes=frozenset({"loss"}))
SEGMENTS = remedy("segments", "settings", 1.0)


def names(found) -> list[str]:
    return [" + ".join(one.name for one in ran.remedies) for ran in found]


def climbed(*remedies: Remedy, room: int = 250) -> list[str]:
    singles = [run((one,)) for one in remedies]
    return names(ladder(run(()), singles, lambda chosen: run(chosen, room)))


def test_the_best_is_paired_with_the_next_best_of_other_kinds():
    singles = [run((one,)) for one in (WORSE, THIRD, TWIN, HALF, BACKWARD, SEGMENTS)]
    found = names(pairs(singles, run))
    assert found == ["half + a third less", "half + backward", "half + worse"]
    assert pairs([], run) == []


def test_same_numbers_come_first_and_it_stops_when_it_fits():
    assert climbed(OTHERS, HALF, THIRD) == ["half", "half + a third less", "half + a third less + other numbers"]
    assert climbed(OTHERS, HALF, THIRD, room=400) == ["half", "half + a third less"]


def test_what_does_not_save_or_go_together_is_left_out():
    assert climbed(WORSE, HALF, TWIN, THIRD, BACKWARD, room=1) == ["half", "half + a third less"]
    refused = remedy("refused with others", "optimizer", 0.9)
    assert climbed(HALF, refused, room=1) == ["half"]


def test_settings_come_last_where_segments_need_less():
    assert climbed(SEGMENTS, HALF, THIRD, room=300) == ["half", "half + a third less", "half + a third less + segments"]


PARTS = [remedy(f"{n} parts", "parts", 1 / n, multiple_of=n) for n in (8, 2, 4)]


def fewer(best: Remedy, *beside: Remedy, room: int) -> list[str]:
    singles = [run((one,)) for one in (HALF, *PARTS)]
    return names(in_fewer_parts(run((*beside, best), room), singles, lambda chosen: run(chosen, room)))


def test_several_remedies_take_as_few_parts_as_fit():
    assert fewer(PARTS[0], HALF, room=100) == ["half + 2 parts", "half + 4 parts"]
    assert fewer(PARTS[0], HALF, room=130) == ["half + 2 parts", "half + 4 parts"]
    assert fewer(PARTS[0], HALF, room=250) == ["half + 2 parts"]
    assert fewer(PARTS[1], HALF, room=250) == []
    assert fewer(PARTS[0], room=250) == []  # alone they all have been run
